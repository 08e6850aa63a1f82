"""Session views: sessions that touch a bound, ranges of keys, and what has expired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from formats import EntryError
from migrate.errors import ConversionError
from migrate.queries.views.session import SessionView
from migrate.queries.views.types import QueryableStoreTypes as Types
from tests.queries.views.made import NAME, found, segmented, session_key, stores

SESSION = "kafka-streams.session"
SEGMENTS = {
    0: {session_key(b"a", 10, 20): b"1", session_key(b"a", 20, 30): b"2", session_key(b"b", 0, 30): b"3"},
    60_000: {session_key(b"a", 40, 60_000): b"4", session_key(b"ab", 60_001, 60_001): b"5"},
}
A = [b"1", b"2", b"4"]


def view_of(base: Path, **definition: Any) -> SessionView:  # noqa: ANN401
    return stores(segmented(base, SEGMENTS), SESSION, **definition).store(NAME, Types.session())


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 1 << 62), A),
        ((20, 20), [b"1", b"2"]),
        ((21, 20), [b"2"]),
        ((20, 19), [b"1"]),
        ((20, 9), []),
        ((30, 40), [b"2", b"4"]),
        ((31, 39), []),
        ((60_000, 1 << 62), [b"4"]),
        ((60_001, 1 << 62), []),
        ((-5, 10), [b"1"]),
    ],
)
def test_a_session_that_touches_a_bound_is_found(times: tuple[int, int], expected: list[bytes], tmp_path: Path) -> None:
    view = view_of(tmp_path)
    assert [each.value for each in view.find_sessions(b"a", *times)] == expected
    assert [each.value for each in view.backward_find_sessions(b"a", *times)] == expected[::-1]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ((b"a",), A),
        ((b"a", b"a"), A),
        ((b"a", b"ab"), [*A, b"5"]),
        ((b"aa", b"b"), [b"3", b"5"]),
        ((None, b"a"), A),
        ((b"b", None), [b"3"]),
        ((None, None), [b"1", b"2", b"3", b"4", b"5"]),
        ((b"b", b"a"), []),
    ],
)
def test_the_sessions_of_keys_are_those_of_both_ends_too(
    keys: tuple[bytes | None, ...], expected: list[bytes], tmp_path: Path
) -> None:
    view = view_of(tmp_path)
    assert [each.value for each in view.fetch(*keys)] == expected
    assert [each.value for each in view.backward_fetch(*keys)] == expected[::-1]


def test_one_session_is_found_by_its_times(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    assert (view.fetch_session(b"a", 10, 20), view.fetch_session(b"a", 40, 60_000)) == (b"1", b"4")
    assert (view.fetch_session(b"a", 20, 10), view.fetch_session(b"b", 10, 20)) == (None, None)


def test_times_of_a_session_are_those_of_its_first_and_last_record(tmp_path: Path) -> None:
    assert found(view_of(tmp_path).fetch(b"ab")) == [(b"ab", 60_001, 60_001, b"5")]


@pytest.mark.parametrize(
    ("retention_ms", "kept"),
    [
        (None, b"12345"),
        (59_982, b"12345"),
        (59_981, b"2345"),
        (59_972, b"2345"),
        (59_971, b"45"),
        (2, b"45"),
        (1, b"5"),
    ],
)
def test_a_session_expires_by_its_end(retention_ms: int | None, kept: bytes, tmp_path: Path) -> None:
    view = view_of(tmp_path, retention_ms=retention_ms)
    assert b"".join(sorted(each.value for each in view.all())) == kept
    assert view.fetch_session(b"a", 20, 30) == (b"2" if b"2" in kept else None)
    assert [each.value for each in view.find_sessions(b"a", 0, 1 << 62)] == [each for each in A if each in kept]


def test_partitions_follow_each_other(tmp_path: Path) -> None:
    app = segmented(tmp_path, SEGMENTS, {0: {session_key(b"a", 1, 2): b"other"}})
    view = stores(app, SESSION).store(NAME, Types.session())
    assert [each.value for each in view.fetch(b"a")] == [*A, b"other"]
    assert view.fetch_session(b"a", 1, 2) == b"other"


def test_no_key_is_not_every_key(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    with pytest.raises(EntryError, match="expected bytes"):
        view.fetch(None)
    with pytest.raises(EntryError, match="expected bytes"):
        view.find_sessions(None, 0, 1)
    with pytest.raises(EntryError, match="expected bytes"):
        view.fetch("a", b"b")


def test_an_entry_that_is_none_is_named(tmp_path: Path) -> None:
    app = segmented(tmp_path, {0: {b"shorter than 16": b"x"}})
    with pytest.raises(ConversionError, match="shorter than 16"):
        next(stores(app, SESSION).store(NAME, Types.session()).all())
