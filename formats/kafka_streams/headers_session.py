"""`kafka-streams.headers-session`: a session store with headers; since 4.3.

One RocksDB directory for each segment, `<task>/<store>/<store>.<start>`, column family
`sessionKeyValueWithHeaders`. A record's segment is that of its session's end.

| part  | offset | size   | field                                                            |
|-------|--------|--------|------------------------------------------------------------------|
| key   | 0      | rest   | key, as the key serde wrote it                                   |
| key   | -16    | 8      | end of the session, 64-bit big-endian milliseconds               |
| key   | -8     | 8      | start of the session, the same                                   |
| value | 0      | varint | size of the headers, zigzag; 00: none                            |
| value | then   | size   | headers; see formats.encoding.headers                                     |
| value | then   | rest   | value, as the value serde wrote it                               |

The changelog holds the bare value, with headers as the changelog record's own.
Source: org.apache.kafka.streams.state.internals.RocksDBSessionStoreWithHeaders, AggregationWithHeadersSerializer.
"""

from __future__ import annotations

from formats.encoding.window_keys import SESSION_KEY
from formats.format import OlderFamily
from formats.kafka_streams.families import PLAIN_FAMILY, SESSION_HEADERS_FAMILY, kafka_streams_format
from formats.kafka_streams.values import SESSION_WITH_HEADERS
from formats.layout import PLAIN

HEADERS_SESSION = kafka_streams_format(
    id="kafka-streams.headers-session",
    summary="Kafka Streams session store with headers: key, session -> headers, value",
    column_families=(SESSION_HEADERS_FAMILY,),
    kind="session",
    key_schema=SESSION_KEY,
    value_layout=SESSION_WITH_HEADERS,
    older_families=(OlderFamily(PLAIN_FAMILY, PLAIN),),
    since="4.3",
)
