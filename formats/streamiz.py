"""The stores of Streamiz, all in the column family `default`.

A key-value store is one RocksDB directory `<task>/rocksdb/<store>`. A window store has one for each segment,
`<task>/<store>/<store>.<start>`; a record's segment is that of its window's start. The segment interval is set by the
store's owner, one hour by default.

| part              | offset | size | field                                                            |
|-------------------|--------|------|------------------------------------------------------------------|
| key               | 0      | rest | key, as the key serde wrote it                                   |
| key of a window   | -12    | 8    | start of the window, 64-bit big-endian milliseconds              |
| key of a window   | -4     | 4    | sequence number, 32-bit big-endian; 0 unless duplicates stay     |
| plain value       | 0      | rest | value, as the value serde wrote it                               |
| timestamped value | 0      | 8    | timestamp, signed 64-bit little-endian milliseconds              |
| timestamped value | 8      | 4    | size of the value, signed 32-bit little-endian                   |
| timestamped value | 12     | size | value, as the value serde wrote it                               |

Join windows are plain ones. A null value deletes the key, and is never written; an empty value is a value. Streamiz has
no timestamp for "unknown"; -1 is written, as Kafka Streams does, which is older than any time there is. The changelog
holds the key as it is and the bare value, and the timestamp as the changelog record's own.

Source: Streamiz.Kafka.Net.State RocksDbKeyValueStore, SingleColumnFamilyAdapter, TimestampedKeyValueStoreBuilder,
RocksDbWindowStore, TimestampedWindowStoreBuilder, Helper.WindowKeyHelper, Internal.AbstractSegments,
Internal.StateManagerTools, Stores, Logging.ChangeLoggingKeyValueBytesStore,
Logging.ChangeLoggingTimestampedKeyValueBytesStore, Logging.ChangeLoggingTimestampedWindowBytesStore;
Streamiz.Kafka.Net.SerDes ValueAndTimestampSerDes (System.IO.BinaryWriter writes little-endian).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from struct import Struct
from struct import error as StructError

from formats.encoding.window_keys import WINDOW_KEY
from formats.errors import InvalidEntryError, TruncatedEntryError
from formats.format import Format
from formats.layout import PAYLOAD_FIELD, TIMESTAMP, UNKNOWN_TIME, VALUE_SIZE, Carried, Field, Framing

_TIMESTAMP = Struct("<q")
_SIZE = Struct("<i")
_HEAD = Struct("<qi")


def pack_timestamp(timestamp_ms: int) -> bytes:
    """The timestamp's eight bytes. Raises InvalidEntryError for what is not a signed 64-bit number."""
    try:
        return _TIMESTAMP.pack(timestamp_ms)
    except StructError as error:
        raise InvalidEntryError(f"timestamp {timestamp_ms!r} is not a signed 64-bit number") from error


@dataclass(frozen=True, slots=True)
class SizedTimestampedValue:
    """timestamp | size of the payload | payload"""

    fields: tuple[Field, ...] = (
        Field(TIMESTAMP, _TIMESTAMP.size, pack_timestamp, is_little_endian=True),
        Field(VALUE_SIZE, _SIZE.size, framing=Framing.SIZE),
        PAYLOAD_FIELD,
    )

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        if len(data) < _HEAD.size:
            raise TruncatedEntryError("timestamped value", len(data), _HEAD.size)
        timestamp_ms, size = _HEAD.unpack_from(data)
        payload = data[_HEAD.size :]
        if size != len(payload):
            raise InvalidEntryError(f"the value says that it has {size} bytes, and {len(payload)} follow")
        return payload, {TIMESTAMP: timestamp_ms}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        timestamp = pack_timestamp(carried.get(TIMESTAMP, UNKNOWN_TIME))
        try:
            return timestamp + _SIZE.pack(len(payload)) + payload
        except StructError as error:
            raise InvalidEntryError(f"a value of {len(payload)} bytes is too large for its size field") from error


TIMESTAMPED = SizedTimestampedValue()
_streamiz_format = partial(Format, column_families=("default",), has_changelog=True, keeps_keys_in_tasks=True)
KEY_VALUE = _streamiz_format(id="streamiz.key-value", summary="Streamiz key-value store: key -> value")
TIMESTAMPED_KEY_VALUE = _streamiz_format(
    id="streamiz.timestamped-key-value",
    summary="Streamiz timestamped key-value store: key -> timestamp, value",
    value_layout=TIMESTAMPED,
)
WINDOW = _streamiz_format(
    id="streamiz.window", summary="Streamiz window store: key, window -> value", kind="window", key_schema=WINDOW_KEY
)
TIMESTAMPED_WINDOW = _streamiz_format(
    id="streamiz.timestamped-window",
    summary="Streamiz timestamped window store: key, window -> timestamp, value",
    kind="window",
    key_schema=WINDOW_KEY,
    value_layout=TIMESTAMPED,
)
