"""What a migration asks of an owning system."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from migrate.positions import Line, Positions
from migrate.store_partition import StorePartition


class System(Protocol):
    """The directories of one stream processor."""

    @property
    def ahead(self) -> int:
        """By how much its changelog positions are ahead of the last record applied: 1 where they tell the next one."""
        ...

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """The store partitions of these stores, ordered by store and task; `is_segmented`: their RocksDB directories
        are segments.

        Raises RefusedError, which lists what is there instead.
        """
        ...

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """Where a store partition lies, relative to `path`."""
        ...

    def task_numbers(self, task: str) -> tuple[int, int]:
        """(subtopology, partition) of a task by its name. Raises RefusedError where it has none."""
        ...

    def task_name(self, numbers: tuple[int, int]) -> str:
        """The inverse."""
        ...

    def segment_start(self, store: str, name: str) -> int | None:
        """The time, in milliseconds since the epoch, at which a segment begins, by its directory's name; None: it is
        no segment's."""
        ...

    def segment_size(self, retention_ms: int, segment_ms: int | None) -> int:
        """The time that each segment covers; `segment_ms`: where the owner was told."""
        ...

    def positions_within(self, directories: Iterable[Path]) -> Positions:
        """What RocksDB directories themselves say of the changelog, the newest first."""
        ...

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """The lock files that a running owner holds."""
        ...

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        """What an operator should know about the state as its owner left it."""
        ...

    def side_files(self, partition: StorePartition) -> tuple[Path, ...]:
        """The files beside the RocksDB directories that tell of a store partition, relative to `path`."""
        ...

    def positions(self, path: Path, partition: StorePartition) -> Positions:
        """What these files, below `path`, say of it. Raises RefusedError for damaged ones."""
        ...

    def with_positions(
        self, path: Path, partition: StorePartition, positions: Positions, *, application: str | None = None
    ) -> dict[Path, str | None]:
        """The text of each side file, relative to `path`, that says `positions` of this one and as much as it does of
        all others. None: no such file. `application`: its name, where `path` has another one for now."""
        ...

    def unsure_position(self, path: Path, partition: StorePartition) -> str | None:
        """Why the changelog position of the state in `path` is not known, so that nothing can be replayed onto it."""
        ...

    def owner_version(self, directory: Path) -> str | None:
        """What a RocksDB directory tells of the version that wrote it, in words."""
        ...

    def metadata_in_words(self, key: bytes, value: bytes) -> str:
        """What an entry of one of the system's own column families says."""
        ...

    def inner_positions(self, entries: Iterable[tuple[bytes, bytes]]) -> tuple[Line, ...]:
        """Changelog positions among such entries."""
        ...
