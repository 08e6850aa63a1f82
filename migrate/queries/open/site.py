"""Where a store partition lies and how it is read, and opening one RocksDB directory of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from formats import Conversion, Format, Function
from migrate.dual.conversion import KeyFunction, LazyConversion, hub_conversion
from migrate.dual.places import MAX_SKIPS
from migrate.errors import InvalidStateStoreError, RefusedError, StoreNotReadyError
from migrate.model.store_partition import StorePartition
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.entries import HeldEntries, MergedEntries
from migrate.queries.open.partition import Entries
from migrate.stores.cursor_file import CURSOR_FILE, PairIdentity, read_cursor
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.held import HeldDirectory, open_held
from migrate.stores.rocksdb.layout import identity_of, is_rocksdb
from migrate.stores.rocksdb.live import Family, read_only_family
from migrate.stores.rocksdb.scan import TooManyTombstonesError, refuse_columns
from migrate.systems import known_format
from migrate.systems.base import System
from migrate.systems.checkpoint_file import parse_position
from migrate.systems.families import family_mappings


@dataclass(frozen=True)
class AdapterFunctions:
    """What an adapter was opened with, and its files do not tell."""

    convert: Function | None = None
    old_key: KeyFunction | None = None


@dataclass(frozen=True)
class Site:
    """One store partition's place, and how it is read there."""

    path: Path
    """The store partition's own directory."""
    application: Path
    partition: StorePartition
    system: System
    definition: StoreDefinition
    number: int | None = None
    position: str | None = None
    """The text of its position file as it was, where the one beside it is another store's; None: read that one."""
    successor: Path | None = None
    """Once something is there, this store partition has been replaced by it."""
    foreign: frozenset[str] = frozenset()
    """RocksDB's identities of the store that can be in this place instead."""
    functions: AdapterFunctions = AdapterFunctions()

    @property
    def format(self) -> Format:
        """With the serdes of keys and values."""
        return self.definition.stored

    @property
    def is_in_application(self) -> bool:
        """Whether it lies where its owner looks for it."""
        return self.path == self.application / self.partition.path

    def segments(self, held: HeldDirectory) -> list[tuple[int | None, HeldDirectory]]:
        """The RocksDB directories in it, by the start of their segment, the oldest first."""
        if not self.partition.has_segments:
            return [(None, held)]
        named = ((self.system.segment_start(self.partition.store, name), name) for name in os.listdir(held.path))  # noqa: PTH208
        starts = sorted((start, name) for start, name in named if start is not None)
        found = ((start, HeldDirectory(Path(name), held)) for start, name in starts)
        return [(start, directory) for start, directory in found if is_rocksdb(directory.path)]

    def offsets(self, directories: list[HeldDirectory]) -> dict[tuple[str, int], int]:
        """Its position, asked for before its files are opened: it is never ahead of them."""
        if self.position is not None:
            return parse_position(self.position)
        stated = self.system.positions(self.application, self.partition) if self.is_in_application else None
        if stated is None or stated.own_file is None:
            stated = self.system.positions_within(each.path for each in reversed(directories))
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
        return all(each.is_current() for each in self.databases)

    @property
    def content(self) -> object:
        """Changes with what it holds."""
        return self.start_ms, [(each.content(), self.directory.identity) for each in self.databases]


def open_database(site: Site, start_ms: int | None, directory: HeldDirectory) -> OpenDatabase:
    """Open one RocksDB directory. Raises RefusedError where it is damaged, or not of the format that was named."""
    if (directory.path / CURSOR_FILE).exists():
        return _open_half_converged(site, start_ms, directory)
    database = open_held(directory)
    entries = _entries(directory, database, site.format, site.definition.family)
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
    if site.format.id != pair.target:
        raise InvalidStateStoreError(
            f"{directory.name} is half converged from {pair.source} to {pair.target}, and is defined as "
            f"{site.format.id}",
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
    hub = hub_conversion(source, known_format(pair.target), site.functions.convert)
    entries = MergedEntries(
        HeldEntries(directory, database, pair.target_family),
        HeldEntries(old_directory, old_database, pair.source_family, on_columns=source.on_columns),
        LazyConversion(hub, site.functions.old_key),
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
