"""The files of one store partition: held open, looked at again, and noticed when another store takes their name."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from formats import Format
from migrate.errors import StateStoreMigratedError, StoreNotReadyError
from migrate.model.store_partition import StorePartition
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.partition import Opened, OpenSegment
from migrate.stores.records import BatchSource
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.held import HeldDirectory, open_held
from migrate.stores.rocksdb.live import read_only_family
from migrate.systems.base import System


class PinnedEntries:
    """One column family of a RocksDB directory whose files are held open."""

    def __init__(self, directory: HeldDirectory, database: Database, family: str) -> None:
        self._directory = directory
        self.database = database
        self._family = read_only_family(database, family)
        self.get: Callable[[bytes], bytes | None] = self._family.get

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        """The entries in [start, end), in the order of keys or the reverse."""
        return self._family.scan(start, end, reverse=reverse)

    @property
    def estimated_records(self) -> int:
        """RocksDB's own estimate."""
        return self._family.estimated_records


@dataclass(frozen=True)
class Site:
    """Where a store partition lies, and how it is read."""

    root: Path
    partition: StorePartition
    system: System
    definition: StoreDefinition

    @property
    def path(self) -> Path:
        """The store partition's own directory."""
        return self.root / self.partition.path

    @property
    def format(self) -> Format:
        """With the serdes of keys and values."""
        return self.definition.stored

    def family(self, database: Database) -> str:
        """The column family that holds the records."""
        named = self.format.column_families
        if named is not None:
            return named[0]
        return self.definition.family or database.families[0]


class PinnedPartition:
    """A store partition in one directory, as `Partition` says."""

    def __init__(self, site: Site, number: int | None, refresh: float) -> None:
        """Raises StoreNotReadyError where the directory is not there."""
        self.id = site.partition.id
        self.number = number
        self._site = site
        self._refresh = refresh
        self._renewing = threading.Lock()
        self._migrated = False
        try:
            self._held = HeldDirectory(site.path)
        except FileNotFoundError as error:
            raise self._absent() from error
        self._opened = self._open()
        self._looked = time.monotonic()

    def opened(self) -> Opened:
        """The store partition as it was `refresh` seconds ago or later."""
        self.check()
        if time.monotonic() - self._looked >= self._refresh and self._renewing.acquire(blocking=False):
            try:
                self._renew()
            finally:
                self._renewing.release()
        return self._opened

    def check(self) -> None:
        """Raise StateStoreMigratedError where another directory has the name, StoreNotReadyError where none has."""
        try:
            if not self._migrated and self._held.has_its_name():
                return
        except FileNotFoundError as error:
            raise self._absent() from error
        self._migrated = True
        raise StateStoreMigratedError(
            f"the store partition {self.id} was replaced after this handle was made",
            hint="resolve it again by its name; a retry on this handle will fail again",
        )

    def _absent(self) -> StoreNotReadyError:
        return StoreNotReadyError(
            f"the store partition {self.id} is not in {self._site.path}: it is being moved, or was removed",
            hint="retry with backoff",
        )

    def _renew(self) -> None:
        self._looked = time.monotonic()
        if self._is_changed():
            self._opened = self._open()

    def _is_changed(self) -> bool:
        entries = [segment.entries for segment in self._opened.segments]
        if not all(isinstance(each, PinnedEntries) and each.database.is_current() for each in entries):
            return True
        return len(self._databases()) != len(entries)

    def _databases(self) -> dict[int | None, HeldDirectory]:
        """The RocksDB directories that are there now, by the start of their segment, the oldest first."""
        if not self._site.format.is_segmented:
            return {None: self._held}
        named = {
            self._site.system.segment_start(self._site.partition.store, name): name
            for name in os.listdir(self._held.path)  # noqa: PTH208 - names alone
        }
        starts = sorted(start for start in named if start is not None)
        return {start: HeldDirectory(Path(named[start]), self._held) for start in starts}

    def _open(self) -> Opened:
        found = [(start, directory, open_held(directory)) for start, directory in self._databases().items()]
        segments = tuple(
            OpenSegment(start, PinnedEntries(directory, database, self._site.family(database)))
            for start, directory, database in found
        )
        content = [(start, directory.identity, database.content()) for start, directory, database in found]
        tag = hashlib.sha256(repr(content).encode()).hexdigest()[:16]
        return Opened(self._site.format, segments, {}, tag)
