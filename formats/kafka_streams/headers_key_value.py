"""`kafka-streams.headers-key-value`: a key-value store with the timestamp and headers of each key's last update.

One RocksDB directory `<task>/rocksdb/<store>`, column family `keyValueWithTimestampAndHeaders`; since 4.3. `default` is
empty, and `keyValueWithTimestamp` is not there, unless an upgrade is not finished.

| part  | offset | size   | field                                                             |
|-------|--------|--------|-------------------------------------------------------------------|
| key   | 0      | rest   | key, as the key serde wrote it                                    |
| value | 0      | varint | size of the headers, zigzag; 00: none                             |
| value | then   | size   | headers; see formats.encoding.headers                                      |
| value | then   | 8      | timestamp, signed 64-bit big-endian milliseconds; -1: unknown     |
| value | then   | rest   | value, as the value serde wrote it                                |

The changelog holds the bare value, with timestamp and headers as the changelog record's own.
Source: org.apache.kafka.streams.state.internals.RocksDBTimestampedStoreWithHeaders, ValueTimestampHeadersSerializer.
"""

from __future__ import annotations

from formats.format import OlderFamily
from formats.kafka_streams.families import HEADERS_FAMILY, PLAIN_FAMILY, TIMESTAMPED_FAMILY, kafka_streams_format
from formats.kafka_streams.values import TIMESTAMPED, WITH_HEADERS
from formats.layout import PLAIN

HEADERS_KEY_VALUE = kafka_streams_format(
    id="kafka-streams.headers-key-value",
    summary="Kafka Streams key-value store with headers: key -> headers, timestamp, value",
    column_families=(HEADERS_FAMILY,),
    value_layout=WITH_HEADERS,
    older_families=(OlderFamily(TIMESTAMPED_FAMILY, TIMESTAMPED), OlderFamily(PLAIN_FAMILY, PLAIN)),
    since="4.3",
)
