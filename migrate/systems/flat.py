"""What systems share that keep each store partition in one RocksDB directory, which states its changelog offset itself.

All these directories lie at one depth. A task's name is the partition's number, or a path whose last part is that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from migrate.errors import RefusedError, did_you_mean
from migrate.model.store_partition import ChangelogOffsets, StorePartition
from migrate.stores.regular_files import check_directory
from migrate.stores.rocksdb.database import Database, open_read_only
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.systems.base import ChangelogNames, Discovery, StoreDirectory, StoredOffsets, StoreLayout


class FlatStores(StoreLayout):
    """Stores that discovery finds."""

    discovery: Discovery
    path_hint: str
    """A hint that states what [source] path should name."""
    folder: str = ""
    """Where the stores lie in `[source] path`."""
    called: str = "store"
    lack: str
    """What a directory without stores lacks, as the end of a sentence."""

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        check_directory(path, hint=self.path_hint)
        every = self._directories(path)
        if not every:
            raise RefusedError(f"{path} {self.lack}", hint=self.path_hint)
        names = sorted({each.store for each in every})
        if missing := [store for store in stores if store not in names]:
            text = f"no {self.called} {missing[0]!r} in {path / self.folder}"
            raise RefusedError(text, hint=f"{did_you_mean(missing[0], names)} there are: {', '.join(names)}".strip())
        return [
            StorePartition(id=f"{each.task}/{store}", store=store, task=each.task, path=each.path.relative_to(path))
            for store in stores
            for each in every
            if each.store == store
        ]

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """LOCK of every RocksDB directory: a running application locks those of its partitions."""
        return [each.path / "LOCK" for each in self._directories(path) if is_rocksdb(each.path)]

    def number(self, partition: StorePartition) -> int:
        return _number(partition)

    def _directories(self, path: Path) -> list[StoreDirectory]:
        return [*self.discovery.store_directories(path)] if (path / self.folder).is_dir() else []


class OffsetInside(StoredOffsets, ABC):
    """The last record applied, under one key in each RocksDB directory."""

    names: ChangelogNames
    family: str
    key: bytes

    @abstractmethod
    def decoded(self, value: bytes) -> int | None:
        """The offset; None: it is none."""

    @abstractmethod
    def encoded(self, offset: int) -> bytes:
        """The inverse of `decoded`."""

    def within(self, application: str, partition: StorePartition, directories: Iterable[Path]) -> ChangelogOffsets:
        with open_read_only(next(iter(directories))) as database:
            value = entry(database, self.family, self.key)
        offset = None if value is None else self.decoded(value)
        topic = self.names.topic(application, partition)
        return ChangelogOffsets(lines=() if offset is None else ((topic, _number(partition), offset),))

    def entries(self, partition: StorePartition, positions: ChangelogOffsets) -> dict[str, dict[bytes, bytes]]:
        known = [offset for _, _, offset in positions.lines if offset >= 0]
        return {self.family: {self.key: self.encoded(known[0])}} if known else {}


def entry(database: Database, family: str, key: bytes) -> bytes | None:
    """A value; None: there is no such key, or no such column family."""
    return database.get(family, key) if family in database.families else None


def _number(partition: StorePartition) -> int:
    return int(Path(partition.task).name)
