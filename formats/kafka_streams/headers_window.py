"""`kafka-streams.headers-window`: a windowed store with timestamps and headers, and the windows of a join; since 4.3.

One RocksDB directory for each segment, `<task>/<store>/<store>.<start>`, column family
`keyValueWithTimestampAndHeaders`. A record's segment is that of its window's start.

| part  | offset | size   | field                                                            |
|-------|--------|--------|------------------------------------------------------------------|
| key   | 0      | rest   | key, as the key serde wrote it                                   |
| key   | -12    | 8      | start of the window, 64-bit big-endian milliseconds              |
| key   | -4     | 4      | sequence number, 32-bit big-endian; 0 unless duplicates stay     |
| value | 0      | varint | size of the headers, zigzag; 00: none                            |
| value | then   | size   | headers; see formats.encoding.headers                                     |
| value | then   | 8      | timestamp, 64-bit big-endian milliseconds; -1: unknown           |
| value | then   | rest   | value, as the value serde wrote it                               |

The changelog holds the bare value, with timestamp and headers as the changelog record's own.
Source: org.apache.kafka.streams.state.internals.RocksDBTimestampedWindowStoreWithHeaders,
ValueTimestampHeadersSerializer.
"""

from __future__ import annotations

from formats.encoding.window_keys import WINDOW_KEY
from formats.format import OlderFamily
from formats.kafka_streams.families import HEADERS_FAMILY, PLAIN_FAMILY, TIMESTAMPED_FAMILY, kafka_streams_format
from formats.kafka_streams.values import TIMESTAMPED, WITH_HEADERS
from formats.layout import PLAIN

HEADERS_WINDOW = kafka_streams_format(
    id="kafka-streams.headers-window",
    summary="Kafka Streams window store with headers: key, window -> headers, timestamp, value",
    column_families=(HEADERS_FAMILY,),
    kind="window",
    key_schema=WINDOW_KEY,
    value_layout=WITH_HEADERS,
    older_families=(OlderFamily(TIMESTAMPED_FAMILY, TIMESTAMPED), OlderFamily(PLAIN_FAMILY, PLAIN)),
    since="4.3",
)
