"""Stores without a record: nothing is wrong with them."""

from __future__ import annotations

import shutil

from tests.bad_input.support import TASKS, Migration, expected_orders
from tests.support import RAW, TIMESTAMPED, make_families, make_store, open_store, read_families


def test_a_store_partition_without_records_among_others(app: Migration) -> None:
    shutil.rmtree(app.source / "0_1/rocksdb/orders")
    make_store(app.source / "0_1/rocksdb/orders", {})

    report = app.completes({**expected_orders(tasks=("0_0", "0_2")), "0_1/rocksdb/orders": {}})

    assert report["store_partitions"] == 3


def test_a_store_without_records_in_any_store_partition(app: Migration) -> None:
    for task in TASKS:
        shutil.rmtree(app.source / task / "rocksdb/orders")
        make_store(app.source / task / "rocksdb/orders", {})

    report = app.completes({f"{task}/rocksdb/orders": {} for task in TASKS})

    assert report["totals"]["records_in"] == 0
    families = read_families(app.target / "0_0/rocksdb/orders")
    assert families == {"default": {}, "keyValueWithTimestamp": {}}


def test_an_empty_timestamped_store(app: Migration) -> None:
    for task in TASKS:
        shutil.rmtree(app.source / task / "rocksdb/orders")
        make_families(app.source / task / "rocksdb/orders", {"default": {}, "keyValueWithTimestamp": {}})
    app.set("source", format=TIMESTAMPED)
    app.set("target", format=RAW)
    app.set("conversion", allow=["loss:timestamp"])

    app.completes({f"{task}/rocksdb/orders": {} for task in TASKS})


def test_a_store_whose_records_were_all_deleted(raw: Migration) -> None:
    shutil.rmtree(raw.source)
    make_store(raw.source, {b"%03d" % number: b"x" for number in range(500)})
    with open_store(raw.source) as database:
        for number in range(500):
            database.delete(b"%03d" % number)

    assert raw.completes({".": {}})["totals"]["records_in"] == 0


def test_an_empty_store_beside_a_function_and_caps(raw: Migration) -> None:
    shutil.rmtree(raw.source)
    make_store(raw.source, {})
    raw.module("def convert(record):\n    return 1 / 0\n")
    raw.set("run", max_reject_share=0.0, max_rejects=0, verify="digest")

    raw.completes({".": {}})


def test_an_empty_key_and_an_empty_value_are_a_record(raw: Migration) -> None:
    shutil.rmtree(raw.source)
    make_store(raw.source, {b"": b"", b"\x00": b"", b"\xff" * 300: b"x"})

    raw.completes({".": {b"": b"", b"\x00": b"", b"\xff" * 300: b"x"}})


def test_a_store_that_holds_metadata_alone_carries_it(app: Migration) -> None:
    offsets = {b"orders-app-orders-changelog-0": (41).to_bytes(8, "big"), b"status": bytes(8)}
    for task in TASKS:
        shutil.rmtree(app.source / task / "rocksdb/orders")
        make_families(app.source / task / "rocksdb/orders", {"default": {}, "offsets": offsets})

    report = app.completes({})

    assert report["totals"]["records_in"] == 0
    for task in TASKS:
        found = read_families(app.target / task / "rocksdb/orders")
        assert found == {"default": {}, "keyValueWithTimestamp": {}, "offsets": offsets}


def test_the_same_format_on_both_sides_is_a_verified_copy(app: Migration) -> None:
    """Not a mistake: it writes every record anew, in a table format that older versions read."""
    app.set("target", format=app.spec["source"]["format"])
    source = read_families(app.source / "0_0/rocksdb/orders")

    report = app.completes({})

    assert (report["verification"]["missing"], report["verification"]["records"]) == (0, 6000)
    assert read_families(app.target / "0_0/rocksdb/orders") == source
