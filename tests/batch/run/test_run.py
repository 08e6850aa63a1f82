"""Whole migrations in this process: what comes out is every record, and nothing else changes."""

from pathlib import Path

import pytest

from migrate import migrate_store, run
from migrate.batch.ledger.standing import read_standing
from migrate.stores.rocksdb.options_file import read_options
from tests.support import (
    FIXTURE,
    KEY_VALUE,
    RAW,
    TIMESTAMPED,
    UNKNOWN_TIMESTAMP,
    Tables,
    copy_fixture,
    digest_by_hand,
    fixture_records,
    kafka_spec,
    make_families,
    make_spec,
    make_store,
    numbered,
    open_store,
    raw_spec,
    read_families,
    read_family,
    tree_state,
)

TASKS = ("0_0", "0_1", "0_2")
NEW_FAMILY = "keyValueWithTimestamp"


# The real thing


def test_a_real_application_becomes_timestamped(tmp_path: Path) -> None:
    application = copy_fixture(tmp_path)
    before = tree_state(application)
    report = run(kafka_spec(tmp_path, application, run={"chunk_size": "64 KiB"}))
    assert tree_state(application) == before
    assert (report.state, report.published, report.verification.ok) == ("published", tmp_path / "new/orders-app", True)
    assert report.totals.records_in == report.totals.records_out == report.verification.records == 6600
    assert report.totals.chunks == report.chunks_planned > 9
    for task in TASKS:
        for store in ("orders", "refunds"):
            expected = {key: UNKNOWN_TIMESTAMP + value for key, value, _ in fixture_records(task, store)}
            assert read_families(tmp_path / "new/orders-app" / task / "rocksdb" / store) == {
                "default": {},
                NEW_FAMILY: expected,
            }


def test_all_else_in_the_application_is_carried_over(tmp_path: Path) -> None:
    application = copy_fixture(tmp_path)
    run(kafka_spec(tmp_path, application))
    old, new = tree_state(application), tree_state(tmp_path / "new/orders-app")
    migrated = tuple(f"{task}/rocksdb/{store}/" for task in TASKS for store in ("orders", "refunds"))
    rest = {name: state[1:] for name, state in old.items() if not name.startswith(migrated)}
    assert {name: state[1:] for name, state in new.items() if not name.startswith(migrated)} == rest
    assert "0_1/.checkpoint" in rest
    assert "0_1/rocksdb/customers/CURRENT" in rest


def test_the_default_timestamp_is_written(tmp_path: Path) -> None:
    run(kafka_spec(tmp_path, copy_fixture(tmp_path), conversion={"default_timestamp_ms": 1_700_000_000_000}))
    values = read_family(tmp_path / "new/orders-app/0_0/rocksdb/orders", NEW_FAMILY).values()
    assert {value[:8] for value in values} == {(1_700_000_000_000).to_bytes(8, "big")}


@pytest.mark.parametrize("mode", ["link", "copy"])
def test_without_a_target_path_the_new_stores_wait_in_the_work_dir(mode: str, tmp_path: Path) -> None:
    application = copy_fixture(tmp_path)
    before = tree_state(application)
    report = run(kafka_spec(tmp_path, application, target={"path": None}, run={"snapshot": mode}))
    assert (report.state, report.published) == ("verified", None)
    assert len(report.new_stores) == 6
    assert sum(len(read_family(folder, NEW_FAMILY)) for folder in report.new_stores) == 6600
    assert tree_state(application) == before
    links = {file.stat().st_nlink for file in (tmp_path / "work" / "test" / "snapshot").rglob("*.sst")}
    assert links == ({2} if mode == "link" else {1})


# Any store


