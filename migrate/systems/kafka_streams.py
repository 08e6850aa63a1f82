"""Kafka Streams: `<state.dir>/<application.id>`.

    <application>/
      .lock                                held by a running application
      kafka-streams-process-metadata
      <subtopology>_<partition>/           a task; __<topology>__/<task>/ for named topologies
        .checkpoint                        changelog topic, partition, offset of the last record applied
        <store>.position
        rocksdb/<store>/                   a key-value store
        <store>/<store>.<start>/           a segment of a windowed store

Since 4.3 each RocksDB directory has a column family `offsets`:

| key (UTF-8)           | value                                     |
|-----------------------|-------------------------------------------|
| `<topic>-<partition>` | changelog offset, 64-bit big-endian       |
| `status`              | 64-bit big-endian: 1 open, 0 closed       |
| `position`            | the position of queries, padded with 00   |

Source: org.apache.kafka.streams.processor.internals.StateDirectory; KIP-1035,
org.apache.kafka.streams.state.internals.RocksDBStore.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from struct import error as StructError

from formats.kafka_streams.families import OFFSETS, SESSION_HEADERS_FAMILY
from formats.kafka_streams.unsupported import EMIT_ON_CLOSE_SESSIONS, EMIT_ON_CLOSE_WINDOWS, UNSUPPORTED
from formats.unsupported import UnsupportedKind
from migrate.model.store_partition import ChangelogOffsets, Line, StorePartition
from migrate.stores.regular_files import Folder, read_regular
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.options_file import read_options
from migrate.systems.base import System
from migrate.systems.checkpoint_file import CHECKPOINT, OFFSET_UNKNOWN, format_checkpoint, read_position_file
from migrate.systems.task_tree import (
    KAFKA_STREAMS_TREE,
    STREAMIZ_TREE,
    Checkpoints,
    TreeDiscovery,
    TreeNames,
    TreeSegments,
    has_global,
    has_tasks,
)

_LEAST_SEGMENT_MS = 60_000
_POSITION = Struct(">BI")
_SIZE = Struct(">I")
_PARTITION = Struct(">iq")
_STATUS_KEY = b"status"
_POSITION_KEY = b"position"
_STATUS_OPEN = (1).to_bytes(8, "big")
_NOT_STATED = "its application did not stop cleanly, or there is no changelog (logging disabled)"
_VERSIONS = {
    "5.18": "2.8 or older",
    "6.19": "3.0",
    "6.22": "3.1",
    "7.9": "3.9 or older",
    "9.7": "4.0 or 4.1",
    "10.1": "4.2 or newer",
}
"""Versions of Kafka Streams, by the RocksDB that they contain."""


class _KafkaNames(TreeNames):
    def transactional_ids(self, path: Path, application: str, most: int) -> Iterator[str]:
        """`<application.id>-<process id>-<thread>`: org.apache.kafka.streams.processor.internals.StreamsProducer."""
        with suppress(FileNotFoundError, ValueError, LookupError, TypeError):
            process = json.loads(read_regular(path / self.tree.process_file))["processId"]
            yield from (f"{application}-{process}-{thread}" for thread in range(1, most + 1))

    def lines_within(self, directory: Path) -> Sequence[Line]:
        offsets = read_offsets(directory)
        return () if offsets is None else offsets.lines


class _KafkaSegments(TreeSegments):
    def size(self, retention_ms: int, segment_ms: int | None) -> int:
        """The configured time, or half the retention, at least a minute: org.apache.kafka.streams.state.Stores."""
        return segment_ms or max(retention_ms // 2, _LEAST_SEGMENT_MS)


class _KafkaCheckpoints(Checkpoints):
    """`.checkpoint` of the task and, since 4.3, the column family `offsets`."""

    def within(self, application: str, partition: StorePartition, directories: Iterable[Path]) -> ChangelogOffsets:
        """The column families' lines: of each topic partition, the newest directory's."""
        found = [offsets for directory in directories if (offsets := read_offsets(directory)) is not None]
        lines: dict[tuple[str, int], Line] = {}
        for topic, number, offset in (line for offsets in found for line in offsets.lines):
            lines.setdefault((topic, number), (topic, number, offset))
        positions = (offsets.position for offsets in found if offsets.position is not None)
        return ChangelogOffsets(lines=tuple(lines.values()), own_file=next(positions, None))

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        return super().warnings(path, partitions) + [
            f"{partition.id} was not closed cleanly: its `status` says open"
            for partition in partitions
            for directory in partition.directories(path).values()
            if (offsets := read_offsets(directory)) is not None and offsets.is_open
        ]

    def missing_checkpoint(self, path: Path, partitions: Sequence[StorePartition]) -> str | None:
        """A warning, unless the offsets lie in a column family of each store, as they do since 4.3."""
        directories = (partition.directories(path).values() for partition in partitions)
        if all(any(OFFSETS in read_options(directory) for directory in each) for each in directories):
            return None
        return f"{Path(partitions[0].task).name} has no {CHECKPOINT}: {_NOT_STATED}"

    def side_files(self, partition: StorePartition) -> tuple[Path, ...]:
        return Path(partition.task, CHECKPOINT), Path(partition.task, f"{partition.store}.position")

    def read(self, path: Path, partition: StorePartition) -> ChangelogOffsets:
        own = path / self.side_files(partition)[1]
        text = read_position_file(own) if own.exists() else None
        return super().read(path, partition).model_copy(update={"own_file": text})

    def write(
        self, path: Path, partition: StorePartition, positions: ChangelogOffsets, *, application: str | None = None
    ) -> dict[Path, str | None]:
        """The files with this store's new lines; a `.checkpoint` without lines is removed, as Kafka Streams does."""
        shared, own = self.side_files(partition)
        merged = self.merged_lines(path, partition, positions, application)
        return {shared: format_checkpoint(merged) if merged else None, own: positions.own_file}

    def problem(self, path: Path, partition: StorePartition, lines: Sequence[Line]) -> str | None:
        """A reason, unless each store has its offset in `.checkpoint` or (since 4.3) inside, as after a clean stop."""
        directories = list(partition.directories(path).values())
        offsets = [found for directory in directories if (found := read_offsets(directory)) is not None]
        if any(each.is_open for each in offsets):
            return "it was not closed cleanly: its `status` says open"
        stated = self.read(path, partition).lines
        if not stated and any(each.has_offset for each in offsets):
            return None
        if not lines:
            return f"{Path(partition.task, CHECKPOINT)} has no line for it: {_NOT_STATED}"
        if any(offset == OFFSET_UNKNOWN for _, _, offset in lines) and not all(map(_is_empty, directories)):
            return f"its line in {Path(partition.task, CHECKPOINT)} says that its position is unknown"
        return None

    def describe(self, key: bytes, value: bytes) -> str:
        if key == _STATUS_KEY:
            return "status: open (not closed cleanly)" if value == _STATUS_OPEN else "status: closed"
        if key == _POSITION_KEY:
            return f"position: {len(value)} bytes"
        line = _line(key, value)
        return f"unknown entry 0x{key.hex()}" if line is None else f"{line[0]}-{line[1]}: offset {line[2]}"


