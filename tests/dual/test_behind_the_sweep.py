"""Keys that the sweep has passed: a put of one has no old copy to delete, and nothing comes back all the same."""

from collections.abc import Callable
from pathlib import Path

import pytest

from formats import StateRecord
from migrate import ConversionError, DualReadStore
from tests.dual.half_way import KEYS, NEW, OLD, arrangements, as_killed, assert_shows, seen, started
from tests.dual.pairings import LOUD, PREFIXED, UPGRADE, Ground, Pairing
from tests.support import raises

PASSED, AT_MARK, ADDED = KEYS[4], KEYS[10], b"Pa"
"""After `sweep_ten`."""


def sweep_ten(store: DualReadStore) -> None:
    """As `converge` does it while it holds the lock; of two databases the old one still has what was moved."""
    assert store._access is not None
    assert store._converge_slice(store._access, 10, None) == 10


def put(store: DualReadStore, key: bytes, value: bytes | None) -> None:
    store.put(key, value)


def put_in_a_batch(store: DualReadStore, key: bytes, value: bytes | None) -> None:
    store.put_all([(ADDED, NEW), (key, value)])


either_way = pytest.mark.parametrize("change", [put, put_in_a_batch])
Change = Callable[[DualReadStore, bytes, bytes | None], None]


@arrangements
@either_way
@pytest.mark.parametrize("pairing", [LOUD, PREFIXED], ids=lambda pairing: pairing.name)
def test_a_put_writes_no_delete_for_a_key_that_the_sweep_has_passed(
    tmp_path: Path, two: bool, change: Change, pairing: Pairing
) -> None:
    ground = Ground(tmp_path / "state", pairing, two)
    ground.make(OLD)
    new_key = {old_key: pairing.see(old_key, b"")[0] for old_key in KEYS}
    with ground.open(migrate_on_read=False) as store:
        store.converge(10, None)
        store.put(ADDED, NEW)
        for old_key, deletes in ((PASSED, 0), (KEYS[20], 1)):
            before = _deletes_of(store)
            change(store, new_key[old_key], NEW)
            store.flush()
            assert _deletes_of(store) - before == deletes, old_key
        assert store.progress.moved_by_write == 1
        expected = pairing.seen(OLD) | dict.fromkeys([ADDED, new_key[PASSED], new_key[KEYS[20]]], NEW)
        assert dict(store.all()) == expected


def _deletes_of(store: DualReadStore) -> int:
    """How many deletes the old family has in memory."""
    assert store._access is not None
    return store._access.pair.old._property("num-deletes-active-mem-table")


@arrangements
@either_way
@pytest.mark.parametrize("puts", [False, True], ids=["", "put before"])
def test_a_key_that_the_sweep_has_passed_stays_deleted(tmp_path: Path, two: bool, change: Change, puts: bool) -> None:
    ground = started(tmp_path, two=two)
    with ground.open() as store:
        sweep_ten(store)
        if puts:
            store.put(PASSED, NEW)
        change(store, PASSED, None)
        after = as_killed(ground)
        added = {ADDED: NEW} if change is put_in_a_batch else {}
        expected = {key: value for key, value in (seen(OLD) | added).items() if key != PASSED}
        assert_shows(store, expected)
    with after.open() as store:
        assert_shows(store, expected)


@arrangements
@either_way
def test_a_put_behind_the_sweep_survives_a_kill(tmp_path: Path, two: bool, change: Change) -> None:
    ground = started(tmp_path, two=two)
    with ground.open() as store:
        sweep_ten(store)
        change(store, PASSED, NEW)
        after = as_killed(ground)
    with after.open() as store:
        added = {ADDED: NEW} if change is put_in_a_batch else {}
        assert_shows(store, seen(OLD) | added | {PASSED: NEW})


@arrangements
@either_way
def test_a_put_at_the_sweeps_mark_deletes_the_old_copy(tmp_path: Path, two: bool, change: Change) -> None:
    """At the record at which the sweep has stopped, and at the first one of a store that was just opened."""

    def convert(record: StateRecord) -> StateRecord:
        if record.key == AT_MARK:
            raise ValueError("unheard of")
        return record

    ground = started(tmp_path, two=two)
    with ground.open(convert=convert) as store:
        change(store, KEYS[0], NEW)
        raises(ConversionError, "unheard of", store.converge)
        assert store._access is not None
        assert store._access.sweep.next_key == AT_MARK
        change(store, AT_MARK, NEW)
        store.flush()
        left = as_killed(ground).raw_old()
        assert sorted(left) == KEYS[11:]


@arrangements
@either_way
def test_a_put_deletes_the_old_copy_that_the_sweep_had_to_leave_behind(
    tmp_path: Path, two: bool, change: Change
) -> None:
    def convert(record: StateRecord) -> StateRecord:
        if record.key == PASSED:
            raise ValueError("unheard of")
        return record

    ground = Ground(tmp_path / "state", UPGRADE, two)
    ground.make(OLD)
    with ground.open(convert=convert, on_reject="quarantine") as store:
        store.converge(50, None)
        assert [key for key, _ in store.rejects()] == [PASSED]
        change(store, PASSED, NEW)
        assert not store.rejects()
        store.converge(None, None)
        assert store.is_converged
        assert store.get(PASSED) == NEW
    assert PASSED not in ground.raw_old()