@pytest.mark.parametrize(
    "records",
    [
        {},
        {b"k": b"v"},
        {b"k": b""},
        {b"\x00": b"", b"\x01" * 65536: b"v" * 65536, b"\xff": b"", b"\xff" * 65536: b"last"},
        {b"a": b"", b"b": b"0123456789abcdef" * (4 << 20), b"c": b"small"},
    ],
    ids=["empty", "one", "one empty value", "keys of 1 B and 64 KiB", "a value of 64 MiB"],
)
def test_stores_of_every_shape(records: dict[bytes, bytes], tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", records)
    report = migrate_store(source, tmp_path / "new", source=KEY_VALUE, target=TIMESTAMPED)
    assert report.totals.records_out == len(records)
    expected = {key: UNKNOWN_TIMESTAMP + value for key, value in records.items()}
    assert read_families(tmp_path / "new") == {"default": {}, NEW_FAMILY: expected}
    assert read_family(source) == records


def test_nothing_but_the_new_store_is_left(tmp_path: Path) -> None:
    migrate_store(make_store(tmp_path / "old", numbered(10)), tmp_path / "new", source=RAW, target=RAW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_a_function_drops_and_changes_records(tmp_path: Path) -> None:
    records = {b"key-%04d" % number: b"value %d" % number for number in range(1000)}
    conversion = {"function": "tests.shared.conversions:shout", "allow": ["changelog", "drop", "unclean-source"]}
    sections = {"conversion": conversion, "run": {"chunk_size": "8 KiB"}}
    source = make_store(tmp_path / "old", records)
    report = run(make_spec(tmp_path, source, source_format=KEY_VALUE, target_format=TIMESTAMPED, **sections))
    assert (report.totals.records_in, report.totals.dropped, report.totals.records_out) == (1000, 100, 900)
    assert report.totals.chunks > 2
    timestamp = (5).to_bytes(8, "big")
    expected = {key: timestamp + value.upper() for key, value in records.items() if not key.endswith(b"0")}
    assert read_family(tmp_path / "new", NEW_FAMILY) == expected


def test_every_family_of_a_raw_store_is_kept(tmp_path: Path) -> None:
    families = {"default": numbered(300), "empty": {}, "b": numbered(500, prefix=b"x", seed=1), "größer": {b"k": b""}}
    source = make_families(tmp_path / "old", families, tables=Tables(compression="zstd"))
    report = run(raw_spec(tmp_path, source, run={"chunk_size": "4 KiB"}))
    assert report.totals.chunks > 3
    assert read_families(tmp_path / "new") == families
    assert read_options(tmp_path / "new")["b"].compression == "kZSTD"


def test_deleted_and_overwritten_records_stay_so(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(1000))
    with open_store(source) as database:
        database.delete_range(b"key-00000100", b"key-00000200")
        for number in range(0, 1000, 7):
            database[b"key-%08d" % number] = b"new"
        database.delete(b"key-00000999")
    expected = read_family(source)
    assert 900 < len(expected) < 1000
    migrate_store(source, tmp_path / "new", source=RAW, target=RAW)
    assert read_family(tmp_path / "new") == expected


@pytest.mark.parametrize(
    ("chunk_size", "expected"),
    [(10_000_000, range(1, 2)), (100_000, range(3, 4)), (20_000, range(11, 14)), (4_000, range(45, 61))],
)
def test_the_chunk_size_changes_nothing_in_the_result(chunk_size: int, expected: range, tmp_path: Path) -> None:
    records = numbered(4000, value_size=40)
    source = make_store(tmp_path / "old", records)
    spec = raw_spec(tmp_path, source, run={"chunk_size": chunk_size})
    report = run(spec)
    assert report.totals.chunks in expected
    assert digest_by_hand(read_family(tmp_path / "new").items()) == digest_by_hand(records.items())
    receipts = read_standing(spec.home).receipts
    assert sum(receipt.records_in for receipt in receipts) == 4000
    for receipt in receipts:
        mine = [(key, value) for key, value in records.items() if key in receipt.keys]
        assert receipt.scanned[0].digest == receipt.written[0].digest == digest_by_hand(mine)


def test_the_fixture_is_as_it_was_committed() -> None:
    """Tests copy it; a test that opened it in place would leave its traces."""
    names = {path.name.split("-")[0].lstrip("0123456789") for path in (FIXTURE / "orders-app").glob("*/rocksdb/*/*")}
    assert names == {"CURRENT", "IDENTITY", "LOCK", "MANIFEST", "OPTIONS", ".log", ".sst"}
