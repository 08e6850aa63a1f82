"""Keys in another order: every record under its new key, once, in the store partition that the partitioner says."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats import StateRecord
from migrate import ChunkFailedError, DroppedError, InterruptedMigrationError, RefusedError, RejectedError, Spec
from migrate.batch.chunk.executor import in_process
from migrate.batch.chunk.sorted_range import SortTask, written_by
from migrate.batch.context import Context
from migrate.batch.home import load_plan
from migrate.batch.run import run_with
from migrate.errors import MigrationError
from migrate.model.events import Event
from migrate.model.reports import RunReport
from tests.batch.run.test_partitions import KINDS, PLAIN, TIMED, Kind, make_application, published, spec_of, spread
from tests.sorting import sorting
from tests.support import UNKNOWN_TIMESTAMP, make_families, raises, raw_spec, read_delta, read_families, read_ledger

NUMBERS = random.Random(4).sample(range(-4000, 90_000), 3000)
RECORDS = dict(sorted((str(number).encode(), b"of %d" % number) for number in NUMBERS))
CONVERTED = {number.to_bytes(8, "big", signed=True): UNKNOWN_TIMESTAMP + b"of %d" % number for number in NUMBERS}
TO_LONG = {"key": {"from": {"serde": "string"}, "to": {"serde": "int64"}}}


def to_long(record: StateRecord) -> StateRecord:
    return replace(record, key=int(record.key).to_bytes(8, "big", signed=True))


def rekeyed(tmp_path: Path, app: Path, partitions: int | None, **sections: Any) -> Spec:  # noqa: ANN401
    allow = ["changelog", "unclean-source", "key-change"]
    sections["conversion"] = {"function": to_long, "allow": allow} | sections.get("conversion", {})
    sections["run"] = {"chunk_size": "16 KiB"} | sections.get("run", {})
    spec = spec_of(tmp_path, app, 1, **sections)
    return spec.model_copy(update={"target": spec.target.model_copy(update={"partitions": partitions})})


def sort(spec: Spec) -> RunReport:
    return run_with(sorting, Context(spec))


@pytest.mark.parametrize(("old", "new"), [(2, 3), (3, 3), (4, 1), (1, 5)])
def test_every_record_is_in_the_task_of_its_new_key(tmp_path: Path, old: int, new: int) -> None:
    app = make_application(tmp_path / "app", {"orders": spread(RECORDS, old)})
    spec = rekeyed(tmp_path, app, new)
    report = sort(spec)
    assert report.totals.records_in == report.totals.records_out == len(RECORDS)
    assert report.totals.bytes_in == sum(len(key) + len(value) for key, value in RECORDS.items())
    assert published(spec, TIMED) == spread(CONVERTED, new)


def test_keys_of_one_store_partition_stay_there(tmp_path: Path) -> None:
    app = make_application(tmp_path / "app", {"orders": [RECORDS]})
    spec = rekeyed(tmp_path, app, None)
    sort(spec)
    assert published(spec, TIMED) == [CONVERTED]
    plan = load_plan(spec.home)
    assert plan is not None
    assert plan.is_sorted
    assert len(plan.chunks) > 3


def drop_some(record: StateRecord) -> StateRecord | None:
    return None if int(record.key) % 7 == 0 else to_long(record)


def reject_some(record: StateRecord) -> StateRecord:
    if int(record.key) % 5 == 0:
        raise ValueError("a multiple of five")
    return to_long(record)


def reject_and_drop(record: StateRecord) -> StateRecord | None:
    return drop_some(record) and reject_some(record)


def halved(record: StateRecord) -> StateRecord:
    return replace(record, key=(int(record.key) // 2).to_bytes(8, "big", signed=True))


def with_time(record: StateRecord) -> StateRecord:
    number = int(record.key)
    return replace(halved(record), timestamp_ms=1000 - number % 2)


def test_what_is_left_out_is_counted_once(tmp_path: Path) -> None:
    app = make_application(tmp_path / "app", {"orders": spread(RECORDS, 2)})
    spec = rekeyed(
        tmp_path,
        app,
        3,
        conversion={"function": reject_and_drop},
        run={"on_reject": "dead-letter", "max_dropped_share": 0.5, "max_reject_share": 0.5, "wave_size": "20 KiB"},
    )
    totals = sort(spec).totals
    dropped = [number for number in NUMBERS if number % 7 == 0]
    rejected = [number for number in NUMBERS if number % 5 == 0 and number % 7]
    assert (totals.records_in, totals.dropped, totals.rejected) == (len(RECORDS), len(dropped), len(rejected))
    left = {number.to_bytes(8, "big", signed=True) for number in (*dropped, *rejected)}
    assert published(spec, TIMED) == spread({key: value for key, value in CONVERTED.items() if key not in left}, 3)
    letters = read_delta(spec.home / "dead-letters")
    assert sorted(row["key"] for row in letters) == sorted(str(number).encode() for number in rejected)
    assert {row["value"] for row in letters} == {b"of %d" % number for number in rejected}
    assert {row["reason"] for row in letters} == {"the function raised ValueError: a multiple of five"}


def test_what_must_not_be_left_out_ends_the_run(tmp_path: Path) -> None:
    app = make_application(tmp_path / "app", {"orders": spread(RECORDS, 2)})
    raises(RejectedError, "a multiple of five", sort, rekeyed(tmp_path, app, 3, conversion={"function": reject_some}))
    dropping = rekeyed(tmp_path, app, 3, name="dropping", conversion={"function": drop_some})
    raises(DroppedError, "nothing in the spec allows that", sort, dropping)
    assert not (tmp_path / "new").exists()


def test_two_records_of_one_new_key_are_refused_until_the_newest_may_stay(tmp_path: Path) -> None:
    app = make_application(tmp_path / "app", {"orders": spread(RECORDS, 2)})
    spec = rekeyed(tmp_path, app, 3, conversion={"function": with_time})
    error = raises(RefusedError, "the key .* get one new key", sort, spec)
    assert "on_collision" in error.hint
    newest = rekeyed(tmp_path, app, 3, conversion={"function": with_time, "on_collision": "newest"})
    totals = sort(newest).totals
    expected: dict[bytes, bytes] = {}
    for number in sorted(NUMBERS, key=lambda each: -(each % 2)):  # of two neighbours the even one is newer
        time_ms = (1000 - number % 2).to_bytes(8, "big")
        expected[(number // 2).to_bytes(8, "big", signed=True)] = time_ms + b"of %d" % number
    assert published(newest, TIMED) == spread(expected, 3)
    assert totals.records_out == len(expected)
    assert totals.records_in == len(NUMBERS)


def test_ranges_are_sorted_in_waves_and_a_rerun_goes_on_with_those_that_are_left(tmp_path: Path) -> None:
    app = make_application(tmp_path / "app", {"orders": spread(RECORDS, 2)})
    spec = rekeyed(tmp_path, app, 3, run={"wave_size": "20 KiB"})
    waves: list[str] = []

    def stop_after_two(event: Event) -> None:
        if event.name == "chunk.started":
            waves.append(str(event.facts["task"]))
            if len(waves) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_with(sorting, Context(spec, stop_after_two))
    assert len(waves) == 3
    plan = load_plan(spec.home)
    assert plan is not None
    assert len(plan.chunks) > 2
    assert sort(spec).chunks_done_before == 2  # the commit of the second one was not due
    assert published(spec, TIMED) == spread(CONVERTED, 3)


def test_receipts_of_old_keys_do_not_count_once_keys_are_sorted(tmp_path: Path) -> None:
    """The sample keeps its order; a run over chunks of old keys meets the one that does not."""
    late = {b"key-%06d" % number: b"%d" % number for number in range(6000)}
    app = make_application(tmp_path / "app", {"orders": [late]})
    spec = rekeyed(tmp_path, app, None, conversion={"function": one_goes_back}, run={"chunk_size": "8 KiB"})
    error = raises(MigrationError, "order", run_with, in_process, Context(spec))
    assert error.exit_code == 3
    assert "sort = true" in error.hint
    assert any(row.step == "chunk" for row in read_ledger(spec.home))
    again = rekeyed(
        tmp_path, app, None, conversion={"function": one_goes_back}, run={"chunk_size": "8 KiB", "sort": True}
    )
    totals = sort(again).totals
    assert totals.records_in == totals.records_out == len(late)
    moved = {b"a" if key == b"key-005500" else key: UNKNOWN_TIMESTAMP + value for key, value in late.items()}
    assert published(again, TIMED) == [moved]


def one_goes_back(record: StateRecord) -> StateRecord:
    return replace(record, key=b"a") if record.key == b"key-005500" else record


def backwards(record: StateRecord) -> StateRecord:
    return replace(record, key=bytes(reversed(record.key)))


def turned(kind: Kind) -> Kind:
    """What a store of this kind holds once each key is turned round."""

    def turn(key: bytes) -> bytes:
        end = len(key) - kind.behind
        return key[: kind.before] + kind.payload(key)[::-1] + key[end:]

    return replace(kind, records={turn(key): value for key, value in kind.records.items()})


@pytest.mark.parametrize("name", KINDS)
def test_stores_of_every_kind(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    app = kind.make(tmp_path / "app", 2)
    spec = rekeyed(tmp_path, app, 3, **kind.formats(), conversion={"function": backwards})
    totals = sort(spec).totals
    assert totals.records_in == totals.records_out == len(kind.records)
    turned(kind).check(spec, 3)


def test_stores_of_other_formats_keep_their_keys_and_move_along(tmp_path: Path) -> None:
    app = tmp_path / "app"
    plain = Kind("key-value", "timestamped-key-value", TIMED, PLAIN, prefix=UNKNOWN_TIMESTAMP)
    plain.make(app, 2)
    moved = ("window", "versioned")
    for name in moved:
        KINDS[name].make(app, 2, store=name)
    named = [{"name": name, "format": f"kafka-streams.{KINDS[name].source}"} for name in moved]
    source = {"store": None, "stores": ["orders", *named]}
    spec = rekeyed(tmp_path, app, 3, source=source, conversion={"function": backwards})
    sort(spec)
    turned(plain).check(spec, 3)
    for name in moved:
        KINDS[name].check(spec, 3, store=name)


def test_column_families_are_sorted_each(tmp_path: Path) -> None:
    families = {name: {name.encode() + key: value for key, value in PLAIN.items()} for name in ("default", "a", "b")}
    store = make_families(tmp_path / "store", families)
    allow = ["key-change", "unclean-source"]
    conversion, how = {"function": backwards, "allow": allow}, {"sort": True, "chunk_size": "16 KiB"}
    spec = raw_spec(tmp_path, store, conversion=conversion, run=how)
    sort(spec)
    assert spec.target_path is not None
    expected = {name: {key[::-1]: value for key, value in records.items()} for name, records in families.items()}
    assert read_families(spec.target_path) == expected


def test_a_damaged_range_is_sorted_again(tmp_path: Path) -> None:
    app = make_application(tmp_path / "app", {"orders": spread(RECORDS, 2)})
    spec = rekeyed(tmp_path, app, 3)

    def damage(event: Event) -> None:
        if event.name == "chunk.committed" and not damaged:
            file = next((spec.home / "chunks").rglob("*.sst"))
            file.write_bytes(file.read_bytes()[:-100])
            damaged.append(file)

    damaged: list[Path] = []
    run_with(sorting, Context(spec, damage))
    assert damaged
    assert published(spec, TIMED) == spread(CONVERTED, 3)


def test_collisions_are_sorted_again_once_they_are_no_longer_allowed(tmp_path: Path) -> None:
    app = make_application(tmp_path / "app", {"orders": spread(RECORDS, 2)})
    how = {"chunk_size": "16 KiB", "time_budget": "0s"}
    newest = {"function": with_time, "on_collision": "newest"}

    def stop(event: Event) -> None:
        if event.name == "assemble.started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_with(sorting, Context(rekeyed(tmp_path, app, 3, conversion=newest), stop))
    strict = rekeyed(tmp_path, app, 3, conversion={"function": with_time}, run=how)
    raises(InterruptedMigrationError, "left", sort, strict)


def test_an_old_key_in_the_wrong_task_is_refused(tmp_path: Path) -> None:
    """One of many, which no sample shows."""
    old = spread(RECORDS, 2)
    key = sorted(old[0])[1237]
    old[1][key] = old[0].pop(key)
    app = make_application(tmp_path / "app", {"orders": old})
    raises(RefusedError, "the key .* is in task 0_1", sort, rekeyed(tmp_path, app, 3))


def test_a_range_whose_receipt_is_not_here_is_not_taken_for_written(tmp_path: Path) -> None:
    spec = rekeyed(tmp_path, make_application(tmp_path / "app", {"orders": [RECORDS]}), 2)
    waves: list[SortTask] = []

    def follow(event: Event) -> None:
        if event.name == "chunk.started":
            waves.append(event.facts["task"])

    run_with(sorting, Context(spec, follow))
    receipts = [row.receipt for row in read_ledger(spec.home) if row.step == "chunk"]
    assert len(written_by(receipts, waves[0])) == len(receipts)
    raises(ChunkFailedError, "its receipt is not in", written_by, receipts[1:], waves[0])
