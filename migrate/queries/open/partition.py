"""A store partition as a query reads it: its definition, its place, and its stored entries at one time, opened.

The definition is what a person says: files tell neither the serdes nor the times that the application configures.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from formats import Conversion, Format, Function
from formats.serde import BYTES, Serde
from migrate.dual.dual_scan import ConvertedScan, DualScan
from migrate.dual.lazy_conversion import KeyFunction, LazyConversion, hub_conversion
from migrate.dual.store_paths import MAX_SKIPS
from migrate.errors import InvalidStateStoreError, RefusedError, StoreNotReadyError
from migrate.model.store_partition import StorePartition
from migrate.stores.cursor_file import CURSOR_FILE, PairIdentity, read_cursor
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.layout import identity_of, is_rocksdb
from migrate.stores.rocksdb.live import Family, read_only_family
from migrate.stores.rocksdb.openings import HeldDirectory, open_held
from migrate.stores.rocksdb.scan import OnColumns, TooManyTombstonesError, damaged, refuse_columns
from migrate.stores.state_store import BatchSource, Record
from migrate.systems import known_format
from migrate.systems.base import System
from migrate.systems.checkpoint_file import parse_position
from migrate.systems.families import family_mappings


@dataclass(frozen=True)
class StoreDefinition:
    """How to read the store of one name: its files tell neither its serdes nor the times that are configured."""

    format: str
    """The id of its format, such as `kafka-streams.timestamped-key-value`."""
    key: Serde = BYTES
    value: Serde = BYTES
    family: str | None = None
    """The column family of a format that holds any, such as `rocksdb.raw`; None: the only one there is."""
    retention_ms: int | None = None
    """Older records are left out; None: none is."""
    segment_ms: int | None = None
    """The time in ms that each segment covers; None: as the system derives it from the retention."""
    window_size_ms: int | None = None
    """The size of each window, which a window store does not hold; None: results have no window end."""
    partitions: int | None = None
    """The number of partitions of the store, on all hosts; None: not known."""

    @cached_property
    def stored(self) -> Format:
        """The format with these serdes. Raises SpecError where there is none of this id."""
        return replace(known_format(self.format), key_serde=self.key, value_serde=self.value)


class Entries(Protocol):
    """The entries of one RocksDB directory, or of an old and a new one read as one, as their format stores them.

    Safe to share between threads. Raises CorruptionError where the files are damaged.
    """

    def get(self, key: bytes) -> bytes | None:
        """The stored value of a stored key, or None."""

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        """The entries in [start, end), None: unbounded, in the order of keys or the reverse."""

    @property
    def estimated_records(self) -> int:
        """An estimate of the number of entries."""


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """One RocksDB directory of a store partition."""

    start_ms: int | None
    """The segment's start, in ms since the epoch; None: the store has no segments."""
    entries: Entries


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Opened:
    """A store partition, opened: what it held at one time. The files stay open as long as this object lives."""

    format: Format
    """With the serdes of keys and values."""
    segments: tuple[OpenSegment, ...]
    """The oldest first; one without a start where the store has no segments."""
    position: dict[tuple[str, int], int]
    """By (topic, partition), the offset of the last input record that the store reflects; empty: not known."""
    tag: str
    """Differs between two openings that may hold different entries."""
    as_of_ms: int | None = None
    """The time of the newest file, where a running owner may have written since; None: the store is at rest."""
    written_ms: int | None = None
    """The time of the newest file in any case; None: there is none, or the owner is this process."""


class Partition(Protocol):
    """One store partition on this host, by whatever files it has at present. Safe to share between threads."""

    @property
    def id(self) -> str:
        """`<task>/<store>`, or the name of a RocksDB directory by itself."""

    @property
    def number(self) -> int | None:
        """The partition's number; None: a bare RocksDB directory has none."""

    def opened(self) -> Opened:
        """The store partition as it is now; cheap enough to ask before each read.

        Raises StateStoreMigratedError once the store was replaced by another one, StoreNotReadyError while it is being
        moved, StoreClosedError once it was closed.
        """

    def recent(self) -> Opened:
        """The same without a look at whether it was replaced: what is read from it is an answer only after `check`."""

    def check(self) -> None:
        """Raise the errors of `opened` where the store was replaced since: asked after a read, before its answer."""


