"""Specs with a format that is not the store's, stores of no known format, and what must be allowed by name."""

import shutil
from collections.abc import Callable
from pathlib import Path

import migrate
from tests.bad_input.support import TASKS, Migration, Stores, expected_orders
from tests.dry_run.segmented import NOON, Families
from tests.situations.situation import REFUSED, Do, app, completes, nothing, published, raw
from tests.support import (
    KEY_VALUE,
    TIMESTAMPED,
    UNKNOWN_TIMESTAMP,
    fixture_records,
    make_families,
    make_store,
    numbered,
    open_store,
    read_families,
)

FAMILY = "keyValueWithTimestamp"

PLAIN = {"format": KEY_VALUE}
LOSES_TIME = {"conversion": {"allow": ["loss:timestamp"]}, "target": PLAIN}
CUSTOMERS = {"store": "customers", "format": TIMESTAMPED}
OPTIONS = "0_1/rocksdb/orders/OPTIONS-000007"
UPPER = (
    "from dataclasses import replace\ndef convert(record):\n    return replace(record, value=record.value.upper())\n"
)
HEADERS = {"format": "kafka-streams.headers-key-value", "version": "4.2"}
UNCHANGED = "next: leave it as it is, or copy it unchanged"


def upgrade() -> tuple[Families, dict[bytes, bytes]]:
    """A store that Kafka Streams has upgraded in part, key by key as the application read them, and what it reads."""
    old, new = numbered(60, prefix=b"old-"), numbered(40, prefix=b"new-", seed=1)
    upgraded = {key: NOON.to_bytes(8, "big") + value for key, value in new.items()}
    read = {**unknown_times(old), **upgraded}
    return {"default": {**old, min(new): b"written since"}, FAMILY: upgraded}, dict(sorted(read.items()))


def half_upgraded(migration: Migration) -> None:
    """One store partition is all that there is."""
    for task in TASKS:
        shutil.rmtree(migration.source / task / "rocksdb/orders")
    make_families(migration.source / "0_1/rocksdb/orders", upgrade()[0])


def set_option(file: Path, option: str, value: str) -> None:
    """As RocksDB writes it into its OPTIONS file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    changed = [f"  {option}={value}" if line.startswith(f"  {option}=") else line for line in lines]
    assert changed != lines
    file.write_text("\n".join(changed) + "\n", encoding="utf-8")


def written_by(version: str) -> Do:
    """By this version of RocksDB, as its OPTIONS files say."""

    def change(migration: Migration) -> None:
        for file in migration.source.glob("*/rocksdb/orders/OPTIONS-*"):
            set_option(file, "rocksdb_version", version)

    return change


def older_options(migration: Migration) -> None:
    """Only the newest OPTIONS file counts."""
    older = migration.source / "0_1/rocksdb/orders/OPTIONS-000006"
    shutil.copy(migration.source / OPTIONS, older)
    set_option(older, "merge_operator", "StringAppendOperator")


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


def deleted(migration: Migration) -> None:
    holds(500)(migration)
    with open_store(migration.source) as database:
        for key in numbered(500):
            database.delete(key)


def records(found: dict[bytes, bytes]) -> Do:
    """Write these to the directory."""

    def make(migration: Migration) -> None:
        shutil.rmtree(migration.source)
        make_store(migration.source, found)

    return make


def useless(migration: Migration) -> None:
    """A function that would fail for any record."""
    holds(0)(migration)
    migration.module("def convert(record):\n    return 1 / 0\n")


def emptied(migration: Migration) -> None:
    shutil.rmtree(migration.source / "0_1/rocksdb/orders")
    make_store(migration.source / "0_1/rocksdb/orders", {})


def with_families(families: Families) -> Do:
    """Check that each new store has these, and the new format's own."""

    def check(migration: Migration) -> None:
        for task in TASKS:
            assert read_families(migration.target / task / "rocksdb/orders") == {**families, FAMILY: {}}

    return check