class _KafkaDiscovery(TreeDiscovery):
    def recognises(self, folder: Folder) -> bool:
        """Whether a folder holds its tasks, or only `global` and no sign of Streamiz."""
        in_state_dir = folder.path.parent / STREAMIZ_TREE.process_file
        is_alone = has_global(folder) and not (in_state_dir.is_file() or has_tasks(STREAMIZ_TREE, folder))
        return super().recognises(folder) or is_alone

    def owner_version(self, directory: Path) -> str | None:
        """The version, by the column family that 4.3 added or by the RocksDB that each version contains."""
        if OFFSETS in read_options(directory):
            return f"Kafka Streams 4.3 or newer: it has the column family {OFFSETS!r}"
        return super().owner_version(directory)

    def kind_of_timed_keys(self, families: Iterable[str]) -> UnsupportedKind:
        """Windows or sessions that emit on close; the files do not show which of the two."""
        return EMIT_ON_CLOSE_SESSIONS if SESSION_HEADERS_FAMILY in families else EMIT_ON_CLOSE_WINDOWS


def _is_empty(directory: Path) -> bool:
    with open_read_only(directory) as database:
        data = [family for family in database.families if family != OFFSETS]
        return not any(database.sample(family, None, 1).keys for family in data)


@dataclass(frozen=True, slots=True)
class Offsets:
    """The content of the family in one RocksDB directory."""

    lines: tuple[Line, ...]
    has_offset: bool
    """An entry for a changelog, even one that cannot be read."""
    is_open: bool
    """The store was not closed cleanly."""
    position: str | None
    """The position of queries, in the form of the file `<store>.position`."""


