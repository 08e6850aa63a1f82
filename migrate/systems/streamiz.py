"""Streamiz (.NET): `<StateDir>/<ApplicationId>`.

    streamiz-process-metadata              beside the applications, in StateDir
    <application>/
      <subtopology>-<partition>/           a task, and `global`
        .checkpoint                        changelog topic, partition, offset at which restoring begins
        .checkpoint.rec                    the file as it was before, read where .checkpoint is missing
        rocksdb/<store>/                   a key-value store
        <store>/<store>.<start>/           a segment of a windowed store

No file is locked while an application runs, but for RocksDB's own LOCK in each of its directories.

Source: Streamiz.Kafka.Net.ProcessorContext, Processors.AbstractTask, Processors.Internal StateDirectory, TaskId and
ProcessorStateManager, State.OffsetCheckpointFile, State.RocksDbKeyValueStore, State.Internal.AbstractSegments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from formats.format import in_order
from migrate.model.store_partition import ChangelogOffsets, Line, StorePartition
from migrate.stores.regular_files import Folder
from migrate.stores.rocksdb.options_file import newest_options
from migrate.systems.base import System
from migrate.systems.checkpoint_file import CHECKPOINT, OFFSET_UNKNOWN, RECOVERY, format_checkpoint
from migrate.systems.task_tree import STREAMIZ_TREE, Checkpoints, TreeDiscovery, TreeNames, TreeSegments, has_global

DEFAULT_SEGMENT_MS = 3_600_000
_VERSIONS = {"6.26": "1.2", "7.2": "1.3", "7.7": "1.4, 1.5 or 1.6", "9.4": "1.7", "10.4": "1.8"}
"""Versions of Streamiz, by the RocksDB that they contain."""


class _StreamizSegments(TreeSegments):
    def size(self, retention_ms: int, segment_ms: int | None) -> int:
        """The configured time, or an hour; it does not depend on the retention."""
        return DEFAULT_SEGMENT_MS if segment_ms is None else segment_ms

    def oldest_kept(self, newest_ms: int, retention_ms: int, segment_ms: int | None) -> int:
        """The start of a segment: reads return what a segment still holds, and whole segments expire."""
        size = self.size(retention_ms, segment_ms)
        return (newest_ms - retention_ms) // size * size


class _StreamizCheckpoints(Checkpoints):
    """`.checkpoint` of the task."""

    ahead = 1
    counts_stops = True

    def missing_checkpoint(self, path: Path, partitions: Sequence[StorePartition]) -> str | None:
        """A warning: nothing else states where to continue reading a changelog."""
        return f"{partitions[0].task} has no {CHECKPOINT}: Streamiz will replay the changelogs from their beginning"

    def side_files(self, partition: StorePartition) -> tuple[Path, ...]:
        return Path(partition.task, CHECKPOINT), Path(partition.task, RECOVERY)

    def write(
        self, path: Path, partition: StorePartition, positions: ChangelogOffsets, *, application: str | None = None
    ) -> dict[Path, str | None]:
        """The files with this store's new lines; the recovery copy has the old store's, and is removed."""
        shared, recovery = self.side_files(partition)
        merged = self.merged_lines(path, partition, positions, application)
        is_kept = merged or self.tree.checkpoint_lines(path / partition.task) is not None
        return {shared: format_checkpoint(merged) if is_kept else None, recovery: None}

    def problem(self, path: Path, partition: StorePartition, lines: Sequence[Line]) -> str | None:
        """A reason where 1.7 or newer may have written it, which moves the offset on at each stop without a write."""
        versions = [newest_options(directory).rocksdb_version for directory in partition.directories(path).values()]
        if any(version is None or in_order(version) >= (9,) for version in versions):
            return (
                f"Streamiz 1.7 and newer may write a position into {Path(partition.task, CHECKPOINT)} that is past the "
                "last record of the changelog, and would leave out what came after the snapshot"
            )
        if not lines:
            return f"{Path(partition.task, CHECKPOINT)} has no line for it"
        if any(offset == OFFSET_UNKNOWN for _, _, offset in lines):
            return f"its line in {Path(partition.task, CHECKPOINT)} says that its position is unknown"
        return None


class _StreamizDiscovery(TreeDiscovery):
    def recognises(self, folder: Folder) -> bool:
        """Whether a folder holds its tasks, or only `global` in a StateDir."""
        is_alone = has_global(folder) and (folder.path.parent / STREAMIZ_TREE.process_file).is_file()
        return super().recognises(folder) or is_alone

    def holds_applications(self, folder: Folder) -> bool:
        """Whether a folder is a StateDir, which has a file beside the applications."""
        return STREAMIZ_TREE.process_file in folder.files


_NAMES = TreeNames(STREAMIZ_TREE)
STREAMIZ = System(
    name="streamiz",
    title="Streamiz",
    layout=STREAMIZ_TREE,
    offsets=_StreamizCheckpoints(_NAMES),
    changelog=_NAMES,
    segments=_StreamizSegments(STREAMIZ_TREE),
    discovery=_StreamizDiscovery(STREAMIZ_TREE, _VERSIONS),
)
