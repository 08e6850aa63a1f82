"""`streamiz.timestamped-key-value`: a key-value store with the timestamp of each key's last update.

One RocksDB directory `<task>/rocksdb/<store>`, column family `default`: only the bytes differ from a plain store.

| part  | offset | size | field                                                  |
|-------|--------|------|--------------------------------------------------------|
| key   | 0      | rest | key, as the key serde wrote it                         |
| value | 0      | 8    | timestamp, signed 64-bit little-endian milliseconds    |
| value | 8      | 4    | size of the value, signed 32-bit little-endian         |
| value | 12     | size | value, as the value serde wrote it                     |

The changelog holds the bare value, and the timestamp as the changelog record's own.
Source: Streamiz.Kafka.Net.SerDes.ValueAndTimestampSerDes, State.TimestampedKeyValueStoreBuilder,
State.Logging.ChangeLoggingTimestampedKeyValueBytesStore.
"""

from __future__ import annotations

from formats.streamiz.values import TIMESTAMPED, streamiz_format

TIMESTAMPED_KEY_VALUE = streamiz_format(
    id="streamiz.timestamped-key-value",
    summary="Streamiz timestamped key-value store: key -> timestamp, value",
    value_layout=TIMESTAMPED,
)
