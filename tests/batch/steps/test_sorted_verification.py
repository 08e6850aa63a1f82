"""Damage made by hand in new stores whose keys were sorted: found, and named by key, in both modes."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree
from typing import Literal

import pytest

from formats import StateRecord
from formats.partitioners import default_partition
from migrate import RefusedError, RejectedError, Spec, VerificationError, verify
from migrate.batch.chunk.sorted_range import SortTask
from migrate.batch.chunk.sorting import PlacedRecords, SortWork, Unplaced
from migrate.batch.chunk.task import Task, TaskResult
from migrate.batch.context import Context
from migrate.batch.plan import sorted_ranges
from migrate.batch.run import run_with
from migrate.batch.steps import sort, sorted_comparison
from migrate.engine.split import Payloads
from migrate.model.comparison import Verification
from tests.batch.run.test_partitions import TIMED, Kind, make_application, spec_of, spread
from tests.shared.windowed import window_time, windows
from tests.sorting import SortingExecutor, sorting
from tests.support import (
    UNKNOWN_TIMESTAMP,
    make_families,
    make_store,
    numbered,
    open_store,
    raises,
    raw_spec,
    read_families,
)

Mode = Literal["full", "digest"]
Store = Callable[[int], Path]
RECORDS = numbered(3000, prefix=b"")
MODES = pytest.mark.parametrize("mode", ["full", "digest"])


def reversed_key(record: StateRecord) -> StateRecord:
    """Of two keys in order, the new ones are in any order."""
    assert isinstance(record.key, bytes)
    return replace(record, key=record.key[::-1])


def _new(key: bytes) -> bytes:
    return key[::-1]


def _spec(tmp_path: Path, **sections: object) -> Spec:
    app = make_application(tmp_path / "app", {"orders": spread(RECORDS, 2)})
    how = {"function": reversed_key, "allow": ["changelog", "drop", "key-change", "unclean-source"]} | sections.pop(
        "conversion", {}
    )  # type: ignore[operator]
    run = {"chunk_size": "16 KiB", "sort": True} | sections.pop("run", {})  # type: ignore[operator]
    return spec_of(tmp_path, app, 3, conversion=how, run=run, **sections)


def _run(spec: Spec) -> Verification:
    return run_with(sorting, Context(spec)).verification


def _store(spec: Spec, number: int) -> Path:
    assert spec.target_path is not None
    return spec.target_path / f"0_{number}" / "rocksdb" / "orders"


def _first(number: int) -> bytes:
    """The first new key of a new store partition."""
    return min(_new(key) for key in RECORDS if default_partition(_new(key), 3) == number)


def _value(new: bytes) -> bytes:
    return UNKNOWN_TIMESTAMP + RECORDS[_new(new)]


def _put(store: Path, key: bytes, value: bytes) -> None:
    with open_store(store) as database:
        database.get_column_family(TIMED)[key] = value


def _remove(store: Path, key: bytes) -> None:
    with open_store(store) as database:
        del database.get_column_family(TIMED)[key]


def _lose(of: Store) -> None:
    _remove(of(1), _first(1))


def _add(of: Store) -> None:
    _put(of(1), b"more", UNKNOWN_TIMESTAMP + b"value")


def _double(of: Store) -> None:
    _put(of(2), _first(1), _value(_first(1)))


def _misplace(of: Store) -> None:
    _lose(of)
    _double(of)


def _alter(of: Store) -> None:
    _put(of(1), _first(1), UNKNOWN_TIMESTAMP + b"another")


def _exchange(of: Store) -> None:
    """Two keys of one range have each other's values."""
    one, other = sorted(_new(key) for key in RECORDS if default_partition(_new(key), 3) == 1)[:2]
    _put(of(1), one, _value(other))
    _put(of(1), other, _value(one))


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    spec = _spec(tmp_path_factory.mktemp("migrated"))
    _run(spec)
    return spec


@pytest.fixture
def undamaged(migrated: Spec, tmp_path: Path) -> Iterator[Spec]:
    """New stores that a test may damage."""
    assert migrated.target_path is not None
    copytree(migrated.target_path, tmp_path / "kept")
    yield migrated
    rmtree(migrated.target_path)
    copytree(tmp_path / "kept", migrated.target_path)


@MODES
def test_what_was_sorted_well_is_well(migrated: Spec, mode: Mode) -> None:
    expected = spread({_new(key): UNKNOWN_TIMESTAMP + value for key, value in RECORDS.items()}, 3)
    assert [read_families(_store(migrated, number))[TIMED] for number in range(3)] == expected
    found = verify(migrated, mode=mode).verification
    assert (found.ok, found.records) == (True, len(RECORDS))


