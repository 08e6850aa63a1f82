"""One rule of the adapter after the other, in the smallest store that shows it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migrate import ConversionError, DualReadStore, SpecError
from tests.dual.crash import copy_as_it_stands
from tests.support import KEY_VALUE, TIMESTAMPED, UNKNOWN_TIMESTAMP, make_store, numbered, raises, read_families

RECORDS = dict(numbered(20))
KEYS = sorted(RECORDS)
CONVERTED = {key: UNKNOWN_TIMESTAMP + value for key, value in RECORDS.items()}
KEY = KEYS[5]
NEW = b"12345678new"
both = pytest.mark.parametrize("two", [False, True], ids=["one-database", "two-databases"])


def opened(base: Path, *, two: bool, **arguments: Any) -> DualReadStore:  # noqa: ANN401
    if not (base / "old").exists():
        make_store(base / "old", RECORDS)
    path, old_path = (base / "new", base / "old") if two else (base / "old", None)
    return DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, old_path=old_path, **arguments)


def crashed(base: Path) -> Path:
    """The files as a killed process would leave them."""
    after = base.with_name(f"{base.name}-after")
    copy_as_it_stands(base, after)
    return after


@pytest.mark.parametrize(
    "change", [lambda store: store.put(KEY, NEW), lambda store: store.get(KEY)], ids=["put", "get"]
)
def test_in_one_database_a_key_is_never_in_both_families(
    tmp_path: Path, change: Callable[[DualReadStore], object]
) -> None:
    with opened(tmp_path / "state", two=False) as store:
        change(store)
        families = read_families(crashed(tmp_path / "state") / "old")
    assert KEY in families["keyValueWithTimestamp"]
    assert KEY not in families["default"]


@both
def test_a_deleted_key_is_gone_from_both_stores(tmp_path: Path, two: bool) -> None:
    with opened(tmp_path / "state", two=two, migrate_on_read=False) as store:
        store.delete(KEY)
        store.put(KEYS[6], NEW)
        store.delete(KEYS[6])
        assert store.multi_get([KEY, KEYS[6]]) == [None, None]
        after = crashed(tmp_path / "state")
    with opened(after, two=two) as store:
        assert store.multi_get([KEY, KEYS[6]]) == [None, None]


def test_the_new_record_wins_over_an_old_copy_that_was_left(tmp_path: Path) -> None:
    with opened(tmp_path / "state", two=True) as store:
        store.put(KEY, NEW)
        after = crashed(tmp_path / "state")
    assert KEY in read_families(after / "old")["default"]
    with opened(after, two=True) as store:
        assert store.get(KEY) == NEW
        assert [value for key, value in store.all() if key == KEY] == [NEW]
        store.converge(None, None)
        assert store.is_converged
        assert dict(store.all()) == CONVERTED | {KEY: NEW}


@both
def test_a_reader_finds_a_record_that_moves_between_its_two_reads(
    tmp_path: Path, two: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "state", two=two) as store:
        assert store._access is not None
        old = store._access.pair.old
        look = old.get

        def late(key: bytes) -> bytes | None:
            monkeypatch.setattr(old, "get", look)
            store.converge(10, None)
            return look(key)

        monkeypatch.setattr(old, "get", late)
        assert store.get(KEY) == CONVERTED[KEY]


@both
def test_a_read_that_would_move_a_key_reads_again_under_the_lock(
    tmp_path: Path, two: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "state", two=two) as store:
        assert store._access is not None
        look = store._access.old_value

        def slow(key: bytes) -> bytes | None:
            found = look(key)
            store.put(key, NEW)
            return found

        monkeypatch.setattr(store._access, "old_value", slow)
        store.get(KEY)
        assert store.get(KEY) == NEW


@both
@pytest.mark.parametrize(
    "move", [lambda store: store.get(KEY), lambda store: store.converge(None, None)], ids=["get", "converge"]
)
def test_a_key_stays_old_where_the_hook_raises(
    tmp_path: Path, two: bool, move: Callable[[DualReadStore], object]
) -> None:
    def hook(key: bytes, old_value: bytes, new_value: bytes) -> None:
        assert (old_value, new_value) == (RECORDS[key], CONVERTED[key])
        if key == KEY:
            raise OSError("the broker is away")

    with opened(tmp_path / "state", two=two, on_migrated=hook) as store:
        raises(OSError, "the broker is away", move, store)
        assert dict(store.all()) == CONVERTED
        store.flush()
        assert KEY in read_families(crashed(tmp_path / "state") / "old")["default"]


@both
def test_what_cannot_be_converted_stays_in_quarantine_over_restarts(tmp_path: Path, two: bool) -> None:
    def convert(record: Any) -> Any:  # noqa: ANN401
        if record.key == KEY:
            raise ValueError("unheard of")
        return record

    for _ in range(2):
        with opened(tmp_path / "state", two=two, convert=convert, on_reject="quarantine") as store:
            store.converge(None, None)
            assert not store.is_converged
            assert [key for key, _ in store.rejects()] == [KEY]
            raises(ConversionError, "unheard of", store.get, KEY)
            with pytest.raises(ConversionError, match="unheard of"):
                list(store.all())
    with opened(tmp_path / "state", two=two, convert=convert, on_reject="quarantine") as store:
        store.put(KEY, NEW)
        store.converge(None, None)
        assert store.is_converged
        assert dict(store.all()) == CONVERTED | {KEY: NEW}


@both
def test_without_a_log_what_is_moved_is_logged_all_the_same(tmp_path: Path, two: bool) -> None:
    """A changelog has what was put, and nothing of what the adapter moved."""
    with opened(tmp_path / "state", two=two, wal=False, changelog="orders-changelog") as store:
        store.converge(5, None)
        store.converge(5, None)
        assert store._access is not None
        store._access.pair.old.flush()  # as RocksDB does by itself, one family before the other
        after = crashed(tmp_path / "state")
    with opened(after, two=two) as store:
        assert dict(store.all()) == CONVERTED


@both
def test_a_scan_that_begins_before_a_move_sees_each_key_once(tmp_path: Path, two: bool) -> None:
    with opened(tmp_path / "state", two=two) as store:
        scans = [store.all(), store.reverse_all()]
        store.put(KEY, NEW)
        store.delete(KEYS[7])
        store.converge(None, None)
        assert list(scans[0]) == sorted(CONVERTED.items())
        assert list(scans[1]) == sorted(CONVERTED.items(), reverse=True)


@both
def test_a_store_whose_old_keys_were_all_written_or_deleted_switches_itself_off(tmp_path: Path, two: bool) -> None:
    with opened(tmp_path / "state", two=two) as store:
        for number, key in enumerate(KEYS):
            if number % 2:
                store.put(key, NEW)
            else:
                store.delete(key)
        assert store.is_converged
        assert dict(store.all()) == dict.fromkeys(KEYS[1::2], NEW)


@pytest.mark.parametrize(
    ("target", "said"),
    [("kafka-streams.versioned", "several records"), ("kafka-streams.session", "there is no rule to turn one into")],
)
def test_a_store_that_is_not_one_record_a_key_is_no_target(tmp_path: Path, target: str, said: str) -> None:
    make_store(tmp_path / "old", RECORDS)
    with pytest.raises(SpecError, match=said):
        DualReadStore.open(tmp_path / "new", source=KEY_VALUE, target=target, old_path=tmp_path / "old")
    assert not (tmp_path / "new").exists()


def test_headers_are_converted_as_they_are_read(tmp_path: Path) -> None:
    make_store(tmp_path / "old", RECORDS)
    with DualReadStore.open(tmp_path / "old", source=KEY_VALUE, target="kafka-streams.headers-key-value") as store:
        assert dict(store.all()) == {key: b"\0" + value for key, value in CONVERTED.items()}
        store.converge()
        assert store.is_converged