def read_offsets(directory: Path) -> Offsets | None:
    """The family's content; None: the directory has no such family."""
    if OFFSETS not in read_options(directory):
        return None
    with open_read_only(directory) as database:
        batches = database.batches(OFFSETS)
        entries = {key: value for batch in batches for key, value in zip(batch.keys, batch.values, strict=True)}
    position = entries.get(_POSITION_KEY)
    return Offsets(
        lines=tuple(line for key, value in entries.items() if (line := _line(key, value)) is not None),
        has_offset=bool(entries.keys() - {_STATUS_KEY, _POSITION_KEY}),
        is_open=entries.get(_STATUS_KEY) == _STATUS_OPEN,
        position=None if position is None else position_file(position),
    )


def position_file(value: bytes) -> str | None:
    """The entry `position` in the form of the file `<store>.position` of older versions; None: it cannot be read.

    | offset | size | field                                                     |
    |--------|------|-----------------------------------------------------------|
    | 0      | 1    | 00                                                        |
    | 1      | 4    | number of topics, big-endian                              |
    | then   | 4    | size of a topic's name, then the name in UTF-8            |
    | then   | 4    | number of its partitions, then each: 4 number, 8 offset   |
    | then   | rest | zeros                                                     |

    Source: org.apache.kafka.streams.state.internals.PositionSerde.
    """
    try:
        found = list(_position_lines(value))
    except (StructError, UnicodeDecodeError):  # of an unknown version, or damaged
        return None
    return format_checkpoint(found) if found else None


def _position_lines(value: bytes) -> Iterator[Line]:
    _, topics = _POSITION.unpack_from(value)
    at = _POSITION.size
    for _ in range(topics):
        (size,) = _SIZE.unpack_from(value, at)
        topic = value[at + _SIZE.size : at + _SIZE.size + size].decode()
        at += _SIZE.size + size
        (count,) = _SIZE.unpack_from(value, at)
        at += _SIZE.size
        for _ in range(count):
            number, offset = _PARTITION.unpack_from(value, at)
            yield topic, number, offset
            at += _PARTITION.size


def _line(key: bytes, value: bytes) -> Line | None:
    topic, hyphen, number = key.decode("utf-8", "replace").rpartition("-")
    if not hyphen or not number.isdecimal() or len(value) != 8:
        return None
    return topic, int(number), int.from_bytes(value, "big", signed=True)


_NAMES = _KafkaNames(KAFKA_STREAMS_TREE)
KAFKA_STREAMS = System(
    name="kafka-streams",
    title="Kafka Streams",
    layout=KAFKA_STREAMS_TREE,
    offsets=_KafkaCheckpoints(_NAMES),
    changelog=_NAMES,
    segments=_KafkaSegments(KAFKA_STREAMS_TREE),
    discovery=_KafkaDiscovery(KAFKA_STREAMS_TREE, _VERSIONS),
    unsupported=UNSUPPORTED,
)
