"""Stores of Kafka Streams that cannot be migrated: how they are recognized, and why not.

| kind                      | where                                  | key                              | value        |
|---------------------------|----------------------------------------|----------------------------------|--------------|
| windows, emit on close    | segments, `default`                    | 00, start, key, sequence         | time, value  |
| with headers (4.3)        | segments, `windowKeyValueWithHeaders`  | the same                         | headers first|
| sessions, emit on close   | segments, `default`                    | 00, end, start, key              | value        |
| with headers (4.3)        | segments, `sessionKeyValueWithHeaders` | the same                         | value        |
| index of both             | the same                               | 01, key, times (and sequence)    | empty        |
| outer join's list store   | `rocksdb/<name>`, `default`            | time, side, key                  | a list       |
| foreign-key subscriptions | `rocksdb/<name>`, as timestamped       | size of the foreign key, it, key | time, wrapper|

Source: org.apache.kafka.streams.state.internals PrefixedWindowKeySchemas, PrefixedSessionKeySchemas,
RocksDbTimeOrderedSessionHeadersBytesStoreSupplier, TimestampedKeyAndJoinSideSerializer, ListValueStore;
org.apache.kafka.streams.kstream.internals.foreignkeyjoin.CombinedKeySchema, SubscriptionWrapperSerde.
"""

from __future__ import annotations

from formats.unsupported import UnsupportedKind

WINDOW_HEADERS_FAMILY = "windowKeyValueWithHeaders"
LIST_HEADERS_FAMILY = "listValueWithHeaders"
_RESTORE = "let the application restore it from its changelog, in a store of the new kind"
EMIT_ON_CLOSE_WINDOWS = UnsupportedKind(
    name="a window store that emits when a window closes",
    recognized_by=f"the column family {WINDOW_HEADERS_FAMILY!r}; without headers, keys alone: they begin with 00 or 01",
    reason="its keys begin with the time, and some have an index beside them that one version writes and another needs",
    instead=_RESTORE,
    families=(WINDOW_HEADERS_FAMILY,),
)
EMIT_ON_CLOSE_SESSIONS = UnsupportedKind(
    name="a session store that emits when a session closes",
    recognized_by="keys alone: they begin with 00 or 01",
    reason="its keys begin with the time and have an index beside them, and Kafka Streams 4.3.1 does not agree with "
    "itself about how its values with headers are written",
    instead=_RESTORE,
)
OUTER_JOIN = UnsupportedKind(
    name="the list store of an outer or left join",
    recognized_by="its name: KSTREAM-OUTERSHARED-...-store, or one that ends with -outer-shared-join-store or "
    "-left-shared-join-store",
    reason="it holds lists of values that wait for their partners, in a frame of Kafka Streams' own",
    instead="leave it as it is, or copy it unchanged, as kafka-streams.key-value to kafka-streams.key-value",
    families=(LIST_HEADERS_FAMILY,),
    store_name=r"KSTREAM-OUTERSHARED-\d+-store|.+-(outer|left)-shared-join-store",
)
FOREIGN_KEY_SUBSCRIPTIONS = UnsupportedKind(
    name="the subscription store of a foreign-key join",
    recognized_by="its name: KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-..., or perhaps one that ends with "
    "-subscription-store",
    reason="its keys and values are frames of Kafka Streams' own around several payloads, and depend on its version",
    instead="leave it as it is, or copy it unchanged, as kafka-streams.timestamped-key-value to the same",
    store_name=r"KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-\d+",
    likely_name=r".+-subscription-store",
)
UNSUPPORTED: tuple[UnsupportedKind, ...] = (
    EMIT_ON_CLOSE_WINDOWS,
    EMIT_ON_CLOSE_SESSIONS,
    OUTER_JOIN,
    FOREIGN_KEY_SUBSCRIPTIONS,
)