def copied(migration: Migration) -> None:
    """Not a mistake: every record is written once more, in a table format that older versions read."""
    verification = migrate.status(migration.load()).verification
    assert verification is not None
    assert (verification.missing, verification.records) == (0, 6000)
    one = "0_0/rocksdb/orders"
    assert read_families(migration.target / one) == read_families(migration.source / one)


def upper() -> Stores:
    return {
        path: {key: value[:8] + value[8:].upper() for key, value in found.items()}
        for path, found in expected_orders().items()
    }


def versions() -> Stores:
    """Each value as the latest one, since noon."""
    return {
        path: {b"\xff" * 8 + key: NOON.to_bytes(8, "big") + value[8:] for key, value in found.items()}
        for path, found in expected_orders().items()
    }


def says_allowed(migration: Migration) -> None:
    published(upper)(migration)
    assert "the changelog no longer matches the store (allowed by name)" in migrate.run(migration.load()).changelog


def of_4_3(migration: Migration) -> None:
    """Every store partition has the column family that Kafka Streams 4.3 adds at its first start."""
    for task in TASKS:
        offsets = {f"orders-app-orders-changelog-{task[-1]}".encode(): (41).to_bytes(8, "big"), b"status": bytes(8)}
        shutil.rmtree(migration.source / task / "rocksdb/orders")
        families = {"default": numbered(20), "offsets": {**offsets, b"position": POSITION}}
        make_families(migration.source / task / "rocksdb/orders", families)
        others = _of_others(migration.source / task)
        (migration.source / task / ".checkpoint").write_text("\n".join(["0", str(len(others)), *others, ""]))
        (migration.source / task / "orders.position").unlink(missing_ok=True)


def _of_others(task: Path) -> list[str]:
    return [line for line in (task / ".checkpoint").read_text().splitlines()[2:] if "-orders-changelog" not in line]


def offsets_in_files(migration: Migration) -> None:
    """An older version finds there what 4.3 keeps inside; the lines of other stores stay, in front of the new one."""
    published(lambda: {f"{task}/rocksdb/orders": unknown_times(numbered(20)) for task in TASKS})(migration)
    for task in TASKS:
        assert set(read_families(migration.target / task / "rocksdb/orders")) == {"default", FAMILY}
        lines = (migration.target / task / ".checkpoint").read_text().splitlines()
        assert lines[:2] == ["0", str(len(lines) - 2)]
        assert lines[2:] == [*_of_others(migration.source / task), f"orders-app-orders-changelog {task[-1]} 41"]
        assert (migration.target / task / "orders.position").read_bytes() == b"0\n1\nin 0 5\n"


