"""`kafka-streams.timestamped-key-value`: a key-value store with the timestamp of each key's last update.

One RocksDB directory `<task>/rocksdb/<store>`, column family `keyValueWithTimestamp`; `default` exists and is empty.

| part  | offset | size | field                                                               |
|-------|--------|------|---------------------------------------------------------------------|
| key   | 0      | rest | key, as the key serde wrote it                                      |
| value | 0      | 8    | timestamp, signed 64-bit big-endian milliseconds; -1: unknown       |
| value | 8      | rest | value, as the value serde wrote it                                  |

The changelog holds the bare value, and the timestamp as the changelog record's own.
Source: org.apache.kafka.streams.state.internals.RocksDBTimestampedStore, ValueAndTimestampSerializer,
TimestampedBytesStore.convertToTimestampedFormat.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from formats.errors import InvalidEntryError, TruncatedEntryError
from formats.format import Format
from formats.kafka_streams.key_value import OFFSETS_FAMILY
from formats.layout import PAYLOAD, Field

TIMESTAMP = Struct(">q")
NO_TIMESTAMP = -1


def pack_timestamp(timestamp_ms: int) -> bytes:
    """Eight bytes. Raises InvalidEntryError for what is no signed 64-bit number."""
    try:
        return TIMESTAMP.pack(timestamp_ms)
    except StructError as error:
        raise InvalidEntryError(f"timestamp {timestamp_ms!r} is not a signed 64-bit number") from error


@dataclass(frozen=True, slots=True)
class TimestampedValue:
    """timestamp | payload"""

    fields: tuple[Field, ...] = (
        Field("timestamp", TIMESTAMP.size, pack_timestamp),
        Field(PAYLOAD, None),
    )

    def unpack(self, data: bytes) -> tuple[bytes, dict[str, int]]:
        """Raises TruncatedEntryError."""
        if len(data) < TIMESTAMP.size:
            raise TruncatedEntryError("timestamped value", len(data), TIMESTAMP.size)
        (timestamp_ms,) = TIMESTAMP.unpack_from(data)
        return data[TIMESTAMP.size :], {"timestamp": timestamp_ms}

    def pack(self, payload: bytes, carried: dict[str, int]) -> bytes:
        """Raises InvalidEntryError for a timestamp of more than 64 bits."""
        return pack_timestamp(carried.get("timestamp", NO_TIMESTAMP)) + payload


TIMESTAMPED_KEY_VALUE = Format(
    id="kafka-streams.timestamped-key-value",
    summary="Kafka Streams timestamped key-value store: key -> timestamp, value",
    column_families=("keyValueWithTimestamp",),
    value_layout=TimestampedValue(),
    metadata_families=(OFFSETS_FAMILY,),
    has_changelog=True,
    keeps_keys_in_tasks=True,
)
