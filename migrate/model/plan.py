"""The plan: chunks, and what they were made for. Stored before any copy, immutable."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from pydantic import AliasChoices, Field, ValidationError

from migrate.errors import RefusedError
from migrate.model.key_range import KeyRange, tiling_flaw
from migrate.model.store_partition import StorePartition, place_name
from migrate.model.values import Stored

PLAN_SCHEMA: Final = 1
_WAY_OUT = (
    "restore the file, or remove it and rerun: the same migration is planned again, and what is finished is kept; "
    "stateferry abandon SPEC begins anew, and removes our files and nothing else"
)


class Chunk(Stored):
    """A key range of one RocksDB directory of a store partition, over all its data column families (I3)."""

    store_partition: str
    database: str
    number: int
    keys: KeyRange
    estimated_bytes: int

    def __str__(self) -> str:
        return f"{place_name(self.store_partition, self.database)} chunk {self.number} {self.keys}"


class FamilyMapping(Stored):
    """The column family `source` of the old store, and the family `target` of the new one that its records go to."""

    source: str
    target: str
    compression: str = "kNoCompression"
    """Compression of the new SST files, as RocksDB spells it."""
    older: tuple[str, ...] = ()
    """Pre-upgrade families of a store in upgrade mode: their records count where `source` lacks the key."""


class TimeSlice(Stored):
    """Half-open, in milliseconds since the epoch."""

    start_ms: int
    end_ms: int

    def __str__(self) -> str:
        return f"[{self.start_ms}, {self.end_ms})"


class Input(Stored):
    """A RocksDB directory of the source that a new one is made of."""

    database: str
    times: TimeSlice | None = None
    """The times of all its records, where it is a segment of known size; None: they are not looked at."""


class DatabasePlan(Stored):
    """One RocksDB directory of the new store, and what it is made of."""

    store_partition: str
    database: str
    """Relative to the new store partition."""
    mappings: tuple[FamilyMapping, ...] = Field(
        validation_alias=AliasChoices("lanes", "mappings"), serialization_alias="lanes"
    )
    carried_families: tuple[str, ...]
    """The owning system's own families, copied as they are (I7)."""
    data_bytes: int
    """Keys and values before compression, estimated from the files' own properties."""
    inputs: tuple[Input, ...] = ()
    """Of the source, the newest first; none: the one of the same name."""
    times: TimeSlice | None = None
    """Only the inputs' records of these times belong here; None: all."""
    carried_from: tuple[str, ...] = ()
    """RocksDB directories of the source whose own families are carried, the newest first; none: the inputs'."""
    is_kept: bool = True
    """False: its records are older than the new store's retention; they are counted, and left behind."""

    @property
    def sources(self) -> tuple[Input, ...]:
        """The RocksDB directories of the source to read."""
        return self.inputs or (Input(database=self.database),)

    @property
    def carriers(self) -> tuple[str, ...]:
        """Those whose own families are carried."""
        return self.carried_from or tuple(source.database for source in self.sources)


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
    program_fingerprint: str | None
    warnings: tuple[str, ...]
    store_partitions: tuple[StorePartition, ...]
    databases: tuple[DatabasePlan, ...]
    chunks: tuple[Chunk, ...]
    new_partitions: tuple[StorePartition, ...] = ()
    """The store partitions as they will lie in the new store, under the ids that they have in the old one; none: as
    they lie there."""
    asked_for_changelog_ends: bool = False
    """Where they matter; False in plans of earlier releases, which did not ask."""

    def new_partition(self, partition: StorePartition) -> StorePartition:
        """As it will lie in the new store."""
        return next((each for each in self.new_partitions if each.id == partition.id), partition)

    def database(self, partition: str, database: str) -> DatabasePlan:
        """The plan of one RocksDB directory."""
        return next(d for d in self.databases if (d.store_partition, d.database) == (partition, database))


def coverage_flaw(plan: Plan) -> str | None:
    """The first RocksDB directory whose chunks do not run from the first to the last possible key (I3)."""
    ranges: dict[tuple[str, str], list[KeyRange]] = {
        (each.store_partition, each.database): [] for each in plan.databases
    }
    for chunk in plan.chunks:
        if (chunk.store_partition, chunk.database) not in ranges:
            return f"{chunk} is of no RocksDB directory that it names"
        ranges[chunk.store_partition, chunk.database].append(chunk.keys)
    for place, keys in ranges.items():
        if (flaw := tiling_flaw(keys)) is not None:
            return f"the chunks of {place_name(*place)} {flaw}"
    return None


def newest_plan(home: Path) -> Path | None:
    """The file of the newest plan revision."""
    return max(home.glob("plan-*.json"), default=None)


def _unreadable(file: Path, content: str, error: ValidationError) -> RefusedError:
    version = re.search(r'"schema_version": ?(\d+)', content)
    if version is not None and int(version[1]) > PLAN_SCHEMA:
        return RefusedError(
            f"{file} has schema {int(version[1])}, this version knows {PLAN_SCHEMA}",
            hint="use the newer Stateferry that wrote it",
        )
    first = error.errors()[0]
    reason = ": ".join([*map(str, first["loc"]), first["msg"]])
    return RefusedError(f"{file} is damaged: {reason}", hint=_WAY_OUT)


def _file(home: Path, revision: int) -> Path:
    return home / f"plan-{revision:04d}.json"
