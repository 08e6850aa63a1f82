"""With `full` every number is exact; without it the bounds hold."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrate import run
from migrate.spec.spec import Spec
from tests.dry_run.support import (
    Change,
    Expected,
    Planned,
    as_function,
    failed,
    planned,
    quantile,
    what_is_left,
    write_runs,
)
from tests.support import (
    FIXTURE,
    KEY_VALUE,
    TIMESTAMPED,
    copy_fixture,
    fixture_records,
    kafka_spec,
    make_families,
    make_spec,
    make_store,
    numbered,
    open_store,
    raw_spec,
    write_sst,
)

KEYS = st.binary(max_size=3) | st.sampled_from([b"", b"\xff", b"\xff\xff\xff", b"k" * 300])
VALUES = st.binary(max_size=4) | st.integers(0, 9000).map(bytes)
RUN = st.dictionaries(KEYS, st.none() | VALUES, max_size=30)
RUNS = st.lists(RUN, min_size=1, max_size=4)


def drop_some(key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    return None if len(value) % 3 == 1 else (key, value)


def reject_some(key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    if len(value) % 2:
        raise ValueError(f"odd, ends like {'wxyz'[value[-1] % 4]}")
    return key, value + b"!" if len(key) > 1 else value


def shorten_keys(key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    return key[:1], value


def reverse_keys(key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    return key[::-1], value


def all_at_once(key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    if key.endswith(b"\x01"):
        raise ValueError("no")
    return None if key.endswith(b"\x02") else (key[:2], value[::-1])


CHANGES: list[Change] = [drop_some, reject_some, shorten_keys, reverse_keys, all_at_once]


def plan_with(spec: Spec, change: Change, **options: Any) -> Planned:  # noqa: ANN401 - those of `plan`
    """A dry run of a spec whose function is this one."""
    section = spec.conversion.model_copy(update={"function": as_function(change)})
    return planned(spec.model_copy(update={"conversion": section}), **options)


def check_exact(report: Planned, expected: Expected) -> None:
    found, tried = report.found, report.tried
    assert (found.records, found.exact, found.at_least, found.at_most) == (
        expected.records,
        True,
        expected.records,
        expected.records,
    )
    assert tried.is_full
    assert (tried.records, tried.converted, tried.dropped, tried.rejected, tried.unchanged, tried.colliding_keys) == (
        expected.records,
        expected.converted,
        expected.dropped,
        expected.rejected,
        expected.unchanged,
        expected.colliding,
    )
    assert {reason.reason: reason.records for reason in tried.rejects} == dict(expected.reasons)
    assert (tried.out_of_order is not None) == expected.is_disordered
    for sizes, lengths in (
        (found.key_sizes, expected.old_keys),
        (found.value_sizes, expected.old_values),
        (tried.key_sizes, expected.new_keys),
        (tried.value_sizes, expected.new_values),
    ):
        assert (sizes is None) == (not lengths)
        if sizes is not None:
            assert sizes.largest == max(lengths)
            for reported, share in ((sizes.p50, 0.5), (sizes.p99, 0.99)):
                assert quantile(lengths, share) <= reported <= quantile(lengths, share) * 1.01
            assert sum(share for _, share in sizes.buckets) == pytest.approx(1, abs=1e-3)
            bounds = [0, *(bound for bound, _ in sizes.buckets)]
            for low, (high, share) in zip(bounds, sizes.buckets, strict=False):
                inside = sum(low < length <= high or (high == 0 == length) for length in lengths)
                if high != sizes.buckets[0][0]:
                    assert share == pytest.approx(inside / len(lengths), abs=1e-5)


@settings(max_examples=60)
@given(runs=RUNS, change=st.sampled_from(CHANGES), flush=st.booleans(), compact=st.booleans())
def test_all_counts_of_a_full_scan_equal_those_of_a_brute_force_count(
    runs: list[dict[bytes, bytes | None]], change: Change, flush: bool, compact: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = write_runs(folder / "state", runs, flush=flush, compact=compact)
        expected = Expected()
        expected.add_family(what_is_left(runs), change)
        spec = raw_spec(folder, store, conversion={"allow": ["key-change"]})
        check_exact(plan_with(spec, change, full=True, sample=7), expected)


@settings(max_examples=60)
@given(runs=RUNS, flush=st.booleans(), compact=st.booleans(), sample=st.integers(1, 50))
def test_the_number_of_records_is_never_outside_its_bounds(
    runs: list[dict[bytes, bytes | None]], flush: bool, compact: bool, sample: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = write_runs(folder / "state", runs, flush=flush, compact=compact)
        check_bounds(planned(raw_spec(folder, store), sample=sample), len(what_is_left(runs)))


def check_bounds(report: Planned, records: int) -> None:
    """`records`: how many there are."""
    found = report.found
    assert found.at_least <= records <= found.at_most
    assert found.at_least <= found.records <= found.at_most
    if found.exact:
        assert found.records == records


def test_deleted_ranges_in_files_and_in_the_log_keep_the_bounds(tmp_path: Path) -> None:
    with open_store(tmp_path / "open") as database:
        for key, value in numbered(1000).items():
            database[key] = value
        database.flush(True)
        database.delete_range(b"key-00000100", b"key-00000200")
        database.flush(True)
        database.delete_range(b"key-00000300", b"key-00000900")
        database.flush_wal(True)
        shutil.copytree(tmp_path / "open", tmp_path / "log", ignore=shutil.ignore_patterns("LOG"))
    records = {"open": 300, "log": 300}
    for name, left in records.items():
        check_bounds(planned(raw_spec(tmp_path, tmp_path / name), sample=10), left)


def test_ingested_files_that_overlap_keep_the_bounds(tmp_path: Path) -> None:
    store = make_store(tmp_path / "state", numbered(500))
    files = [write_sst(tmp_path / f"{seed}.sst", numbered(700, seed=seed)) for seed in (1, 2)]
    with open_store(store) as database:
        for file in files:
            database.ingest_external_file([str(file)])
    report = planned(raw_spec(tmp_path, store), sample=10)
    check_bounds(report, 700)
    assert report.found.at_most == 1900


def test_many_deletions_of_what_was_never_there_do_not_hide_the_records(tmp_path: Path) -> None:
    """RocksDB's own estimate is 0 then."""
    runs: list[dict[bytes, bytes | None]] = [dict(numbered(3000)), {b"zzz%d" % n: None for n in range(4000)}]
    store = write_runs(tmp_path / "state", runs, flush=True)
    report = planned(raw_spec(tmp_path, store), sample=200)
    check_bounds(report, 3000)
    assert report.found.at_least >= report.tried.records > 100


