"""Scans while other things go on."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from migrate import ConversionError, MemoryStore, State, StateStore
from tests.dual.pairings import CHOOSY, UPGRADE, Ground
from tests.support import UNKNOWN_TIMESTAMP, numbered, raises

Make = Callable[[dict[bytes, bytes]], StateStore]
KINDS = ["memory", "plain", "one old", "one half", "one converged", "two old", "two half", "two converged"]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """A store of each kind, holding these records."""
    with ExitStack() as stores:

        def make(records: dict[bytes, bytes]) -> StateStore:
            store = _make(request.param, tmp_path, records)
            stores.callback(store.close)
            return store

        yield make


def _make(kind: str, base: Path, records: dict[bytes, bytes]) -> StateStore:
    if kind == "memory":
        store = MemoryStore()
        store.put_all(records.items())
        return store
    ground = Ground(base, UPGRADE, kind.startswith("two"))
    ground.make({key: value.removeprefix(UNKNOWN_TIMESTAMP) for key, value in records.items()})
    if kind == "plain":
        with ground.open() as dual:
            dual.converge(None, None)
        return ground.open_plain(read_only=False)
    dual = ground.open()
    if not kind.endswith("old"):
        dual.converge(len(records) // 2 if kind.endswith("half") else None, None)
    assert dual.is_converged == kind.endswith("converged")
    return dual


def timestamped(count: int) -> dict[bytes, bytes]:
    return {key: UNKNOWN_TIMESTAMP + value for key, value in numbered(count).items()}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [3, 3000])
def test_what_is_written_before_and_behind_a_scan_is_not_seen_by_it(make: Make, count: int, reverse: bool) -> None:
    records = timestamped(count)
    store = make(records)
    seen = []
    for key, value in store.range(reverse=reverse):
        store.put_all([(b"a" + key, b"before"), (b"z" + key, b"behind"), (key, b"other")])
        seen.append((key, value))
    assert seen == sorted(records.items(), reverse=reverse)
    assert store.state is State.RUNNING


@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_deleted_during_a_scan_is_seen_by_it(make: Make, reverse: bool) -> None:
    records = timestamped(3000)
    store = make(records)
    scan = store.range(reverse=reverse)
    first = next(scan)
    store.put_all([(key, None) for key in records])
    assert [first, *scan] == sorted(records.items(), reverse=reverse)
    assert list(store.all()) == []


@pytest.mark.parametrize("two", [False, True], ids=["one database", "two databases"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_record_that_cannot_be_converted_is_an_error_when_its_turn_comes(
    tmp_path: Path, two: bool, reverse: bool
) -> None:
    ground = Ground(tmp_path, CHOOSY, two)
    ground.make({b"b": b"fine", b"m": b"x", b"y": b"fine"})
    with ground.open() as store:
        store.put_all([(key, b"new") for key in (b"a", b"c", b"n", b"z")])
        scan = store.range(reverse=reverse)
        before = [(b"z", b"new"), (b"y", b"fine"), (b"n", b"new")] if reverse else None
        expected = before or [(b"a", b"new"), (b"b", b"fine"), (b"c", b"new")]
        assert [next(scan) for _ in expected] == expected
        caught = raises(ConversionError, "cannot be converted", next, scan)
        assert caught.key == b"m"


@pytest.mark.parametrize("two", [False, True], ids=["one database", "two databases"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_does_not_stumble_over_the_old_copy_of_a_rewritten_record(
    tmp_path: Path, two: bool, reverse: bool
) -> None:
    """In two databases the old copy goes later."""
    ground = Ground(tmp_path, CHOOSY, two)
    ground.make({b"b": b"fine", b"m": b"x", b"y": b"fine"})
    with ground.open() as store:
        store.put(b"m", b"mended")
        records = [(b"b", b"fine"), (b"m", b"mended"), (b"y", b"fine")]
        assert list(store.range(reverse=reverse)) == sorted(records, reverse=reverse)
