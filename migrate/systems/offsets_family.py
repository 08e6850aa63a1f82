"""Kafka Streams' column family `offsets`, in each RocksDB directory since 4.3.

| key (UTF-8)           | value                                     |
|-----------------------|-------------------------------------------|
| `<topic>-<partition>` | changelog offset, 64-bit big-endian       |
| `status`              | 64-bit big-endian: 1 open, 0 closed       |
| `position`            | the position of queries, padded with 00   |

Source: KIP-1035; org.apache.kafka.streams.state.internals.RocksDBStore.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from struct import error as StructError

from formats.kafka_streams.families import OFFSETS
from migrate.model.store_partition import Line
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.options_file import read_options
from migrate.systems.checkpoint_file import format_checkpoint

_POSITION = Struct(">BI")
_SIZE = Struct(">I")
_PARTITION = Struct(">iq")
STATUS_KEY = b"status"
POSITION_KEY = b"position"
STATUS_OPEN = (1).to_bytes(8, "big")


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
    position = entries.get(POSITION_KEY)
    return Offsets(
        lines=lines(entries.items()),
        has_offset=bool(entries.keys() - {STATUS_KEY, POSITION_KEY}),
        is_open=entries.get(STATUS_KEY) == STATUS_OPEN,
        position=None if position is None else position_file(position),
    )


def describe_entry(key: bytes, value: bytes) -> str:
    """One entry, as text for people."""
    if key == STATUS_KEY:
        return "status: open (not closed cleanly)" if value == STATUS_OPEN else "status: closed"
    if key == POSITION_KEY:
        return f"position: {len(value)} bytes"
    line = _line(key, value)
    return f"unknown entry 0x{key.hex()}" if line is None else f"{line[0]}-{line[1]}: offset {line[2]}"


def lines(entries: Iterable[tuple[bytes, bytes]]) -> tuple[Line, ...]:
    """The changelog offsets among entries."""
    return tuple(line for key, value in entries if (line := _line(key, value)) is not None)


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