class HeldEntries:
    """One column family of a RocksDB directory whose files are held open."""

    def __init__(
        self,
        directory: HeldDirectory,
        database: Database,
        family: str,
        own: tuple[bytes, ...] = (),
        on_columns: OnColumns | None = None,
    ) -> None:
        """`own`: what the keys begin with that are the owning system's, and no records; `on_columns`: for wide-column
        records, where the store may have them."""
        self._directory = directory
        self._family = read_only_family(database, family, on_columns)
        self._family.where = f"column family {family!r} of {directory.name}"
        self._read: Callable[[bytes], bytes | None] = self._family.get
        self._own = own

    def get(self, key: bytes) -> bytes | None:
        """The stored value of a stored key, or None. Raises CorruptionError, and TypeError for what is no bytes."""
        try:
            value = self._read(key)
        except RefusedError:
            raise
        except Exception as error:
            if isinstance(key, bytes):
                raise damaged(self._family.where, key, str(error)) from error
            raise TypeError("keys are bytes") from error
        return value if not self._own or not key.startswith(self._own) else None

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        scan = self._family.scan(start, end, reverse=reverse)
        return _WithoutOwn(scan, self._own) if self._own else scan

    @property
    def estimated_records(self) -> int:
        return self._family.estimated_records


@dataclass(frozen=True, slots=True)
class _WithoutOwn:
    """A scan without the owning system's own entries."""

    scan: BatchSource
    own: tuple[bytes, ...]

    def pull(self, limit: int) -> list[Record]:
        while records := self.scan.pull(limit):
            if left := [record for record in records if not record[0].startswith(self.own)]:
                return left
        return []

    def close(self) -> None:
        self.scan.close()


@dataclass(frozen=True, slots=True)
class MergedEntries:
    """New entries, and the converted old ones of keys that have none; the old store was opened first."""

    new: Entries
    old: Entries
    conversion: LazyConversion

    def get(self, key: bytes) -> bytes | None:
        """The new value of a new key, or None. Raises ConversionError where the old record cannot be converted."""
        value = self.new.get(key)
        if value is not None or (old_key := self.conversion.old_key_of(key)) is None:
            return value
        if (old_value := self.old.get(old_key)) is None:
            return None
        record = self.conversion.one(old_key, old_value)
        return None if record is None or record[0] != key else record[1]

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        """Both, merged. Raises ConversionError where it reaches an old record that cannot be converted."""
        changes_keys = self.conversion.changes_keys
        old = self.old.scan(None, None, reverse=reverse) if changes_keys else self.old.scan(start, end, reverse=reverse)
        converted = ConvertedScan(old, self.conversion, start, end, reverse=reverse)
        new = self.new.scan(start, end, reverse=reverse)
        return DualScan(new, converted, reverse=reverse, fails_at_once=changes_keys)

    @property
    def estimated_records(self) -> int:
        return self.new.estimated_records + self.old.estimated_records


@dataclass(frozen=True)
class Site:
    """One store partition's place, and how it is read there."""

    path: Path
    """The store partition's own directory."""
    application: Path
    partition: StorePartition
    system: System
    definition: StoreDefinition
    position: str | None = None
    """The text of its position file as it was, where the one beside it is another store's; None: read that one."""
    successor: Path | None = None
    """Once something is there, this store partition has been replaced by it."""
    foreign: frozenset[str] = frozenset()
    """RocksDB's identities of the store that can be in this place instead."""
    convert: Function | None = None
    """What its adapter was opened with, and its files do not tell."""
    old_key: KeyFunction | None = None

    @property
    def number(self) -> int | None:
        return self.system.layout.number(self.partition)

    @property
    def is_in_application(self) -> bool:
        """Whether it lies where its owner looks for it."""
        return self.path == self.application / self.partition.path

    @property
    def lock_files(self) -> list[Path]:
        """The lock files that its owner holds; none where its owner does not look for it."""
        layout = self.system.layout
        return layout.lock_files(self.application, [self.partition]) if self.is_in_application else []

    def segments(self, held: HeldDirectory) -> list[tuple[int | None, HeldDirectory]]:
        """The RocksDB directories in it, by the start of their segment, the oldest first."""
        if not self.partition.has_segments:
            return [(None, held)]
        named = ((self.system.segments.start(self.partition.store, name), name) for name in os.listdir(held.path))  # noqa: PTH208
        starts = sorted((start, name) for start, name in named if start is not None)
        found = ((start, HeldDirectory(Path(name), held)) for start, name in starts)
        return [(start, directory) for start, directory in found if is_rocksdb(directory.path)]

    def offsets(self, directories: list[HeldDirectory]) -> dict[tuple[str, int], int]:
        """Its position, asked for before its files are opened: it is never ahead of them."""
        if self.position is not None:
            return parse_position(self.position)
        stated = self.system.offsets.read(self.application, self.partition) if self.is_in_application else None
        if stated is None or stated.own_file is None:
            stated = self.system.offsets.within(
                self.application.name, self.partition, (each.path for each in reversed(directories))
            )
        return parse_position(stated.own_file)


