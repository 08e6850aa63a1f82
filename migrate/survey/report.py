"""What `inspect` tells: values, to be shown as text or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from migrate.model.preview import Shown
from migrate.model.reports import State
from migrate.model.values import Report, Value


class RecordShown(Value):
    """One record as it lies there: nothing is decoded."""

    key: Shown
    value: Shown


class Likeness(Value):
    """How many of some records look like a format that fits: a hint, never a reason to choose it."""

    format: str
    sampled: int
    decoded: int
    """These are what the format says."""
    alike: int
    """These make sense besides: their times are neither long ago nor far ahead."""


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
    likeness: tuple[Likeness, ...] = ()
    """Of some of its records, for each format that may be theirs."""
    closed_first: float = 0.0
    """Share of these records whose keys look like those of a store that emits when windows or sessions close."""
    error: str | None = None
    """Why its records cannot be read, or not to their end."""


class DatabaseReport(Value):
    """One RocksDB directory."""

    path: str
    """Relative to the inspected path."""
    role: str = ""
    """What it is where it lies, in words; empty: its place does not tell."""
    store_partition: str = ""
    """Of a system's store: "0_0/orders"."""
    segment_start_ms: int | None = None
    """Of a segment, by its name: milliseconds since the epoch."""
    families: tuple[FamilyReport, ...] = ()
    formats: tuple[str, ...] = ()
    """Ids of the known formats whose column families these are; bytes are never guessed at."""
    sst_files: int = 0
    size: int
    """Bytes on disk."""
    sequence_number: int = 0
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


class UnsupportedStore(Value):
    """Why a store cannot be converted."""

    name: str
    """What it is, in words."""
    is_certain: bool
    """Its name or a column family says so; else it only looks so."""
    reason: str
    instead: str
    """What can be done."""


class StoreReport(Value):
    """A store of a system, over all the tasks that were looked at."""

    name: str
    system: str
    application: Path
    kind: Literal["key-value", "window", "session", "windowed or session"]
    """From the names of directories and column families, which do not always tell windows from sessions."""
    store_partitions: tuple[str, ...]
    """Task and store: "0_0/orders"."""
    segments: int
    """RocksDB directories of a windowed or session store."""
    first_segment_ms: int | None = None
    """When the oldest segment begins: milliseconds since the epoch."""
    last_segment_ms: int | None = None
    """The same of the newest."""
    size: int = 0
    """Bytes on disk."""
    records: int
    exact: bool
    """Counted; else RocksDB's estimate, of what could be read."""
    unfinished: int = 0
    """Of them, in column families that an upgrade which is not finished has left behind."""
    column_families: tuple[str, ...]
    formats: tuple[str, ...]
    """Those of its system that fit all its RocksDB directories, by column families."""
    likeness: tuple[Likeness, ...] = ()
    """Of some of its records, for each of these formats."""
    hint: str = ""
    """What that comes to, in words: to be checked by somebody who knows the application."""
    unsupported: UnsupportedStore | None = None
    """None: nothing tells that it cannot be converted."""


class PlaceReport(Value):
    """A directory that is some system's."""

    path: Path
    system: str
    """As in formats' ids; or `stateferry` itself, or one that this version does not migrate."""
    is_certain: bool = True
    """The names say so and nothing else; where they do not, `sentence` says what is ambiguous."""
    can_be_migrated: bool = False
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
