"""`kafka-streams.timestamped-key-value`: a key-value store with the timestamp of each key's last update.

One RocksDB directory `<task>/rocksdb/<store>`, column family `keyValueWithTimestamp`. `default` exists; it is empty
unless an upgrade from a plain store is not finished.

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

from formats.format import OlderFamily
from formats.kafka_streams.families import PLAIN_FAMILY, TIMESTAMPED_FAMILY, kafka_streams_format
from formats.kafka_streams.values import TIMESTAMPED
from formats.layout import PLAIN

TIMESTAMPED_KEY_VALUE = kafka_streams_format(
    id="kafka-streams.timestamped-key-value",
    summary="Kafka Streams timestamped key-value store: key -> timestamp, value",
    column_families=(TIMESTAMPED_FAMILY,),
    value_layout=TIMESTAMPED,
    older_families=(OlderFamily(PLAIN_FAMILY, PLAIN),),
)
