"""`streamiz.timestamped-window`: a windowed store with the timestamp of each window's last update.

One RocksDB directory for each segment, `<task>/<store>/<store>.<start>`, column family `default`. A record's segment is
that of its window's start; the store's segment interval is set by its owner, one hour by default.

| part  | offset | size   | field                                                            |
|-------|--------|--------|------------------------------------------------------------------|
| key   | 0      | rest   | key, as the key serde wrote it                                   |
| key   | -12    | 8      | start of the window, 64-bit big-endian milliseconds              |
| key   | -4     | 4      | sequence number, 32-bit big-endian; 0 unless duplicates stay     |
| value | 0      | 8      | timestamp, signed 64-bit little-endian milliseconds              |
| value | 8      | 4      | size of the value, signed 32-bit little-endian                   |
| value | 12     | size   | value, as the value serde wrote it                               |

The times of the key are big-endian and that of the value is little-endian. The changelog holds the key as it is, the
bare value, and the timestamp as the changelog record's own. Source: Streamiz.Kafka.Net.State
TimestampedWindowStoreBuilder, Helper.WindowKeyHelper, Logging.ChangeLoggingTimestampedWindowBytesStore,
Streamiz.Kafka.Net.SerDes.ValueAndTimestampSerDes.
"""

from __future__ import annotations

from formats.encoding.window_keys import WINDOW_KEY
from formats.streamiz.values import TIMESTAMPED, streamiz_format

TIMESTAMPED_WINDOW = streamiz_format(
    id="streamiz.timestamped-window",
    summary="Streamiz timestamped window store: key, window -> timestamp, value",
    kind="window",
    key_schema=WINDOW_KEY,
    value_layout=TIMESTAMPED,
)
