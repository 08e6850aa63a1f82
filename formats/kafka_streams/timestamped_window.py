"""`kafka-streams.timestamped-window`: a windowed store with the timestamp of each window's last update.

One RocksDB directory for each segment, `<task>/<store>/<store>.<start>`, column family
`keyValueWithTimestamp`. A record's segment is that of its window's start.

| part  | offset | size   | field                                                            |
|-------|--------|--------|------------------------------------------------------------------|
| key   | 0      | rest   | key, as the key serde wrote it                                   |
| key   | -12    | 8      | start of the window, 64-bit big-endian milliseconds              |
| key   | -4     | 4      | sequence number, 32-bit big-endian; 0 unless duplicates stay     |
| value | 0      | 8      | timestamp, 64-bit big-endian milliseconds; -1: unknown           |
| value | 8      | rest   | value, as the value serde wrote it                               |

The changelog holds the bare value, and the timestamp as the changelog record's own.
Source: org.apache.kafka.streams.state.internals.RocksDBTimestampedWindowStore, TimestampedSegments, WindowKeySchema.
"""

from __future__ import annotations

from formats.encoding.window_keys import WINDOW_KEY
from formats.format import OlderFamily
from formats.kafka_streams.families import PLAIN_FAMILY, TIMESTAMPED_FAMILY, kafka_streams_format
from formats.kafka_streams.values import TIMESTAMPED
from formats.layout import PLAIN

TIMESTAMPED_WINDOW = kafka_streams_format(
    id="kafka-streams.timestamped-window",
    summary="Kafka Streams timestamped window store: key, window -> timestamp, value",
    column_families=(TIMESTAMPED_FAMILY,),
    kind="window",
    key_schema=WINDOW_KEY,
    value_layout=TIMESTAMPED,
    older_families=(OlderFamily(PLAIN_FAMILY, PLAIN),),
)