def test_a_snapshot_that_was_held_while_the_owner_wrote_never_makes_a_count_exact(tmp_path: Path) -> None:
    """One file holds two versions of each record then."""
    store = tmp_path / "state"
    with open_store(store) as database:
        for seed in (0, 1):
            for key, value in numbered(1000, seed=seed).items():
                database[key] = value
            held = database.snapshot()
        database.flush(True)
        del held
    found = planned(raw_spec(tmp_path, store), sample=10).found
    assert not found.exact
    assert found.at_most >= 1000
    counted = planned(raw_spec(tmp_path, store), full=True).found
    assert (counted.records, counted.exact) == (1000, True)


def test_several_column_families_and_their_rejects_are_counted_together(tmp_path: Path) -> None:
    families = {"a": numbered(300, prefix=b"a"), "b": numbered(200, prefix=b"b\x01"), "c": {}}
    store = make_families(tmp_path / "state", families)
    expected = Expected()
    for records in families.values():
        expected.add_family(records, reject_some)
    accepting = {"on_reject": "skip", "max_reject_share": 1.0}
    report = plan_with(raw_spec(tmp_path, store, run=accepting), reject_some, full=True, sample=50)
    check_exact(report, expected)
    by_name = {family.name: family.records for family in report.found.databases[0].families}
    assert by_name == {"default": 0, "a": 300, "b": 200, "c": 0}


def test_the_store_partitions_of_an_application_are_added_up(tmp_path: Path) -> None:
    spec = kafka_spec(tmp_path, copy_fixture(tmp_path))
    records = [
        record
        for task in sorted(path.name for path in (FIXTURE / "expected").iterdir())
        for store in ("orders", "refunds")
        for record in fixture_records(task, store)
    ]
    report = planned(spec, full=True)
    assert report.found.records == len(records) == report.tried.converted
    assert report.found.store_partitions == len(report.found.databases) == report.tried.store_partitions_read
    assert report.tried.both_paths == report.tried.sampled == len(records)
    assert report.tried.unchanged == 0
    assert report.verdict.exit_code == 0
    assert report.tried.value_sizes is not None
    assert report.tried.value_sizes.largest == 8 + max(len(value) for _, value, _ in records)


def test_rejects_of_a_small_partition_do_not_stand_for_those_of_a_large_one(tmp_path: Path) -> None:
    """Each store partition gives as many records to the sample, however many it has."""
    application = tmp_path / "app"
    good = {b"%05d" % number: b"12345678good" for number in range(5000)}
    make_families(application / "0_0/rocksdb/orders", {"keyValueWithTimestamp": good})
    make_families(
        application / "0_1/rocksdb/orders",
        {"keyValueWithTimestamp": {b"%d" % n: b"short"[: n % 2 * 5] for n in range(4)} | {b"x": b"12345678"}},
    )
    for task in ("0_0", "0_1"):
        (application / task / ".checkpoint").write_text("0\n0\n")
    spec = make_spec(
        tmp_path,
        application,
        source_format=TIMESTAMPED,
        target_format=KEY_VALUE,
        source={"store": "orders"},
        conversion={"allow": ["loss:timestamp"]},
        run={"on_reject": "skip", "max_reject_share": 0.01},
    )
    report = planned(spec, sample=20)
    assert report.tried.rejected == 4
    assert report.tried.records <= 25
    assert failed(report) == {}
    assert run(spec).totals.rejected == 4