@MODES
@pytest.mark.parametrize(
    ("damage", "counts", "named"),
    [
        (_lose, (1, 0, 0), ["missing in the new store: 0_1/orders"]),
        (_add, (0, 0, 1), ["extra in the new store: 0_1/orders"]),
        (_double, (0, 0, 1), ["extra in the new store: 0_2/orders"]),
        (_misplace, (1, 0, 1), ["missing in the new store: 0_1/orders", "extra in the new store: 0_2/orders"]),
        (_alter, (0, 1, 0), ["differing: 0_1/orders", 'is "another"']),
        (_exchange, (0, 2, 0), ["differing: 0_1/orders"]),
    ],
)
def test_damage_is_found_and_named(
    undamaged: Spec, damage: Callable[[Store], None], counts: tuple[int, int, int], named: list[str], mode: Mode
) -> None:
    damage(lambda number: _store(undamaged, number))
    missing, differing, extra = counts
    keys = "key" if missing == 1 else "keys"
    error = raises(
        VerificationError,
        f"{missing} {keys} missing, {differing} differing, {extra} extra",
        verify,
        undamaged,
        mode=mode,
    )
    assert error.exit_code == 4
    key = b"more" if damage is _add else _first(1)
    assert f'key "{key.decode()}"' in str(error)
    assert all(each in str(error) for each in named)


def lower_key(record: StateRecord) -> StateRecord:
    """Keys that differ in their case alone get one."""
    assert isinstance(record.key, bytes)
    return replace(record, key=record.key.lower()[::-1])


TIMED_RECORDS = {
    b"%s%03d" % (name, number): b"%08d%s-%d" % ((number + name[0]) % 7, name, number)
    for name in (b"a", b"A", b"b", b"C")
    for number in range(200)
}
"""With timestamps, eight digits, in front of the values."""


def _colliding(tmp_path: Path, **conversion: object) -> Spec:
    app = make_application(tmp_path / "app", {"orders": spread(TIMED_RECORDS, 2)}, TIMED)
    formats = {side: {"format": "kafka-streams.timestamped-key-value"} for side in ("source", "target")}
    conversion = {"function": lower_key, "allow": ["changelog", "key-change", "unclean-source"]} | conversion
    return spec_of(tmp_path, app, 3, conversion=conversion, run={"chunk_size": "4 KiB", "sort": True}, **formats)


def test_two_records_with_one_new_key_are_refused_by_their_old_keys(tmp_path: Path) -> None:
    error = raises(RefusedError, "get one new key", _run, _colliding(tmp_path))
    first = re.search(r'the key "([aA])(\d+)" of 0_\d/orders and the key "([aA])(\d+)" of 0_\d/orders', str(error))
    assert first is not None
    assert {first[1], first[3]} == {"a", "A"}
    assert first[2] == first[4]
    assert 'on_collision = "newest"' in error.hint
    assert not (tmp_path / "new").exists()


@MODES
def test_where_the_newest_wins_the_others_are_left_out(tmp_path: Path, mode: Mode) -> None:
    spec = _colliding(tmp_path, on_collision="newest")
    assert _run(spec).records == 600
    found = [read_families(_store(spec, number))[TIMED] for number in range(3)]
    expected: dict[bytes, bytes] = {}
    for key, value in TIMED_RECORDS.items():
        new = key.lower()[::-1]
        expected[new] = max(expected.get(new, b""), value)
    assert found == spread(expected, 3)
    assert verify(spec, mode=mode).verification.ok
    key = min(found[1])
    _put(_store(spec, 1), key, b"00000000a-older")
    error = raises(VerificationError, "0 keys missing, 1 differing, 0 extra", verify, spec, mode=mode)
    assert f'key "{key.decode()}"' in str(error)


class _Careless(SortingExecutor):
    """Loses records that it should complain of, and says so in its receipts."""

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        return super().run([replace(each, newest_wins=True) if isinstance(each, SortTask) else each for each in tasks])


def test_receipts_excuse_nothing_that_the_spec_does_not_allow(tmp_path: Path) -> None:
    spec = _colliding(tmp_path)
    raises(
        VerificationError, "200 keys missing, 0 differing", run_with, lambda _: nullcontext(_Careless()), Context(spec)
    )


def test_the_older_record_of_a_key_is_not_the_newest(tmp_path: Path) -> None:
    """Both sides have as many records then, and the receipts say so."""
    spec = _colliding(tmp_path, on_collision="newest")
    _run(spec)
    older = {key.lower()[::-1]: value for key, value in TIMED_RECORDS.items() if key.startswith(b"a")}
    found = read_families(_store(spec, 1))[TIMED]
    key = min(each for each in found if each in older and found[each] != older[each])
    _put(_store(spec, 1), key, older[key])
    raises(VerificationError, "0 keys missing, 1 differing, 0 extra", verify, spec)


@MODES
def test_many_that_are_wrong_are_counted(undamaged: Spec, monkeypatch: pytest.MonkeyPatch, mode: Mode) -> None:
    monkeypatch.setattr(sorted_comparison, "_MOST_RECORDS", 50)
    store = _store(undamaged, 1)
    keys = sorted(read_families(store)[TIMED])
    with open_store(store) as database:
        for key in keys[::2]:
            del database.get_column_family(TIMED)[key]
    raises(VerificationError, f"{len(keys[::2])} keys missing, 0 differing, 0 extra", verify, undamaged, mode=mode)


