"""Specs with a format that is not the store's, stores of no known format, and what must be allowed by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from tests.bad_input.support import TASKS, Migration, Stores
from tests.bad_input.test_wrong_formats import FAMILY, half_upgraded, set_option
from tests.dry_run.segmented import NOON, Families
from tests.situations.situation import REFUSED, Do, app, completes, raw
from tests.support import KEY_VALUE, TIMESTAMPED, fixture_records, make_families, make_store, numbered

PLAIN = {"format": KEY_VALUE}
LOSES_TIME = {"conversion": {"allow": ["loss:timestamp"]}, "target": PLAIN}
CUSTOMERS = {"store": "customers", "format": TIMESTAMPED}
OPTIONS = "0_1/rocksdb/orders/OPTIONS-000007"
UPPER = "def convert(record):\n    return replace(record, value=record.value.upper())\n"
HEADERS = {"format": "kafka-streams.headers-key-value", "version": "4.2"}
UNCHANGED = "next: leave it as it is, or copy it unchanged"


def stores(families: Families) -> Do:
    """Write these records to each store partition."""

    def make(migration: Migration) -> None:
        for task in TASKS:
            shutil.rmtree(migration.source / task / "rocksdb/orders")
            make_families(migration.source / task / "rocksdb/orders", families)

    return make


def two_families(migration: Migration) -> None:
    shutil.rmtree(migration.source)
    make_families(migration.source, {"default": numbered(3), "second": numbered(3)})


def plain_customers() -> dict[str, dict[bytes, bytes]]:
    return {f"{task}/rocksdb/customers": {k: v for k, v, _ in fixture_records(task, "customers")} for task in TASKS}


def own_store(name: str) -> Do:
    """A store that Kafka Streams keeps for itself."""
    return lambda migration: make_families(migration.source / "0_0/rocksdb" / name, {"default": numbered(20)})


def history(migration: Migration) -> None:
    key = (-1).to_bytes(8, "big", signed=True) + b"k"
    make_store(migration.source / "0_0/rocksdb/prices", {key: NOON.to_bytes(8, "big") + b"v"})


def only_store(name: str) -> Callable[[], Stores]:
    return lambda: {f"0_0/rocksdb/{name}": numbered(20)}


def holds(count: int, *, flush: bool = True) -> Do:
    """Write this number of records to the directory."""

    def make(migration: Migration) -> None:
        shutil.rmtree(migration.source)
        make_store(migration.source, numbered(count), flush=flush)

    return make


EXTRA: Families = {"default": {}, "extra": numbered(3)}
WITHOUT_RECORDS: list[Families] = [{"default": {}}, {"default": {}, "offsets": {b"status": bytes(8)}}]
CANNOT_HOLD = f"{KEY_VALUE} cannot hold the timestamp that {TIMESTAMPED} holds"
OWN_CODE = [
    ("comparator", "RocksJavaComparator", "ordered by the comparator 'RocksJavaComparator'", "bytewise"),
    ("comparator", "rocksdb.ReverseBytewiseComparator", "rocksdb.ReverseBytewiseComparator", "bytewise"),
    ("merge_operator", "StringAppendOperator", "merge operator 'StringAppendOperator'", "operands"),
    ("merge_operator", "{id=StringAppendTESTOperator;delimiter=,;}", "'StringAppendTESTOperator'"),
    ("merge_operator", "com.example.SumOperator", "merge operator 'com.example.SumOperator'", "its own application"),
    ("table_factory", "PlainTable", "is stored as 'PlainTable'", "block-based"),
    ("table_factory", "CuckooTable", "is stored as 'CuckooTable'", "block-based"),
]
OWN_STORES = [
    ("KSTREAM-OUTERSHARED-0000000007-store", "the list store of an outer or left join"),
    ("clicks-left-shared-join-store", "the list store of an outer or left join"),
    ("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000012", "the subscription store of a foreign-key join"),
]
CHANGELOG = ("the changelog topic would still hold", 'allow = ["changelog"]')
SITUATIONS = [
    app("a plain store named as timestamped", REFUSED,
        f"0_0/rocksdb/orders is not {TIMESTAMPED}: it has no column family '{FAMILY}' (it has: default)",
        "`stateferry inspect`", source={"format": TIMESTAMPED}, then=completes(source=PLAIN)),
    app("a timestamped store named as plain", REFUSED, "0_0/rocksdb/customers", f"is not {KEY_VALUE}",
        f"it has: default, {FAMILY}", "stateferry inspect", source={"store": "customers"}),
    app("a half upgraded store named as what it was", REFUSED, "0_1/rocksdb/orders", f"is not {KEY_VALUE}",
        f"it has: default, {FAMILY}", "stateferry inspect", do=half_upgraded),
    *(app(f"a column family that is not of {named}", REFUSED, "0_0/rocksdb/orders", f"is not {named}",
          "column family 'extra'", "stateferry inspect", source={"format": named}, target={"format": other},
          conversion={"allow": ["loss:timestamp"]}, do=stores(EXTRA if named == KEY_VALUE else {**EXTRA, FAMILY: {}}))
      for named, other in ((KEY_VALUE, TIMESTAMPED), (TIMESTAMPED, KEY_VALUE))),
    raw("several families for a format that has one", REFUSED, "2 column families of records (default, second)",
        TIMESTAMPED, "rocksdb.raw", target={"format": TIMESTAMPED}, conversion={"allow": ["changelog"]},
        do=two_families),
    app("records that are not of the named format", REFUSED, "0_0/orders", "none of 100 sampled records",
        '"key-00000000"', "has 5 bytes", "at least 8", "[source]", source={"format": TIMESTAMPED},
        do=stores({FAMILY: dict.fromkeys(numbered(100), b"short")}), needs_records=True, **LOSES_TIME),
    *(app(f"a store of {option} {value}", REFUSED, "column family 'default'", "0_1/rocksdb/orders", *said,
          do=lambda migration, option=option, value=value: set_option(migration.source / OPTIONS, option, value))
      for option, value, *said in OWN_CODE),
    app("a timestamp that would be lost", REFUSED, CANNOT_HOLD,
        'if the store has that format and the loss is acceptable, set [conversion] allow = ["loss:timestamp"]',
        source=CUSTOMERS, target=PLAIN,
        then=completes(stores=plain_customers, conversion={"allow": ["loss:timestamp"]})),
    app("another risk allowed than this one", REFUSED, "cannot hold the timestamp", source=CUSTOMERS, target=PLAIN,
        conversion={"allow": ["changelog", "key-change"]}),
    app("a history that would be lost", REFUSED, "cannot hold the history that kafka-streams.versioned holds",
        'allow = ["loss:history"]', source={"store": "prices", "format": "kafka-streams.versioned"}, do=history,
        then=completes(stores=lambda: {"0_0/rocksdb/prices": {b"k": NOON.to_bytes(8, "big") + b"v"}},
                       conversion={"allow": ["loss:history"]})),
    app("values without a time as versions", REFUSED,
        f"kafka-streams.versioned records since when each value holds, which {KEY_VALUE} does not",
        "next: give one time for all values: [conversion] default_timestamp_ms",
        target={"format": "kafka-streams.versioned"},
        then=completes(stores=dict, conversion={"default_timestamp_ms": NOON - 300_000})),
    app("a function over a changelog", REFUSED, *CHANGELOG, "misread",
        do=lambda migration: migration.module("from dataclasses import replace\n" + UPPER)),
    raw("another system's store as a Kafka Streams store", REFUSED, *CHANGELOG, target=PLAIN),
    app("a version that has no such format", REFUSED,
        "Kafka Streams has kafka-streams.headers-key-value since 4.3, and [target] version is 4.2",
        'next: let 4.3 or newer open the new store: [target] version = "4.3"; or name a format without headers',
        target=HEADERS),
    app("a conversion that there is not", REFUSED,
        f"{KEY_VALUE} holds one value for each key, kafka-streams.window holds one value for each key and window: "
        "there is no rule to turn one into the other",
        f"name what it can become in [target] format: {TIMESTAMPED}", target={"format": "kafka-streams.window"}),
    app("another system in the same directory", REFUSED,
        f"{KEY_VALUE} and streamiz.key-value belong to two systems, whose state directories differ",
        "the new store cannot take the old one's place",
        "next: name a path that does not exist yet in [target] path",
        target={"path": None, "format": "streamiz.key-value"}),
    *(app(f"Kafka Streams' own store {name}", REFUSED, f"'{name}' is {what}, which cannot be converted: ", UNCHANGED,
          source={"store": name}, do=own_store(name),
          then=completes(stores=only_store(name), target=PLAIN))
      for name, what in OWN_STORES),
    *(app(f"a store without records, {' and '.join(families)}", do=stores(families))
      for families in WITHOUT_RECORDS),
    raw("a store without records or log", do=holds(0)),
    raw("a store that is a log alone", do=holds(500, flush=False)),
]  # fmt: skip