@dataclass(frozen=True, slots=True)
class OpenDatabase:
    """One RocksDB directory of a store partition, and an adapter's old one where that is another."""

    directory: HeldDirectory
    start_ms: int | None
    entries: Entries
    databases: tuple[Database, ...]
    cursor: Path | None = None
    """The file of an adapter, which is there until its stores have converged."""

    @property
    def is_current(self) -> bool:
        """Whether it would be opened as it is now."""
        return all(each.view.is_current() for each in self.databases)

    @property
    def content(self) -> object:
        """Changes with what it holds."""
        return self.start_ms, [(each.content(), self.directory.identity) for each in self.databases]


def open_database(site: Site, start_ms: int | None, directory: HeldDirectory) -> OpenDatabase:
    """Open one RocksDB directory. Raises RefusedError where it is damaged, or not of the format that was named."""
    if (directory.path / CURSOR_FILE).exists():
        return _open_half_converged(site, start_ms, directory)
    database = open_held(directory)
    entries = _entries(directory, database, site.definition.stored, site.definition.family)
    return OpenDatabase(directory, start_ms, entries, (database,))


def _entries(directory: HeldDirectory, database: Database, stored: Format, family: str | None) -> Entries:
    """The records, with those of families from before an upgrade, which the owner moves when it meets them."""
    try:
        mapped = [each.source for each in family_mappings(database.families, stored, stored, directory.name)]
    except RefusedError as error:
        hint = "name the format that the store has in its definition; `stateferry inspect` shows what is there"
        raise InvalidStateStoreError(error.message, hint=hint) from error
    name = family or mapped[0]
    if name not in mapped or (family is None and len(mapped) > 1):
        raise InvalidStateStoreError(
            f"{directory.name} has the column families {', '.join(mapped)}"
            + (f", and no {family!r}" if family else ""),
            hint="name one of them in the store's definition: family=...",
        )
    on_columns = None if stored.on_columns is None else refuse_columns
    entries: Entries = HeldEntries(directory, database, name, stored.metadata_keys, on_columns)
    for older in stored.older_families:
        if older.name in database.families and _has_records(read_only_family(database, older.name)):
            before = replace(stored, value_layout=older.value_layout, column_families=(older.name,))
            old = HeldEntries(directory, database, older.name, stored.metadata_keys)
            entries = MergedEntries(entries, old, LazyConversion(Conversion(before, stored)))
    return entries


def _has_records(family: Family) -> bool:
    """Whether a family has records, or so many deleted ones that to know it takes long."""
    try:
        return family.first(max_skips=MAX_SKIPS) is not None
    except TooManyTombstonesError:
        return True


def _open_half_converged(site: Site, start_ms: int | None, directory: HeldDirectory) -> OpenDatabase:
    """The new and the old store of an adapter, the old one opened first: a key on its way is in one of them at least.

    In one directory both are of one time.
    """
    cursor = read_cursor(directory.path)
    if cursor is None:
        raise _in_transit(directory)
    pair = cursor.pair
    defined = site.definition.stored.id
    if defined != pair.target:
        raise InvalidStateStoreError(
            f"{directory.name} is half converged from {pair.source} to {pair.target}, and is defined as {defined}",
            hint=f"define it as what it becomes: {pair.target}",
        )
    is_shared = pair.old_identity == pair.new_identity
    if not is_shared and identity_of(directory.path) != pair.new_identity:
        raise InvalidStateStoreError(
            f"{directory.name} is the old store of an adapter that converts it into another directory",
            hint="ask for the new store, in that directory",
        )
    old_directory = directory if is_shared else _old_directory(directory, pair)
    old_database = open_held(old_directory)
    database = old_database if is_shared else open_held(directory)
    if pair.source_family not in old_database.families or pair.target_family not in database.families:
        raise _in_transit(directory)
    source = known_format(pair.source)
    hub = hub_conversion(source, known_format(pair.target), site.convert)
    entries = MergedEntries(
        HeldEntries(directory, database, pair.target_family),
        HeldEntries(old_directory, old_database, pair.source_family, on_columns=source.on_columns),
        LazyConversion(hub, site.old_key),
    )
    databases = (database,) if is_shared else (database, old_database)
    return OpenDatabase(directory, start_ms, entries, databases, directory.name / CURSOR_FILE)


def _old_directory(directory: HeldDirectory, pair: PairIdentity) -> HeldDirectory:
    """The directory beside this one that an adapter empties into it, wherever the two were moved."""
    for path in sorted(directory.name.parent.iterdir()):
        if is_rocksdb(path) and identity_of(path) == pair.old_identity:
            return HeldDirectory(path)
    raise InvalidStateStoreError(
        f"{directory.name} is half converged, and the old store is not beside it in {directory.name.parent}",
        hint="query it in the process of its adapter: QueryableStores.of_adapter",
    )


def _in_transit(directory: HeldDirectory) -> StoreNotReadyError:
    return StoreNotReadyError(f"an adapter begins or ends its work in {directory.name}", hint="retry with backoff")
