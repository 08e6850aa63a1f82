"""The plan: chunks, and what they were made for. Stored before any copy, immutable."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from migrate.errors import RefusedError
from migrate.keyrange import KeyRange, Stored
from migrate.store_partition import StorePartition
from migrate.stores.files import write_durably

PLAN_SCHEMA = 1


class Chunk(Stored):
    """A key range of one RocksDB directory of a store partition, over all its data column families (I3)."""

    partition: str
    database: str
    number: int
    keys: KeyRange
    estimated_bytes: int

    def __str__(self) -> str:
        return f"{self.partition} chunk {self.number} {self.keys}"


class Lane(Stored):
    """Records of the column family `source` go to the family `target` of the new store."""

    source: str
    target: str


class DatabasePlan(Stored):
    """One RocksDB directory of the source."""

    partition: str
    database: str
    lanes: tuple[Lane, ...]
    carried_families: tuple[str, ...]
    """The owning system's own families, copied as they are (I7)."""
    compression: str
    data_bytes: int
    """Keys and values before compression, estimated from the files' own properties."""


class Plan(Stored):
    """A plan revision: the same migration may be cut into other chunks."""

    schema_version: Literal[1] = PLAN_SCHEMA
    migration_id: str
    revision: int
    identity: dict[str, str]
    """What the migration_id is made of, by name, so that a change can be named."""
    chunk_size: int
    program: str | None
    """The byte program in words; None: the reference path serves."""
    warnings: tuple[str, ...]
    partitions: tuple[StorePartition, ...]
    databases: tuple[DatabasePlan, ...]
    chunks: tuple[Chunk, ...]

    def database(self, partition: str, database: str) -> DatabasePlan:
        """The plan of one RocksDB directory."""
        return next(d for d in self.databases if (d.partition, d.database) == (partition, database))


def store_plan(home: Path, plan: Plan) -> None:
    """Write the plan, durably."""
    write_durably(_file(home, plan.revision), plan.model_dump_json(indent=1).encode())


def load_plan(home: Path) -> Plan | None:
    """The newest plan revision, or None. Raises RefusedError for one of a newer schema or a damaged one."""
    files = sorted(home.glob("plan-*.json"))
    if not files:
        return None
    try:
        return Plan.model_validate_json(files[-1].read_bytes())
    except ValueError as error:
        raise RefusedError(
            f"{files[-1]} cannot be read as a plan of schema {PLAN_SCHEMA}: {str(error).splitlines()[0]}",
            hint="a newer Stateferry wrote it, or it is damaged: use that version, or remove the migration's folder",
        ) from error


def _file(home: Path, revision: int) -> Path:
    return home / f"plan-{revision:04d}.json"
