"""A format that is not the store's, and stores that no format describes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bad_input.support import TASKS, Migration, expected_orders
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, UNKNOWN_TIMESTAMP, make_families, numbered

FAMILY = "keyValueWithTimestamp"
NOON = (1_763_812_800_000).to_bytes(8, "big")


def test_a_plain_store_named_as_timestamped_is_refused_with_its_families(app: Migration) -> None:
    app.set("source", format=TIMESTAMPED)

    app.refused("0_0/rocksdb/orders", f"is not {TIMESTAMPED}", f"no column family '{FAMILY}'", "it has: default")
    assert not app.home.exists()

    app.set("source", format=KEY_VALUE)
    app.completes(expected_orders())


def test_a_timestamped_store_named_as_plain_is_refused_with_its_families(app: Migration) -> None:
    app.set("source", store="customers")

    app.refused("0_0/rocksdb/customers", f"is not {KEY_VALUE}", f"it has: default, {FAMILY}", "stateferry inspect")
    assert not app.home.exists()


def half_upgraded(app: Migration) -> dict[bytes, bytes]:
    """One store partition as Kafka Streams upgrades it, key by key, as the application reads them; what it reads."""
    database = app.source / "0_1/rocksdb/orders"
    shutil.rmtree(database)
    old, new = numbered(60, prefix=b"old-"), numbered(40, prefix=b"new-", seed=1)
    upgraded = {key: NOON + value for key, value in new.items()}
    make_families(database, {"default": {**old, min(new): b"written since"}, FAMILY: upgraded})
    return {**{key: UNKNOWN_TIMESTAMP + value for key, value in old.items()}, **upgraded}


def test_a_half_upgraded_store_named_as_what_it_was_is_refused(app: Migration) -> None:
    half_upgraded(app)

    app.refused("0_1/rocksdb/orders", f"is not {KEY_VALUE}", f"it has: default, {FAMILY}", "stateferry inspect")
    assert not app.home.exists()


def test_a_half_upgraded_store_is_read_as_its_owner_reads_it(app: Migration) -> None:
    expected = half_upgraded(app)
    for task in ("0_0", "0_2"):
        shutil.rmtree(app.source / task)
    app.set("source", format=TIMESTAMPED)
    app.set("target", format=TIMESTAMPED)

    report = app.completes({"0_1/rocksdb/orders": dict(sorted(expected.items()))})

    assert (report["totals"]["records_in"], report["totals"]["shadowed"]) == (100, 1)


@pytest.mark.parametrize("named", [KEY_VALUE, TIMESTAMPED])
def test_a_column_family_that_is_not_of_the_format_is_refused(app: Migration, named: str) -> None:
    for task in TASKS:
        shutil.rmtree(app.source / task / "rocksdb/orders")
        families = {"default": {}, "extra": numbered(3)} | ({FAMILY: {}} if named == TIMESTAMPED else {})
        make_families(app.source / task / "rocksdb/orders", families)
    app.set("source", format=named)
    app.set("target", format=TIMESTAMPED if named == KEY_VALUE else KEY_VALUE)
    app.set("conversion", allow=["loss:timestamp"])

    app.refused("0_0/rocksdb/orders", f"is not {named}", "column family 'extra'", "stateferry inspect")


def test_several_families_do_not_fit_into_a_format_that_has_one(app: Migration) -> None:
    make_families(app.folder / "state", {"default": numbered(3), "second": numbered(3)})
    app.spec["source"] = {"format": RAW, "path": "state"}
    app.set("conversion", allow=["changelog"])
    app.source = app.folder / "state"

    app.refused("2 column families of records (default, second)", TIMESTAMPED, "rocksdb.raw")


def test_records_that_are_not_of_the_named_format_are_refused_before_any_is_rewritten(app: Migration) -> None:
    """The column family is right, the bytes are not: no value has room for a timestamp."""
    for task in TASKS:
        shutil.rmtree(app.source / task / "rocksdb/orders")
        short = {key: b"short" for key in numbered(100)}
        make_families(app.source / task / "rocksdb/orders", {FAMILY: short})
    app.set("source", format=TIMESTAMPED)
    app.set("target", format=KEY_VALUE)
    app.set("conversion", allow=["loss:timestamp"])

    app.refused("0_0/orders", "none of 100 sampled records", '"key-00000000"', "has 5 bytes", "at least 8", "[source]")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("comparator", "RocksJavaComparator", ("ordered by the comparator 'RocksJavaComparator'", "bytewise")),
        ("comparator", "rocksdb.ReverseBytewiseComparator", ("rocksdb.ReverseBytewiseComparator", "bytewise")),
        ("merge_operator", "StringAppendOperator", ("merge operator 'StringAppendOperator'", "operands")),
        ("merge_operator", "{id=StringAppendTESTOperator;delimiter=,;}", ("'StringAppendTESTOperator'",)),
        (
            "merge_operator",
            "com.example.SumOperator",
            ("merge operator 'com.example.SumOperator'", "its own application"),
        ),
        ("table_factory", "PlainTable", ("is stored as 'PlainTable'", "block-based")),
        ("table_factory", "CuckooTable", ("is stored as 'CuckooTable'", "block-based")),
    ],
)
def test_a_store_that_only_its_owners_code_can_read_is_refused(
    app: Migration, option: str, value: str, said: tuple[str, ...]
) -> None:
    set_option(app.source / "0_1/rocksdb/orders/OPTIONS-000007", option, value)

    app.refused("column family 'default'", "0_1/rocksdb/orders", *said)
    assert not app.home.exists()


def test_the_newest_options_file_counts(app: Migration) -> None:
    old = app.source / "0_1/rocksdb/orders/OPTIONS-000007"
    shutil.copy(old, old.with_name("OPTIONS-000006"))
    set_option(old.with_name("OPTIONS-000006"), "merge_operator", "StringAppendOperator")

    app.completes(expected_orders())


def set_option(file: Path, option: str, value: str) -> None:
    """As RocksDB writes it into its OPTIONS file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    changed = [f"  {option}={value}" if line.startswith(f"  {option}=") else line for line in lines]
    assert changed != lines
    file.write_text("\n".join(changed) + "\n", encoding="utf-8")
