"""What `convert` drops is a record that cannot be converted, unless it may be dropped; then it is counted."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from formats import StateRecord
from migrate import ConversionError, RefusedError, StoreMetrics
from tests.dual.pairings import LOUD, PREFIXED, Ground, without_prefix
from tests.support import raises

RECORDS = {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"}
two = pytest.mark.parametrize("two", [False, True], ids=["one-database", "two-databases"])


def forgotten_for_b(record: StateRecord) -> StateRecord | None:
    if record.key == b"b":
        StateRecord(record.key, record.value * 2)
        return None  # as a branch without a return ends
    return record


@pytest.fixture
def ground(tmp_path: Path, two: bool) -> Ground:
    made = Ground(tmp_path, LOUD, two)
    made.make(RECORDS)
    return made


@two
def test_a_dropped_record_is_one_that_cannot_be_converted(ground: Ground) -> None:
    with ground.open(convert=forgotten_for_b, may_drop=False) as store:
        for read in (lambda: store.get(b"b"), lambda: list(store.all()), lambda: store.converge(None, None)):
            raises(ConversionError, "returns None", read)
        assert (store.progress.dropped, store.is_converged) == (0, False)
    assert ground.raw_old()[b"b"] == b"2"
    with ground.open(convert=forgotten_for_b, may_drop=False, on_reject="quarantine") as store:
        store.converge(None, None)
        ((key, reason),) = store.rejects()
        assert (key, "may_drop=True" in reason) == (b"b", True)
        assert (store.progress.rejected, store.progress.dropped) == (1, 0)
    assert ground.raw_old() == {b"b": b"2"}
    with ground.open(convert=lambda record: record, may_drop=False) as store:
        store.converge(None, None)
        assert dict(store.all()) == RECORDS


@two
def test_nothing_is_opened_where_all_of_a_sample_would_go(ground: Ground) -> None:
    raises(RefusedError, "returns None", ground.open, convert=lambda record: None, may_drop=False)
    assert ground.raw_old() == RECORDS


@two
def test_what_may_be_dropped_is_counted_once_it_is_gone(ground: Ground) -> None:
    with ground.open(convert=forgotten_for_b) as store:
        registry = CollectorRegistry()
        registry.register(StoreMetrics({"orders": store}))
        for _ in range(2):
            assert dict(store.all()) == {key: value for key, value in RECORDS.items() if key != b"b"}
        assert store.get(b"b") is None
        assert store.progress.dropped == 0  # reading it leaves it where it is
        store.converge(None, None)
        assert (store.is_converged, store.progress.dropped) == (True, 1)
        assert registry.get_sample_value("stateferry_store_dropped_total", {"store": "orders"}) == 1


@two
def test_what_the_new_store_has_is_not_lost_by_a_drop(ground: Ground) -> None:
    with ground.open(convert=forgotten_for_b, migrate_on_read=False) as store:
        store.put(b"b", b"new")
        store.converge(None, None)
        assert (store.progress.dropped, store.get(b"b")) == (0, b"new")


@two
def test_writes_under_another_key_do_not_lose_what_is_dropped(tmp_path: Path, two: bool) -> None:
    def convert(record: StateRecord) -> StateRecord | None:
        return None if record.key == b"b" else StateRecord(b"P" + record.key, record.value)

    ground = Ground(tmp_path, PREFIXED, two)
    ground.make(RECORDS)
    opened = ground.open(convert=convert, old_key=without_prefix, may_drop=False)
    with opened as store, pytest.raises(ConversionError, match="returns None"):
        store.put(b"Pb", b"5")
    assert ground.raw_old()[b"b"] == b"2"
