"""One RocksDB directory, without an application around it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from migrate.errors import RefusedError, SpecError
from migrate.model.store_partition import StorePartition
from migrate.stores.regular_files import walk
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.systems.base import System


class StandaloneRocksDB(System):
    """`[source] path` is the RocksDB directory itself."""

    name = "rocksdb"
    title = "RocksDB"

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool = False) -> list[StorePartition]:
        """The one store partition that the directory is."""
        if stores:
            raise SpecError(
                f"this format has no stores by name, but [source] names {', '.join(stores)}",
                hint="leave `store` out and let `path` name the RocksDB directory",
            )
        if not path.is_dir():
            what = "is not a directory" if path.exists() else "does not exist"
            raise RefusedError(f"{path} {what}", hint="let [source] path name a RocksDB directory")
        if not is_rocksdb(path):
            raise RefusedError(
                f"{path} is no RocksDB directory: neither CURRENT nor a MANIFEST is in it",
                hint=_where_it_may_be(path),
            )
        return [StorePartition(id=path.name, store=path.name, task="", path=Path())]

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """RocksDB's own lock file."""
        return [path / "LOCK"]

    def position_problem(self, path: Path, partition: StorePartition) -> str | None:
        """A directory without an application has no changelog."""
        return "a RocksDB directory alone has no changelog that would replay what came since"


def _where_it_may_be(path: Path) -> str:
    inside: list[str] = []
    with suppress(OSError, RefusedError):  # the directories found so far help as well
        for folder, _, _ in walk(path):
            if is_rocksdb(folder):
                inside.append(str(folder.relative_to(path)))
    if not inside:
        return "check [source] path"
    return f"RocksDB directories below it: {', '.join(sorted(inside)[:8])}; name one in `path`, or the store in `store`"
