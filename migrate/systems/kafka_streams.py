"""Kafka Streams: `<state.dir>/<application.id>`.

    <application>/
      .lock                                held by a running application
      kafka-streams-process-metadata
      <subtopology>_<partition>/           a task; __<topology>__/<task>/ for named topologies
        .checkpoint                        changelog topic, partition, offset of the last record applied
        <store>.position
        rocksdb/<store>/                   a key-value store
        <store>/<store>.<start>/           a segment of a windowed store

Source: org.apache.kafka.streams.processor.internals.StateDirectory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from formats.kafka_streams.families import OFFSETS as OFFSETS_FAMILY
from migrate.errors import RefusedError
from migrate.positions import Line, Positions
from migrate.store_partition import StorePartition
from migrate.stores.options_file import read_options, rocksdb_version
from migrate.stores.rocksdb import open_read_only
from migrate.systems import offsets_family
from migrate.systems.checkpoint_file import (
    CHECKPOINT,
    OFFSET_UNKNOWN,
    are_of,
    format_checkpoint,
    read_checkpoint,
    read_position_file,
    replace_lines,
)
from migrate.systems.discovery import find_partitions
from migrate.systems.offsets_family import POSITION_KEY, STATUS_KEY, STATUS_OPEN
from migrate.systems.task_tree import KAFKA_STREAMS

_LEAST_SEGMENT_MS = 60_000
_VERSIONS = {"7.9": "3.9 or older", "9.7": "4.0 or 4.1", "10.1": "4.2 or newer"}
"""Of Kafka Streams, by the RocksDB that it carries."""
_PATH = "let [source] path name the application's own directory, <state.dir>/<application.id>"


class KafkaStreams:
    """`[source] path` is the application's state directory."""

    ahead = 0

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool = False) -> list[StorePartition]:
        """The store partitions of the stores with these names."""
        return find_partitions(KAFKA_STREAMS, path, stores, is_segmented=is_segmented, path_hint=_PATH)

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """A segmented store lies beside the directory of all others."""
        return KAFKA_STREAMS.place(task, store, is_segmented=is_segmented)

    def task_numbers(self, task: str) -> tuple[int, int]:
        """`<subtopology>_<partition>`."""
        numbers = KAFKA_STREAMS.numbers(task)
        if numbers is None:
            raise RefusedError(
                f"task {task} has no name of two numbers, which is all that the other system knows",
                hint="global stores, and those of named topologies, stay with the system that they are of",
            )
        return numbers

    def task_name(self, numbers: tuple[int, int]) -> str:
        """`<subtopology>_<partition>`."""
        return KAFKA_STREAMS.task_name(numbers)

    def segment_start(self, store: str, name: str) -> int | None:
        """By today's name or a former one."""
        return KAFKA_STREAMS.segment_start(store, name)

    def segment_size(self, retention_ms: int, segment_ms: int | None) -> int:
        """Half the retention, a minute at least: org.apache.kafka.streams.state.Stores."""
        return segment_ms or max(retention_ms // 2, _LEAST_SEGMENT_MS)

    def positions_within(self, directories: Iterable[Path]) -> Positions:
        """What the column family `offsets` says: of each topic partition, the newest directory that knows it."""
        lines: dict[tuple[str, int], int] = {}
        position: str | None = None
        for directory in directories:
            if OFFSETS_FAMILY not in read_options(directory):
                continue
            with open_read_only(directory) as database:
                entries = [
                    entry
                    for batch in database.batches(OFFSETS_FAMILY)
                    for entry in zip(batch.keys, batch.values, strict=True)
                ]
            for topic, number, offset in offsets_family.lines(entries):
                lines.setdefault((topic, number), offset)
            if position is None and POSITION_KEY in dict(entries):
                position = offsets_family.position_file(dict(entries)[POSITION_KEY])
        return Positions(
            lines=tuple((topic, number, offset) for (topic, number), offset in lines.items()), own_file=position
        )

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """The application's `.lock`, and LOCK in each RocksDB directory."""
        databases = [folder / "LOCK" for partition in partitions for folder in partition.directories(path).values()]
        return [path / ".lock", *databases]

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        """Changelog positions that say that the local state may not be the state."""
        found = []
        for task in dict.fromkeys(path / partition.task for partition in partitions):
            checkpoint = task / CHECKPOINT
            if not checkpoint.exists():
                if not _keeps_offsets_inside(path, task, partitions):
                    found.append(f"{task.name} has no {CHECKPOINT}: its application did not stop cleanly")
            else:
                found += [
                    f"{task.name}: the changelog position of {topic}-{number} is unknown, Kafka Streams will replay it"
                    for topic, number, offset in read_checkpoint(checkpoint)
                    if offset == OFFSET_UNKNOWN
                ]
        return found + [
            f"{partition.id} was not closed cleanly: its `status` says open"
            for partition in partitions
            for directory in partition.directories(path).values()
            if _is_marked_open(directory)
        ]

    def side_files(self, partition: StorePartition) -> tuple[Path, ...]:
        """The task's `.checkpoint`, which its stores share, and the store's own `.position`."""
        return Path(partition.task, CHECKPOINT), Path(partition.task, f"{partition.store}.position")

    def positions(self, path: Path, partition: StorePartition) -> Positions:
        """This store's lines in `.checkpoint`, and its `.position` as it is."""
        shared, own = (path / file for file in self.side_files(partition))
        lines = read_checkpoint(shared) if shared.exists() else []
        return Positions(
            lines=tuple(line for line, own in zip(lines, are_of(path, partition, lines), strict=True) if own),
            own_file=read_position_file(own) if own.exists() else None,
        )

    def with_positions(
        self, path: Path, partition: StorePartition, positions: Positions, *, application: str | None = None
    ) -> dict[Path, str | None]:
        """Lines of other stores stay as they are, and where they are. No lines: no file, as Kafka Streams leaves it."""
        shared, own = self.side_files(partition)
        lines = read_checkpoint(path / shared) if (path / shared).exists() else []
        merged = replace_lines(lines, positions.lines, are_of(path, partition, lines, application))
        return {shared: format_checkpoint(merged) if merged else None, own: positions.own_file}

    def unsure_position(self, path: Path, partition: StorePartition) -> str | None:
        """Unless the application stopped cleanly: each store then has its position, here or (since 4.3) inside."""
        directories = list(partition.directories(path).values())
        if any(_is_marked_open(directory) for directory in directories):
            return "it was not closed cleanly: its `status` says open"
        lines = self.positions(path, partition).lines
        if not lines and any(_holds_offset(directory) for directory in directories):
            return None
        if not lines:
            return f"{Path(partition.task, CHECKPOINT)} has no line for it: its application did not stop cleanly"
        if any(offset == OFFSET_UNKNOWN for _, _, offset in lines) and not all(map(_is_empty, directories)):
            return f"its line in {Path(partition.task, CHECKPOINT)} says that its position is unknown"
        return None

    def owner_version(self, directory: Path) -> str | None:
        """By the column family that 4.3 brought, or else by the RocksDB that each version carries."""
        if OFFSETS_FAMILY in read_options(directory):
            return f"Kafka Streams 4.3 or newer: it has the column family {OFFSETS_FAMILY!r}"
        version = rocksdb_version(directory)
        known = None if version is None else _VERSIONS.get(version.rpartition(".")[0])
        return None if known is None else f"Kafka Streams {known}: that carries RocksDB {version}"

    def metadata_in_words(self, key: bytes, value: bytes) -> str:
        """An entry of the column family `offsets`."""
        return offsets_family.in_words(key, value)

    def inner_positions(self, entries: Iterable[tuple[bytes, bytes]]) -> tuple[Line, ...]:
        """What the column family `offsets` says."""
        return offsets_family.lines(entries)


def _keeps_offsets_inside(path: Path, task: Path, partitions: Sequence[StorePartition]) -> bool:
    """Since 4.3 the positions lie in a column family of each store."""
    mine = [partition.directories(path).values() for partition in partitions if path / partition.task == task]
    return all(any(OFFSETS_FAMILY in read_options(directory) for directory in each) for each in mine)


def _holds_offset(directory: Path) -> bool:
    """Since 4.3 a store keeps its changelog's position in its column family `offsets`, under `<topic>-<partition>`."""
    if OFFSETS_FAMILY not in read_options(directory):
        return False
    with open_read_only(directory) as database:
        keys = [key for batch in database.batches(OFFSETS_FAMILY) for key in batch.keys]
    return any(key not in (STATUS_KEY, POSITION_KEY) for key in keys)


def _is_empty(directory: Path) -> bool:
    with open_read_only(directory) as database:
        data = [family for family in database.families if family != OFFSETS_FAMILY]
        return not any(database.sample(family, None, 1).keys for family in data)


def _is_marked_open(directory: Path) -> bool:
    """Since 4.3 each store says so itself, in its `offsets` column family."""
    if OFFSETS_FAMILY not in read_options(directory):
        return False
    with open_read_only(directory) as database:
        return database.get(OFFSETS_FAMILY, STATUS_KEY) == STATUS_OPEN
