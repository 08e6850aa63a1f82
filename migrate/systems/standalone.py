"""One RocksDB directory, without an application around it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from migrate.errors import RefusedError, SpecError
from migrate.model.store_partition import Line, StorePartition
from migrate.stores.regular_files import check_directory, walk
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.systems.base import StoredOffsets, StoreLayout, System
from migrate.systems.task_tree import locks_above, task_of


class _OneDirectory(StoreLayout):
    """`[source] path` is the RocksDB directory itself."""

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        if stores:
            raise SpecError(
                f"this format has no stores by name, but [source] names {', '.join(stores)}",
                hint="leave `store` out and let `path` name the RocksDB directory",
            )
        check_directory(path, hint="let [source] path name a RocksDB directory")
        if not is_rocksdb(path):
            raise RefusedError(
                f"{path} is no RocksDB directory: neither CURRENT nor a MANIFEST is in it", hint=_where_it_may_be(path)
            )
        return [StorePartition(id=path.name, store=path.name, task="", path=Path())]

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """RocksDB's own lock file, and those of an application in whose directory it may lie."""
        around = task_of(path)
        others = around[0].store_locks(around[1].parent) if around is not None and around[0].lock is None else []
        return list(dict.fromkeys((*locks_above(path), path / "LOCK", *others)))


class _NoChangelog(StoredOffsets):
    def problem(self, path: Path, partition: StorePartition, lines: Sequence[Line]) -> str | None:
        """A directory without an application has no changelog."""
        return "a RocksDB directory alone has no changelog that would replay what came since"


STANDALONE = System(name="rocksdb", title="RocksDB", layout=_OneDirectory(), offsets=_NoChangelog())
"""Where no stores are named, `path` is one RocksDB directory, whatever its format."""


def _where_it_may_be(path: Path) -> str:
    inside: list[str] = []
    with suppress(OSError, RefusedError):  # the directories found so far help as well
        for folder, _, _ in walk(path):
            if is_rocksdb(folder):
                inside.append(str(folder.relative_to(path)))
    if not inside:
        return "check [source] path"
    return f"RocksDB directories below it: {', '.join(sorted(inside)[:8])}; name one in `path`, or the store in `store`"