@MODES
def test_a_family_too_many_is_found(undamaged: Spec, mode: Mode) -> None:
    make_families(_store(undamaged, 2), {"more": {}})
    raises(VerificationError, "0_2/orders: column families should be", verify, undamaged, mode=mode)


@MODES
def test_old_records_that_no_task_reads_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode) -> None:
    """What is left out of both sides changes no sum: the files say how many there are."""
    whole = sorted_ranges.old_ranges
    monkeypatch.setattr(sort, "old_ranges", lambda *how: [*whole(*how)][:-1])
    run = {"verify": mode}
    raises(
        VerificationError, "orders: records that the chunks read should be 3,000, is", _run, _spec(tmp_path, run=run)
    )


def place_in_the_first(work: SortWork, found: Unplaced, _: Payloads) -> PlacedRecords:
    place = (work.stores[found.store].partitions[0], found.database)
    return PlacedRecords(work.targets.in_place(*place, found.records.keys), found)


def test_keys_that_were_placed_wrongly_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides are placed alike: the partitioner alone says where new keys belong."""
    monkeypatch.setattr(SortWork, "place", place_in_the_first)
    error = raises(VerificationError, "0 keys missing", _run, _spec(tmp_path))
    assert re.search(r"0_0/orders.*, key .*: store partition should be 0_[12]/orders, is 0_0/orders", str(error))


def test_a_receipt_that_is_of_other_records_is_found(undamaged: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_comparison, "_digests", lambda _: ())
    raises(VerificationError, "0_0/orders: receipt of chunk 0 should be", verify, undamaged, mode="digest")


def picky_key(record: StateRecord) -> StateRecord | None:
    """Drops some records, and fails at others."""
    assert isinstance(record.key, bytes)
    if record.key.endswith(b"7"):
        raise ValueError("no sevens")
    return None if record.key.endswith(b"3") else replace(record, key=record.key[::-1])


@MODES
def test_what_was_left_out_is_left_out_again(tmp_path: Path, mode: Mode) -> None:
    run = {"on_reject": "skip", "verify": mode}
    spec = _spec(tmp_path, conversion={"function": picky_key}, run=run)
    error = raises(RejectedError, "300 records could not be converted", _run, spec)
    assert error is not None
    found = verify(spec, mode=mode).verification
    assert (found.ok, found.records, found.dropped) == (True, 2400, 300)


WINDOWS = windows(400, until=2 * 900_000)


def reversed_window(record: StateRecord) -> StateRecord:
    """The same window of another key."""
    return replace(record, key=record.key[::-1])


def _new_window(key: bytes) -> bytes:
    return key[:-12][::-1] + key[-12:]


@MODES
def test_a_window_in_another_segment_is_found(tmp_path: Path, mode: Mode) -> None:
    kind = Kind("window", "window", "default", WINDOWS, behind=12, time=window_time)
    how = {"function": reversed_window, "allow": ["changelog", "key-change", "unclean-source"]}
    app = kind.make(tmp_path / "app", 2)
    spec = spec_of(tmp_path, app, 3, conversion=how, run={"sort": True}, **kind.formats())
    assert _run(spec).records == len(WINDOWS)
    replace(kind, records={_new_window(key): value for key, value in WINDOWS.items()}).check(spec, 3)
    assert verify(spec, mode=mode).verification.ok
    assert spec.target_path is not None
    one, other = sorted(each for each in (spec.target_path / "0_1" / "orders").iterdir() if each.is_dir())[:2]
    key, value = min(read_families(one)["default"].items())
    with open_store(one) as here, open_store(other) as there:
        del here[key]
        there[key] = value
    raises(VerificationError, "1 key missing, 0 differing, 1 extra", verify, spec, mode=mode)
    rmtree(one)
    raises(VerificationError, "0_1/orders: RocksDB directories should be", verify, spec, mode=mode)


@MODES
def test_keys_may_change_within_their_store(tmp_path: Path, mode: Mode) -> None:
    store = make_store(tmp_path / "old", RECORDS)
    how = {"function": reversed_key, "allow": ["key-change"]}
    spec = raw_spec(tmp_path, store, conversion=how, run={"sort": True, "chunk_size": "16 KiB"})
    assert _run(spec).records == len(RECORDS)
    assert spec.target_path is not None
    assert read_families(spec.target_path)["default"] == {_new(key): value for key, value in sorted(RECORDS.items())}
    with open_store(spec.target_path) as database:
        del database[b"00000000"]
    error = raises(VerificationError, "1 key missing, 0 differing, 0 extra", verify, spec, mode=mode)
    assert 'key "00000000"' in str(error)
