"""The key-value, window and session stores of Kafka Streams.

A key-value store is one RocksDB directory `<task>/rocksdb/<store>`. A window or session store has one for each segment,
`<task>/<store>/<store>.<start>`; a record's segment is that of its window's start, or of its session's end.

| key of       | offset | size   | field                                                            |
|--------------|--------|--------|------------------------------------------------------------------|
| each         | 0      | rest   | key, as the key serde wrote it                                   |
| a window     | -12    | 8      | start of the window, 64-bit big-endian milliseconds              |
| a window     | -4     | 4      | sequence number, 32-bit big-endian; 0 unless duplicates stay     |
| a session    | -16    | 8      | end of the session, 64-bit big-endian milliseconds               |
| a session    | -8     | 8      | start of the session, the same                                   |

A value begins with the parts that its format has, in this order:

| part      | size   | field                                              | formats                     |
|-----------|--------|----------------------------------------------------|-----------------------------|
| headers   | varint | size of the headers, zigzag; 00: none              | with headers                |
| headers   | size   | headers; see formats.encoding.headers              | with headers                |
| timestamp | 8      | signed 64-bit big-endian milliseconds; -1: unknown | timestamped or with headers |
| value     | rest   | value, as the value serde wrote it                 | all                         |

Sessions have no timestamp. A null value deletes the key; an empty value is a value. Join windows keep duplicates of a
key and time apart by the sequence number.

Plain stores are in the column family `default`, those with timestamps in `keyValueWithTimestamp`, those with headers
(since 4.3) in `keyValueWithTimestampAndHeaders` or `sessionKeyValueWithHeaders`. The families of older formats are
empty, or not there, unless an upgrade is not finished. Since 4.3 the directory has a column family `offsets` too, which
is the system's own.

The changelog holds the key as it is and the bare value, with timestamp and headers as the changelog record's own.
Source: org.apache.kafka.streams.state.internals.RocksDBStore, RocksDBTimestampedStore, ValueAndTimestampSerializer,
TimestampedBytesStore.convertToTimestampedFormat, RocksDBTimestampedStoreWithHeaders, ValueTimestampHeadersSerializer,
RocksDBWindowStore, WindowKeySchema, AbstractSegments, RocksDBTimestampedWindowStore, TimestampedSegments,
RocksDBTimestampedWindowStoreWithHeaders, RocksDBSessionStore, SessionKeySchema, RocksDBSessionStoreWithHeaders,
AggregationWithHeadersSerializer.
"""

from __future__ import annotations

from functools import partial

from formats.encoding.window_keys import SESSION_KEY, WINDOW_KEY
from formats.format import OlderFamily
from formats.kafka_streams.families import (
    HEADERS_FAMILY,
    PLAIN_FAMILY,
    SESSION_HEADERS_FAMILY,
    TIMESTAMPED_FAMILY,
    kafka_streams_format,
)
from formats.kafka_streams.values import SESSION_WITH_HEADERS, TIMESTAMPED, WITH_HEADERS
from formats.layout import PLAIN

_OLD_PLAIN = OlderFamily(PLAIN_FAMILY, PLAIN)
_plain = partial(kafka_streams_format, column_families=(PLAIN_FAMILY,))
_timestamped = partial(
    kafka_streams_format, column_families=(TIMESTAMPED_FAMILY,), value_layout=TIMESTAMPED, older_families=(_OLD_PLAIN,)
)
_with_headers = partial(
    kafka_streams_format,
    column_families=(HEADERS_FAMILY,),
    value_layout=WITH_HEADERS,
    older_families=(OlderFamily(TIMESTAMPED_FAMILY, TIMESTAMPED), _OLD_PLAIN),
    since="4.3",
)

KEY_VALUE = _plain(id="kafka-streams.key-value", summary="Kafka Streams key-value store: key -> value")
TIMESTAMPED_KEY_VALUE = _timestamped(
    id="kafka-streams.timestamped-key-value",
    summary="Kafka Streams timestamped key-value store: key -> timestamp, value",
)
HEADERS_KEY_VALUE = _with_headers(
    id="kafka-streams.headers-key-value",
    summary="Kafka Streams key-value store with headers: key -> headers, timestamp, value",
)
WINDOW = _plain(
    id="kafka-streams.window",
    summary="Kafka Streams window store: key, window -> value",
    kind="window",
    key_schema=WINDOW_KEY,
)
TIMESTAMPED_WINDOW = _timestamped(
    id="kafka-streams.timestamped-window",
    summary="Kafka Streams timestamped window store: key, window -> timestamp, value",
    kind="window",
    key_schema=WINDOW_KEY,
)
HEADERS_WINDOW = _with_headers(
    id="kafka-streams.headers-window",
    summary="Kafka Streams window store with headers: key, window -> headers, timestamp, value",
    kind="window",
    key_schema=WINDOW_KEY,
)
SESSION = _plain(
    id="kafka-streams.session",
    summary="Kafka Streams session store: key, session -> value",
    kind="session",
    key_schema=SESSION_KEY,
)
HEADERS_SESSION = _with_headers(
    id="kafka-streams.headers-session",
    summary="Kafka Streams session store with headers: key, session -> headers, value",
    column_families=(SESSION_HEADERS_FAMILY,),
    kind="session",
    key_schema=SESSION_KEY,
    value_layout=SESSION_WITH_HEADERS,
    older_families=(_OLD_PLAIN,),
)
