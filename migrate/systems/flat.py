"""What systems share that keep each store partition in one RocksDB directory, which states its changelog offset itself.

All these directories lie at one depth. A task's name is the partition's number, or a path whose last part is that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from migrate.errors import RefusedError
from migrate.model.store_partition import ChangelogOffsets, StorePartition
from migrate.stores.regular_files import check_directory
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.systems.base import ChangelogNames, Discovery, StoreDirectory, StoredOffsets, StoreLayout, those_there


class FlatStores(StoreLayout):
    """Stores that discovery finds."""

    discovery: Discovery
    path_hint: str
    """A hint that states what [source] path should name."""
    folder: str = ""
    """Where the stores lie in `[source] path`."""
    called: str = "store"

    @abstractmethod
    def lack(self, path: Path) -> str:
        """What a directory without any store lacks, as the end of a sentence; empty: it is an application's."""

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        check_directory(path, hint=self.path_hint)
        every = self._directories(path)
        if not every and (lack := self.lack(path)):
            raise RefusedError(f"{path} {lack}", hint=self.path_hint)
        names = sorted({each.store for each in every})
        if missing := [store for store in stores if store not in names]:
            text = f"no {self.called} {missing[0]!r} in {path / self.folder}"
            raise RefusedError(text, hint=those_there(missing[0], names))
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
            value = database.get(self.family, self.key) if self.family in database.families else None
        offset = None if value is None else self.decoded(value)
        topic = self.names.topic(application, partition)
        return ChangelogOffsets(lines=() if offset is None else ((topic, _number(partition), offset),))

    def entries(self, partition: StorePartition, positions: ChangelogOffsets) -> dict[str, dict[bytes, bytes]]:
        known = [offset for _, _, offset in positions.lines if offset >= 0]
        return {self.family: {self.key: self.encoded(known[0])}} if known else {}


def _number(partition: StorePartition) -> int:
    return int(Path(partition.task).name)
