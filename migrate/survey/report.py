"""What `inspect` tells: values, to be shown as text or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from migrate.dry_run.report import Shown
from migrate.report_model import Report, State, Value


class RecordShown(Value):
    """One record as it lies there: nothing is decoded."""

    key: Shown
    value: Shown


class FamilyReport(Value):
    """One column family."""

    name: str
    records: int
    exact: bool
    """Counted; else RocksDB's estimate."""
    record_bytes: int | None
    """Keys and values, counted."""
    digest: str | None
    comparator: str | None
    merge_operator: str | None
    compression: str | None
    format_version: int | None
    samples: tuple[RecordShown, ...] = ()
    """The first records in key order, at most three."""
    entries: tuple[str, ...] = ()
    """Of the owning system's own family: what it holds, in words."""
    error: str | None = None
    """Why its records cannot be read, or not to their end."""


class DatabaseReport(Value):
    """One RocksDB directory."""

    path: str
    """Relative to the inspected path."""
    role: str = ""
    """What it is where it lies, in words; empty: its place does not tell."""
    families: tuple[FamilyReport, ...]
    formats: tuple[str, ...]
    """Ids of the known formats whose column families these are; bytes are never guessed at."""
    sst_files: int
    size: int
    """Bytes on disk."""
    sequence_number: int
    half_converged: str | None = None
    """How far a lazy adapter came, in words; its records lie in two places then."""
    rocksdb_version: str | None = None
    """Of the RocksDB that opened it for writing last."""
    held_by: int | None = None
    """The process that has it open for writing; 0: one of another host."""
    error: str | None = None
    """Why it cannot be read; what is said above is what could be."""
    hint: str = ""
    """What to do about that."""


class StoreReport(Value):
    """A store of a system, over all the tasks that were looked at."""

    name: str
    system: str
    application: Path
    kind: Literal["key-value", "windowed or session"]
    """From directory names: they do not tell windows from sessions."""
    store_partitions: tuple[str, ...]
    """Task and store: "0_0/orders"."""
    segments: int
    """RocksDB directories of a windowed or session store."""
    records: int
    exact: bool
    """Counted; else RocksDB's estimate, of what could be read."""
    column_families: tuple[str, ...]
    formats: tuple[str, ...]
    """Those of its system that fit all its RocksDB directories, by column families."""


class PlaceReport(Value):
    """A directory that is some system's."""

    path: Path
    system: Literal["kafka-streams", "streamiz", "quix-streams", "faust", "spark", "delta", "stateferry", "rocksdb"]
    is_certain: bool
    """The names say so and nothing else; where they do not, `sentence` says what is ambiguous."""
    can_be_migrated: bool
    """By this version."""
    sentence: str


class MigrationReport(Value):
    """A migration of ours, as its plan and its ledger tell."""

    path: Path
    """Its own folder in a work_dir."""
    name: str
    state: State | None
    """None: `error` says why."""
    chunks_planned: int = 0
    chunks_left: int = 0
    records_in: int = 0
    store_partitions: tuple[str, ...] = ()
    snapshot: Path | None = None
    last_commit_ms: int | None = None
    """Milliseconds since the epoch."""
    error: str | None = None


class OwnerReport(Value):
    """A process that holds locks here."""

    pid: int
    """0: of another host."""
    command: str
    """The program's name; empty where the system does not tell."""
    files: tuple[Path, ...]


class InspectReport(Report):
    """All that lies at or below a path."""

    path: Path
    places: tuple[PlaceReport, ...] = ()
    stores: tuple[StoreReport, ...] = ()
    databases: tuple[DatabaseReport, ...]
    migrations: tuple[MigrationReport, ...] = ()
    owners: tuple[OwnerReport, ...] = ()
    warnings: tuple[str, ...] = ()
