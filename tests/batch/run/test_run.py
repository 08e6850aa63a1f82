"""Whole migrations in this process: what comes out is every record, and nothing else changes."""

from pathlib import Path

import pytest

from migrate import RefusedError, migrate_store, run
from migrate.batch.ledger.standing import read_standing
from migrate.stores.rocksdb.options_file import read_options
from tests.support import (
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


def test_timestamps_may_be_lost_where_that_is_allowed(tmp_path: Path) -> None:
    application = copy_fixture(tmp_path)
    spec = {"source": {"store": "customers"}, "source_format": TIMESTAMPED, "target_format": KEY_VALUE}
    with pytest.raises(RefusedError, match="cannot hold the timestamp"):
        run(make_spec(tmp_path, application, **spec))  # type: ignore[arg-type]
    assert not (tmp_path / "work").exists()
    run(make_spec(tmp_path, application, conversion={"allow": ["loss:timestamp"]}, **spec))  # type: ignore[arg-type]
    for task in TASKS:
        expected = {key: value for key, value, _ in fixture_records(task, "customers")}
        assert read_families(tmp_path / "new/orders-app" / task / "rocksdb" / "customers") == {"default": expected}


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


def test_the_systems_own_family_is_carried_as_it_is(tmp_path: Path) -> None:
    application = tmp_path / "app"
    offsets = {b"app-s-changelog-0": bytes(7) + b"\x09", b"status": bytes(8)}
    make_families(application / "0_0" / "rocksdb" / "s", {"default": numbered(50), "offsets": offsets})
    run(kafka_spec(tmp_path, application, source={"store": "s"}))
    found = read_families(tmp_path / "new/app/0_0/rocksdb/s")
    assert found["offsets"] == offsets
    assert found[NEW_FAMILY] == {key: UNKNOWN_TIMESTAMP + value for key, value in numbered(50).items()}


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


def test_every_family_of_a_raw_store_is_kept(tmp_path: Path) -> None:
    families = {"default": numbered(300), "empty": {}, "b": numbered(500, prefix=b"x", seed=1), "größer": {b"k": b""}}
    source = make_families(tmp_path / "old", families, tables=Tables(compression="zstd"))
    report = run(raw_spec(tmp_path, source, run={"chunk_size": "4 KiB"}))
    assert report.totals.chunks > 3
    assert read_families(tmp_path / "new") == families
    assert read_options(tmp_path / "new")["b"].compression == "kZSTD"


def test_what_was_never_flushed_is_migrated(tmp_path: Path) -> None:
    source = make_store(tmp_path / "old", numbered(500), flush=False)
    migrate_store(source, tmp_path / "new", source=RAW, target=RAW)
    assert read_family(tmp_path / "new") == numbered(500)


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
