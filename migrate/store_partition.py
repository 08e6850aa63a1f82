"""Store partitions: one task's part of one store, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.keyrange import Stored

WHOLE = "."
"""In place of a RocksDB directory's name: the store partition is one."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One RocksDB directory of a windowed store."""

    name: str
    start_ms: int


class StorePartition(Stored):
    """One task's part of one store."""

    id: str
    """`<task>/<store>`, or the directory's own name for a lone RocksDB directory. Also its path in the work_dir."""
    store: str
    task: str
    path: Path
    """Relative to the source's path."""
    databases: tuple[str, ...] = (WHOLE,)
    """Its RocksDB directories, relative to `path`."""

    @property
    def has_segments(self) -> bool:
        """Whether its RocksDB directories are segments by time; a new store may have none yet."""
        return self.databases != (WHOLE,)

    def is_all_of(self, folder: Path) -> bool:
        """Whether nothing but its RocksDB directories is in a folder: no segment more, and none less."""
        return not self.has_segments or {entry.name for entry in folder.iterdir()} == set(self.databases)

    def directories(self, root: Path) -> dict[str, Path]:
        """Each RocksDB directory of the partition below the application's directory `root`, by database."""
        return self.below(root / self.path)

    def below(self, folder: Path) -> dict[str, Path]:
        """Each RocksDB directory, by database, where the partition lies in a folder of its own."""
        return {database: folder / database for database in self.databases}


def place_name(partition: str, database: str) -> str:
    """One RocksDB directory of a store partition, for an operator."""
    return partition if database == "." else f"{partition}/{database}"
