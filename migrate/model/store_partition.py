"""Store partitions: one task's part of one store, and its directories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.model.values import Stored

WHOLE = "."
"""Stands for the name of the RocksDB directory of a store partition that is a single one."""


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
        """Whether its RocksDB directories are time segments; a new store may have none yet."""
        return self.databases != (WHOLE,)

    def is_all_of(self, folder: Path) -> bool:
        """Whether a folder holds exactly its RocksDB directories: no segment more, and none less."""
        return not self.has_segments or {entry.name for entry in folder.iterdir()} == set(self.databases)

    def directories(self, root: Path) -> dict[str, Path]:
        """The partition's RocksDB directories below the application's directory `root`, by database."""
        return self.below(root / self.path)

    def below(self, folder: Path) -> dict[str, Path]:
        """The partition's RocksDB directories, by database, in a folder that holds this partition alone."""
        return {database: folder / database for database in self.databases}


def segment_name(store: str, start_ms: int) -> str:
    """The name of a segment's directory in Kafka Streams and Streamiz."""
    return f"{store}.{start_ms}"


def place_name(partition: str, database: str) -> str:
    """The name of one RocksDB directory of a store partition, for messages."""
    return partition if database == WHOLE else f"{partition}/{database}"


Line = tuple[str, int, int]
"""(changelog topic, partition, offset); the owning system defines what the offset means."""


class ChangelogOffsets(Stored):
    """The changelog offsets up to which one store partition is restored."""

    lines: tuple[Line, ...] = ()
    """The partition's lines in a file that the stores of a task share."""
    own_file: str | None = None
    """The text of the partition's own file; None: there is none."""

    def is_behind(self, other: ChangelogOffsets) -> bool:
        """Whether, for a topic partition that both have, its known offset is lower than the other's."""
        offsets = {(topic, number): offset for topic, number, offset in other.lines}
        return any(0 <= offset < offsets.get((topic, number), 0) for topic, number, offset in self.lines)

    def lowest(self, other: ChangelogOffsets) -> ChangelogOffsets:
        """The offsets that both stores have reached: the owner can replay either of them from there."""
        offsets = {(topic, number): offset for topic, number, offset in other.lines}
        both = [
            (topic, number, min(offset, offsets[topic, number]))
            for topic, number, offset in self.lines
            if (topic, number) in offsets
        ]
        return self.model_copy(update={"lines": tuple(both)})


class StoreState(Stored):
    """Digests of a store partition's RocksDB directories at one time."""

    content: str
    """Changes with every write to the store."""
    files: str
    """Changes when the store is opened for writing."""
    metadata: str
    """Changes with any file but the SST files; then the content is compared."""
