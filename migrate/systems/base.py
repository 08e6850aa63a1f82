"""What a migration asks of an owning system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

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