def unknown_times(found: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {key: UNKNOWN_TIMESTAMP + value for key, value in found.items()}


POSITION = bytes.fromhex("00 00000001 00000002 696e 00000001 00000000 0000000000000005") + bytes(175)
"""As Kafka Streams 4.3.1 writes it: of topic "in", partition 0, the record 5."""
EXTRA: Families = {"default": {}, "extra": numbered(3)}
OFFSETS = {b"orders-app-orders-changelog-0": (41).to_bytes(8, "big"), b"status": bytes(8)}
WITHOUT_RECORDS: list[Families] = [{"default": {}}, {"default": {}, "offsets": OFFSETS}]
ODD = {b"": b"", b"\x00": b"", b"\xff" * 300: b"x"}
CANNOT_HOLD = f"{KEY_VALUE} cannot hold the timestamp that {TIMESTAMPED} holds"
OWN_CODE = [
    ("comparator", "RocksJavaComparator", "ordered by the comparator 'RocksJavaComparator'", "bytewise"),
    ("comparator", "rocksdb.ReverseBytewiseComparator", "rocksdb.ReverseBytewiseComparator", "bytewise"),
    ("merge_operator", "StringAppendOperator", "merge operator 'StringAppendOperator'", "operands"),
    ("merge_operator", "{id=StringAppendTESTOperator;delimiter=,;}", "'StringAppendTESTOperator'"),
    ("merge_operator", "com.example.SumOperator", "merge operator 'com.example.SumOperator'", "its own application"),
    ("table_factory", "PlainTable", "is stored as 'PlainTable'", "block-based"),
    ("table_factory", "CuckooTable", "is stored as 'CuckooTable'", "block-based"),
    ("format_version", "7", "table format version 7", "nothing is damaged", "SetFormatVersion(6)"),
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
        then=completes(stores=versions, conversion={"default_timestamp_ms": NOON})),
    app("a function over a changelog", REFUSED, *CHANGELOG, "misread",
        do=lambda migration: migration.module(UPPER)),
    app("a function over a changelog, as allowed", conversion={"allow": ["changelog", "unclean-source"]},
        do=lambda migration: migration.module(UPPER), then=says_allowed),
    app("leaving Kafka Streams", target={"format": "rocksdb.raw"},
        then=published(lambda: {path: {key: value[8:] for key, value in found.items()}
                                for path, found in expected_orders().items()})),
    app("the same format on both sides", target=PLAIN, then=copied),
    app("a half upgraded store", source={"format": TIMESTAMPED}, target={"format": TIMESTAMPED}, do=half_upgraded,
        then=published(lambda: {"0_1/rocksdb/orders": upgrade()[1]}, records_in=100, shadowed=1)),
    app("an older OPTIONS file with another setting", do=older_options, then=published(expected_orders)),
    raw("another system's store as a Kafka Streams store", REFUSED, *CHANGELOG, target=PLAIN),
    app("a version that has no such format", REFUSED,
        "Kafka Streams has kafka-streams.headers-key-value since 4.3, and [target] version is 4.2",
        'next: let 4.3 or newer open the new store: [target] version = "4.3"; or name a format without headers',
        target=HEADERS),
    *(app(f"a store of 4.3 for {version}", target={"version": version}, do=of_4_3, then=then)
      for version, then in (("3.9", offsets_in_files), ("4.0.1", offsets_in_files), ("4.2", offsets_in_files),
                            ("4.3", nothing), ("4.3.1", nothing))),
    app("an owner too old for the new store", REFUSED, "written by RocksDB 5.18.4, which cannot read the new store",
        '[target] version = "4.1"', do=written_by("5.18.4"),
        then=completes(conversion={"allow": ["unclean-source"]}, target={"version": "3.9"})),
    app("the oldest owner that reads the new store", do=written_by("6.6.4"), then=published(expected_orders)),
    *(app(f"an older store for {version}", target={"version": version}, then=published(expected_orders))
      for version in ("3.9.1", "4.2.0", "4.3")),
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
    *(app(f"a store without records, {' and '.join(families)}", do=stores(families), then=with_families(families))
      for families in WITHOUT_RECORDS),
    app("a store partition without records", do=emptied,
        then=published(lambda: {**expected_orders(tasks=("0_0", "0_2")), "0_1/rocksdb/orders": {}})),
    app("a timestamped store without records", source={"format": TIMESTAMPED}, target={"format": "rocksdb.raw"},
        conversion={"allow": ["loss:timestamp"]}, do=stores({"default": {}, FAMILY: {}}),
        then=published(lambda: {f"{task}/rocksdb/orders": {} for task in TASKS})),
    raw("a store without records or log", do=holds(0)),
    raw("a store whose records were all deleted", do=deleted, then=published(lambda: {".": {}}, records_in=0)),
    raw("an empty store beside a function and caps", do=useless, then=published(lambda: {".": {}}),
        run={"max_reject_share": 0.0, "max_rejects": 0, "verify": "digest"}),
    raw("an empty key and an empty value", do=records(ODD), then=published(lambda: {".": ODD})),
    raw("a store that is a log alone", do=holds(500, flush=False), then=published(lambda: {".": numbered(500)})),
]  # fmt: skip
