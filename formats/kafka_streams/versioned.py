"""`kafka-streams.versioned`: a key-value store that remembers former values.

One RocksDB directory `<task>/rocksdb/<store>`, column family `default`. The latest value of a key, and its former ones,
of each segment of time together:

| part  | offset | size | field                                                            |
|-------|--------|------|------------------------------------------------------------------|
| key   | 0      | 8    | -1: the latest value; else the segment, 64-bit big-endian        |
| key   | 8      | rest | key, as the key serde wrote it                                   |

| latest value | size | field                                                            |
|--------------|------|------------------------------------------------------------------|
| 0            | 8    | valid from, 64-bit big-endian milliseconds                       |
| 8            | rest | value, as the value serde wrote it                               |

| former values | size   | field                                                         |
|---------------|--------|---------------------------------------------------------------|
| 0             | 8      | when the newest one ended, 64-bit big-endian milliseconds     |
| 8             | 8      | when the oldest one began                                     |
| 16            | 8      | when one began; repeated with its size, the newest first      |
| then          | 4      | its size, 32-bit big-endian; -1: the key was deleted then     |
| then          | size   | the values, the oldest first                                  |

The list ends with the one that began when the oldest did. A key that was deleted before it was ever written has one
version, which is deleted and ends when it begins. The segment is the end of a value's time, divided by the
segment interval.

The changelog holds a record for each version: the bare key and value, and as the record's timestamp since when it
holds; a deletion is a tombstone. The order matters: a restored store drops a record that is older than the newest one
before it by more than the retention. Source: org.apache.kafka.streams.state.internals.RocksDBVersionedStore
(restoreBatch, doPut), RocksDBVersionedStoreSegmentValueFormatter, ChangeLoggingVersionedKeyValueBytesStore.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import NoReturn

from formats.changelog import ChangelogForm, ChangelogRecord
from formats.errors import InvalidEntryError, TruncatedEntryError
from formats.format import Format
from formats.kafka_streams.families import PLAIN_FAMILY, kafka_streams_format
from formats.kafka_streams.values import TIMESTAMPED, cut_int64, pack_timestamp
from formats.layout import HISTORY, PLAIN, TIMESTAMP
from formats.record import History, StateRecord, Version

_INT64 = Struct(">q")
_TIMES = Struct(">qq")
_VERSION = Struct(">qi")
LATEST = -1
_DELETED = -1
_SEGMENTS = (60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000)
"""Up to a retention: how many segments it has, and the least time of one; all in ms."""


@dataclass(frozen=True)
class VersionedForm(ChangelogForm):
    """A record for each version of a key, in the order of time."""

    @property
    def is_in_order_of_time(self) -> bool:
        return True

    @property
    def programs(self) -> None:
        """An entry may hold several versions."""
        return None

    def records(self, key: bytes, value: bytes) -> tuple[ChangelogRecord, ...]:
        """The versions of an entry, the oldest first, and the end of the last one as a deletion. Raises EntryError.

        That time may be the beginning of a version in another entry: one behind it, in the order of the store's keys.
        """
        segment, user_key = cut_key(key)
        if segment == LATEST:
            payload, carried = self.value_layout.unpack(value)
            return (ChangelogRecord(user_key, payload, carried[TIMESTAMP]),)
        valid_to_ms, versions = _read_versions(value)
        found = tuple(ChangelogRecord(user_key, payload, begin) for begin, payload in reversed(versions))
        return found if versions[0][0] == valid_to_ms else (*found, ChangelogRecord(user_key, None, valid_to_ms))

    def entry(self, record: ChangelogRecord) -> NoReturn:
        raise InvalidEntryError("a record of a versioned store is part of the history of its key, not an entry")


@dataclass(frozen=True)
class VersionedFormat(Format):
    """The format of versioned stores, whose entries may hold several former values."""

    @property
    def carries(self) -> frozenset[str]:
        return super().carries | {HISTORY}

    @property
    def changelog_form(self) -> ChangelogForm:
        return VersionedForm(PLAIN, self.value_layout)

    def warnings_from(self, source: Format) -> list[str]:
        reads = (
            "Kafka Streams 3.9 to 4.3 finds former values only in segments of time that were written to since its "
            "start: they are in the new store, and reads as of a former time find them once something is written there"
        )
        topic = (
            "the changelog topic of a versioned store needs min.compaction.lag.ms of its history retention: set it "
            "before the application starts"
        )
        return [reads] if source.kind == "versioned" else [reads, topic]

    def decode(self, key: bytes, value: bytes) -> StateRecord:
        """The latest value, or a key's former ones in `history`. Raises EntryError."""
        segment, stored_key = cut_key(key)
        user_key = self.key_serde.decode(stored_key)
        if segment == LATEST:
            payload, carried = self.value_layout.unpack(value)
            return StateRecord(user_key, self.value_serde.decode(payload), timestamp_ms=carried[TIMESTAMP])
        valid_to_ms, versions = _read_versions(value)
        decoded = tuple(
            Version(begin, None if payload is None else self.value_serde.decode(payload)) for begin, payload in versions
        )
        return StateRecord(user_key, None, history=History(segment, valid_to_ms, decoded))

    def decode_key(self, key: bytes) -> StateRecord:
        return StateRecord(self.key_serde.decode(cut_key(key)[1]), None)

    def key_payload(self, key: bytes) -> bytes:
        return cut_key(key)[1]

    def encode_key(self, record: StateRecord) -> bytes:
        return key_in(LATEST, self.key_serde.encode(record.key))

    def encode(self, record: StateRecord) -> tuple[bytes, bytes]:
        """(key, value). Raises InvalidEntryError for a record of unknown time, by which a versioned store sorts."""
        user_key = self.key_serde.encode(record.key)
        history = record.history
        if history is not None:
            versions = [
                (version.valid_from_ms, None if version.value is None else self.value_serde.encode(version.value))
                for version in history.versions
            ]
            return _write_history(history.segment, user_key, history.valid_to_ms, versions)
        if record.timestamp_ms is None or record.timestamp_ms < 0:
            raise InvalidEntryError(
                "its timestamp is unknown, and a versioned store says since when a value holds: "
                "give [conversion] default_timestamp_ms, or a function that knows"
            )
        value = pack_timestamp(record.timestamp_ms) + self.value_serde.encode(record.value)
        return self.encode_key(record), value


