"""`kafka-streams.key-value`: a plain persistent key-value store.

One RocksDB directory `<task>/rocksdb/<store>`, column family `default`.

| part  | offset | size | field                                |
|-------|--------|------|--------------------------------------|
| key   | 0      | rest | key, as the key serde wrote it       |
| value | 0      | rest | value, as the value serde wrote it   |

A null value deletes the key; an empty value is a value. Since 4.3 the directory has a column family `offsets` too,
which is the system's own. Source: org.apache.kafka.streams.state.internals.RocksDBStore.
"""

from __future__ import annotations

from formats.kafka_streams.families import PLAIN_FAMILY, kafka_streams_format

KEY_VALUE = kafka_streams_format(
    id="kafka-streams.key-value",
    summary="Kafka Streams key-value store: key -> value",
    column_families=(PLAIN_FAMILY,),
)
