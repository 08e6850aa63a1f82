"""Store partitions: one task's part of one store, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.model.values import Stored

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
    """`<task>/<store>`, or the name of a standalone RocksDB directory. Also its path in the work_dir."""
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


Line = tuple[str, int, int]
"""(changelog topic, partition, offset); what the offset means is the owning system's affair."""


class Positions(Stored):
    """Of one store partition."""

    lines: tuple[Line, ...] = ()
    """Its own lines in a file that the stores of a task share."""
    own_file: str | None = None
    """The text of the file that is this store partition's alone; None: there is none."""

    def is_behind(self, other: Positions) -> bool:
        """Whether it has, of a topic that both name, less than the other: a known offset that is lower."""
        offsets = {(topic, number): offset for topic, number, offset in other.lines}
        return any(0 <= offset < offsets.get((topic, number), 0) for topic, number, offset in self.lines)

    def lowest(self, other: Positions) -> Positions:
        """A position that both stores have reached: the owner replays from there, into whichever of them it finds."""
        offsets = {(topic, number): offset for topic, number, offset in other.lines}
        both = [
            (topic, number, min(offset, offsets[topic, number]))
            for topic, number, offset in self.lines
            if (topic, number) in offsets
        ]
        return self.model_copy(update={"lines": tuple(both)})


class StoreState(Stored):
    """A store partition's RocksDB directories at one time."""

    content: str
    """Another one: somebody has written to them."""
    files: str
    """Another one: somebody has opened them for writing, at least."""
    metadata: str = ""
    """Of all files but the SST files; another one: they are opened, and looked at. Empty: of an earlier release."""
