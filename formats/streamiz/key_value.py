"""`streamiz.key-value`: a plain persistent key-value store.

One RocksDB directory `<task>/rocksdb/<store>`, column family `default`.

| part  | offset | size | field                                |
|-------|--------|------|--------------------------------------|
| key   | 0      | rest | key, as the key serde wrote it       |
| value | 0      | rest | value, as the value serde wrote it   |

A null value deletes the key; an empty value is a value. The changelog holds the same bytes.
Source: Streamiz.Kafka.Net.State RocksDbKeyValueStore, SingleColumnFamilyAdapter,
Logging.ChangeLoggingKeyValueBytesStore.
"""

from __future__ import annotations

from formats.streamiz.values import streamiz_format

KEY_VALUE = streamiz_format(
    id="streamiz.key-value",
    summary="Streamiz key-value store: key -> value",
)
