"""`kafka-streams.session`: a session store.

One RocksDB directory for each segment, `<task>/<store>/<store>.<start>`, column family
`default`. A record's segment is that of its session's end.

| part  | offset | size   | field                                                            |
|-------|--------|--------|------------------------------------------------------------------|
| key   | 0      | rest   | key, as the key serde wrote it                                   |
| key   | -16    | 8      | end of the session, 64-bit big-endian milliseconds               |
| key   | -8     | 8      | start of the session, the same                                   |
| value | 0      | rest   | value, as the value serde wrote it                               |

The changelog holds the same bytes.
Source: org.apache.kafka.streams.state.internals.RocksDBSessionStore, SessionKeySchema.
"""

from __future__ import annotations

from formats.encoding.window_keys import SESSION_KEY
from formats.kafka_streams.families import PLAIN_FAMILY, kafka_streams_format

SESSION = kafka_streams_format(
    id="kafka-streams.session",
    summary="Kafka Streams session store: key, session -> value",
    column_families=(PLAIN_FAMILY,),
    kind="session",
    key_schema=SESSION_KEY,
)
