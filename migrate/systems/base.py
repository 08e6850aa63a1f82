"""What a migration asks of an owning system."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from migrate.positions import Line, Positions
from migrate.store_partition import StorePartition


class System(Protocol):
    """The directories of one stream processor."""

    def find(self, path: Path, stores: Sequence[str]) -> list[StorePartition]:
        """The store partitions of these stores, ordered by store and task.

        Raises RefusedError, which lists what is there instead.
        """
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

    def with_positions(self, path: Path, partition: StorePartition, positions: Positions) -> dict[Path, str | None]:
        """The text of each side file, relative to `path`, that says `positions` of this one and as much as it does of
        all others. None: no such file."""
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
