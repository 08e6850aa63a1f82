"""One RocksDB directory, without an application around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from migrate.errors import RefusedError, SpecError
from migrate.positions import Line, Positions
from migrate.store_partition import StorePartition
from migrate.stores.layout import is_rocksdb
from migrate.stores.regular_files import walk


class LoneRocksDB:
    """`[source] path` is the RocksDB directory itself."""

    ahead = 0

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool = False) -> list[StorePartition]:
        """The one store partition."""
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

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """`path` itself."""
        return Path()

    def task_numbers(self, task: str) -> tuple[int, int]:
        """There are no tasks."""
        return 0, 0

    def task_name(self, numbers: tuple[int, int]) -> str:
        """There are no tasks."""
        return ""

    def segment_start(self, store: str, name: str) -> int | None:
        """None: a lone directory may be a segment, but its name says nothing."""
        return None

    def segment_size(self, retention_ms: int, segment_ms: int | None) -> int:
        """One directory has all."""
        return segment_ms or retention_ms

    def positions_within(self, directories: Iterable[Path]) -> Positions:
        """None."""
        return Positions()

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """RocksDB's own."""
        return [path / "LOCK"]

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        """None: nothing is known about the owner."""
        return []

    def side_files(self, partition: StorePartition) -> tuple[Path, ...]:
        """None."""
        return ()

    def positions(self, path: Path, partition: StorePartition) -> Positions:
        """None."""
        return Positions()

    def with_positions(
        self, path: Path, partition: StorePartition, positions: Positions, *, application: str | None = None
    ) -> dict[Path, str | None]:
        """Nothing to say, and nowhere to say it."""
        return {}

    def unsure_position(self, path: Path, partition: StorePartition) -> str | None:
        """There is no changelog."""
        return "a RocksDB directory alone has no changelog that would replay what came since"

    def owner_version(self, directory: Path) -> str | None:
        """Nothing is known about the owner."""
        return None

    def metadata_in_words(self, key: bytes, value: bytes) -> str:
        """As bytes: nothing is known about the owner."""
        return f"0x{key.hex()}: {len(value)} bytes"

    def inner_positions(self, entries: Iterable[tuple[bytes, bytes]]) -> tuple[Line, ...]:
        """None."""
        return ()


def _where_it_may_be(path: Path) -> str:
    inside: list[str] = []
    with suppress(OSError, RefusedError):  # what was found so far helps as well
        for folder, _, _ in walk(path):
            if is_rocksdb(folder):
                inside.append(str(folder.relative_to(path)))
    if not inside:
        return "check [source] path"
    return f"RocksDB directories below it: {', '.join(sorted(inside)[:8])}; name one in `path`, or the store in `store`"
