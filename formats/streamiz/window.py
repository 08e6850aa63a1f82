"""`streamiz.window`: a windowed store without timestamps, and the windows of a stream-stream join.

One RocksDB directory for each segment, `<task>/<store>/<store>.<start>`, column family `default`. A record's segment is
that of its window's start; the store's segment interval is set by its owner, one hour by default.

| part  | offset | size   | field                                                            |
|-------|--------|--------|------------------------------------------------------------------|
| key   | 0      | rest   | key, as the key serde wrote it                                   |
| key   | -12    | 8      | start of the window, 64-bit big-endian milliseconds              |
| key   | -4     | 4      | sequence number, 32-bit big-endian; 0 unless duplicates stay     |
| value | 0      | rest   | value, as the value serde wrote it                               |

The changelog holds the same bytes. Source: Streamiz.Kafka.Net.State RocksDbWindowStore, Helper.WindowKeyHelper,
Internal.AbstractSegments, Stores.
"""

from __future__ import annotations

from formats.encoding.window_keys import WINDOW_KEY
from formats.streamiz.values import streamiz_format

WINDOW = streamiz_format(
    id="streamiz.window",
    summary="Streamiz window store: key, window -> value",
    kind="window",
    key_schema=WINDOW_KEY,
)
