"""The report of `inspect`: values, printed as text or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from migrate.model.preview import Shown
from migrate.model.reports import State
from migrate.model.values import Report, Value


class RecordShown(Value):
    """One record as it is stored, not decoded."""

    key: Shown
    value: Shown


class Likeness(Value):
    """How many of a sample's records look like a format that fits: a hint, never a reason to choose the format."""

    format: str
    sampled: int
    decoded: int
    """Records that decode as the format."""
    alike: int
    """Records whose times are plausible besides: neither long ago nor far ahead."""


class FamilyReport(Value):
    """One column family."""

    name: str
    records: int
    exact: bool
    """Counted; else RocksDB's estimate."""
    record_bytes: int | None
    """Keys and values, counted."""
    digest: str | None
    comparator: str | None = None
    merge_operator: str | None = None
    compression: str | None = None
    format_version: int | None = None
    samples: tuple[RecordShown, ...] = ()
    """The first records in key order, at most three."""
    entries: tuple[str, ...] = ()
    """The content of the owning system's metadata family, in words."""
    likeness: tuple[Likeness, ...] = ()
    """The likeness of a sample to each format that fits."""
    names: dict[str, int] = Field(default_factory=dict)
    """How many keys of that sample have each name that the application gave to values of one kind."""
    closed_first: float = 0.0
    """Share of that sample whose keys look like those of a store that emits when windows or sessions close."""
    error: str | None = None
    """Why its records cannot be read, or not all of them."""


class DatabaseReport(Value):
    """One RocksDB directory."""

    path: str
    """Relative to the inspected path."""
    role: str = ""
    """What it is by its place, in words; empty: not known."""
    store_partition: str = ""
    """The store partition of a system's store: "0_0/orders"."""
    segment_start_ms: int | None = None
    """The start of a segment, by its name: milliseconds since the epoch."""
    families: tuple[FamilyReport, ...] = ()
    formats: tuple[str, ...] = ()
    """Ids of the known formats with these column families; the records are not considered."""
    sst_files: int = 0
    size: int
    """Bytes on disk."""
    sequence_number: int = 0
    half_converged: str | None = None
    """The progress of a lazy adapter, in words; the store's records are in two directories then."""
    rocksdb_version: str | None = None
    """The version of RocksDB that last opened it for writing."""
    held_by: int | None = None
    """The process that has it open for writing; 0: a process of another host."""
    error: str | None = None
    """Why it cannot be read; the other fields hold what could be read."""
    hint: str = ""
    """What to do about the error."""


StoreKind = Literal["key-value", "window", "session", "windowed or session"]


class UnsupportedStore(Value):
    """Why a store cannot be converted."""

    name: str
    """The kind of store, in words."""
    is_certain: bool
    """Known from its name or a column family; else it is only likely."""
    reason: str
    instead: str
    """What to do instead."""


class StoreReport(Value):
    """A store of a system, over all the tasks that were inspected."""

    name: str
    system: str
    application: Path
    kind: StoreKind
    """Derived from the names of directories and column families, which do not always tell windows from sessions."""
    store_partitions: tuple[str, ...]
    """Each as task and store: "0_0/orders"."""
    segments: int
    """Number of RocksDB directories of a windowed or session store."""
    first_segment_ms: int | None = None
    """Start of the oldest segment: milliseconds since the epoch."""
    last_segment_ms: int | None = None
    """Start of the newest segment."""
    size: int = 0
    """Bytes on disk."""
    records: int
    exact: bool
    """Counted; else RocksDB's estimate of what can be read."""
    unfinished: int = 0
    """Records in pre-upgrade column families, part of `records`: an upgrade is not finished."""
    column_families: tuple[str, ...]
    formats: tuple[str, ...]
    """Ids of the system's formats that fit all RocksDB directories of the store, by column families."""
    likeness: tuple[Likeness, ...] = ()
    """The likeness of a sample to each of these formats."""
    hint: str = ""
    """The same as a sentence: to be checked by a person who knows the application."""
    names: dict[str, int] = Field(default_factory=dict)
    """How many keys of a sample have each name that the application gave to values of one kind, the most first."""
    unsupported: UnsupportedStore | None = None
    """None: no reason is known why it cannot be converted."""


class PlaceReport(Value):
    """A directory that belongs to a system."""

    path: Path
    system: str
    """The system as in formats' ids, `stateferry`, or a system that this version does not migrate."""
    is_certain: bool = True
    """The names in the directory are unambiguous; else `sentence` says what is ambiguous."""
    can_be_migrated: bool = False
    """Whether this version migrates it."""
    sentence: str


class MigrationReport(Value):
    """A migration, read from its plan and its ledger."""

    path: Path
    """The migration's folder in a work_dir."""
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
    """Process id; 0: a process of another host."""
    command: str
    """The program's name; empty: not known."""
    files: tuple[Path, ...]


class InspectReport(Report):
    """Everything found at or below a path."""

    path: Path
    places: tuple[PlaceReport, ...] = ()
    stores: tuple[StoreReport, ...] = ()
    databases: tuple[DatabaseReport, ...]
    migrations: tuple[MigrationReport, ...] = ()
    owners: tuple[OwnerReport, ...] = ()
    warnings: tuple[str, ...] = ()
