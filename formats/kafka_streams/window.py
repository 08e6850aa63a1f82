"""`kafka-streams.window`: a windowed store without timestamps, and the windows of a stream-stream join.

One RocksDB directory for each segment, `<task>/<store>/<store>.<start>`, column family
`default`. A record's segment is that of its window's start.

| part  | offset | size   | field                                                            |
|-------|--------|--------|------------------------------------------------------------------|
| key   | 0      | rest   | key, as the key serde wrote it                                   |
| key   | -12    | 8      | start of the window, 64-bit big-endian milliseconds              |
| key   | -4     | 4      | sequence number, 32-bit big-endian; 0 unless duplicates stay     |
| value | 0      | rest   | value, as the value serde wrote it                               |

Join windows keep duplicates of a key and time apart by the sequence number. The changelog holds the same bytes.
Source: org.apache.kafka.streams.state.internals.RocksDBWindowStore, WindowKeySchema, AbstractSegments.
"""

from __future__ import annotations

from formats.encoding.window_keys import WINDOW_KEY
from formats.kafka_streams.families import PLAIN_FAMILY, kafka_streams_format

WINDOW = kafka_streams_format(
    id="kafka-streams.window",
    summary="Kafka Streams window store: key, window -> value",
    column_families=(PLAIN_FAMILY,),
    kind="window",
    key_schema=WINDOW_KEY,
)