def key_in(segment: int, key: bytes) -> bytes:
    """The stored key of a serialized one in a segment, or of its latest value: LATEST."""
    return _INT64.pack(segment) + key


def time_of(value: bytes) -> int:
    """The time that an entry begins with: of the latest value its start, of former ones the newest one's end.

    Raises EntryError.
    """
    return cut_int64(value, "time of an entry")[0]


def default_segment_ms(retention_ms: int) -> int:
    """The time that each segment covers where the application does not configure it.

    Source: org.apache.kafka.streams.state.internals.RocksDbVersionedKeyValueBytesStoreSupplier.
    """
    for most, parts, least in _SEGMENTS:
        if retention_ms <= most:
            return max(retention_ms // parts, least)
    return max(retention_ms // 24, 300_000)


def cut_key(key: bytes) -> tuple[int, bytes]:
    """(segment, serialized key). Raises EntryError."""
    segment, user_key = cut_int64(key, "key of a versioned store")
    if segment < LATEST:
        raise InvalidEntryError(f"a versioned store has no segment {segment}")
    return segment, user_key


def _read_versions(data: bytes) -> tuple[int, list[tuple[int, bytes | None]]]:
    """(when the newest ended, (begin, payload) of each, the newest first)."""
    if len(data) < _TIMES.size + _VERSION.size:
        raise TruncatedEntryError("history of a key", len(data), _TIMES.size + _VERSION.size)
    valid_to_ms, oldest = _TIMES.unpack_from(data)
    heads: list[tuple[int, int]] = []
    at = _TIMES.size
    while not heads or heads[-1][0] != oldest:
        if at + _VERSION.size > len(data):
            raise TruncatedEntryError("history of a key", len(data), at + _VERSION.size)
        begin, size = _VERSION.unpack_from(data, at)
        if size < _DELETED or (heads and begin >= heads[-1][0]):
            raise InvalidEntryError(f"a version in the history of a key has a size of {size} and begins at {begin}")
        heads.append((begin, size))
        at += _VERSION.size
    versions: list[tuple[int, bytes | None]] = []
    end = len(data)
    for begin, size in heads:
        start = end - max(size, 0)
        versions.append((begin, None if size == _DELETED else data[start:end]))
        end = start
    if end != at:
        raise InvalidEntryError(f"the values in the history of a key are {end - at} bytes longer than their sizes say")
    return valid_to_ms, versions


def _write_history(
    segment: int, key: bytes, valid_to_ms: int, versions: list[tuple[int, bytes | None]]
) -> tuple[bytes, bytes]:
    if not versions:
        raise InvalidEntryError("the history of a key has no version")
    try:
        heads = [_VERSION.pack(begin, _DELETED if payload is None else len(payload)) for begin, payload in versions]
        times = _TIMES.pack(valid_to_ms, versions[-1][0])
        place = _INT64.pack(segment)
    except StructError as error:
        raise InvalidEntryError(f"a number in the history of a key does not fit: {error}") from error
    payloads = [payload or b"" for _, payload in reversed(versions)]
    return place + key, b"".join([times, *heads, *payloads])


VERSIONED = VersionedFormat(
    **kafka_streams_format.keywords,
    id="kafka-streams.versioned",
    summary="Kafka Streams versioned key-value store: key -> values and since when each holds",
    column_families=(PLAIN_FAMILY,),
    kind="versioned",
    value_layout=TIMESTAMPED,
)
