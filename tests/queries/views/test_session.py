"""Session stores: which sessions a question finds, in which order, and which have expired."""

from pathlib import Path

import pytest

from migrate.queries.views.windowed_views import MAX_TIME
from tests.queries.views.made import in_order, session_view
from tests.shared.windowed import MINUTE, session_key, session_time, sessions

UNTIL = 5 * MINUTE
RECORDS = sessions(600, until=UNTIL)
BOUNDS = [(0, MAX_TIME), (MINUTE, MINUTE), (200_000, 100_000), (-5, 1 << 70), (1 << 70, 1 << 70), (0, -1)]


def start_of(stored: bytes) -> int:
    return int.from_bytes(stored[-8:], "big")


@pytest.mark.parametrize(("earliest_end", "latest_start"), BOUNDS)
@pytest.mark.parametrize("key", [b"", b"\x00", b"a", b"ab", b"ab\x00", b"\xff" * 12, b"none"])
def test_a_key_finds_the_sessions_that_touch_the_time(
    tmp_path: Path, key: bytes, earliest_end: int, latest_start: int
) -> None:
    view = session_view(tmp_path, RECORDS)
    expected = in_order(
        RECORDS,
        session_time,
        lambda stored: (
            stored[:-16] == key and session_time(stored) >= earliest_end and start_of(stored) <= latest_start
        ),
    )
    assert [each.value for each in view.find_sessions(key, earliest_end, latest_start)] == expected
    assert [each.value for each in view.backward_find_sessions(key, earliest_end, latest_start)] == expected[::-1]


@pytest.mark.parametrize(("low", "high"), [(b"a", b"b"), (None, b"ab"), (b"ab", None), (None, None), (b"b", b"a")])
def test_a_range_holds_the_keys_between_its_ends(tmp_path: Path, low: bytes | None, high: bytes | None) -> None:
    view = session_view(tmp_path, RECORDS)
    expected = in_order(
        RECORDS,
        session_time,
        lambda stored: (low is None or low <= stored[:-16]) and (high is None or stored[:-16] <= high),
    )
    assert [each.value for each in view.fetch(low, high)] == expected
    assert [each.value for each in view.backward_fetch(low, high)] == expected[::-1]


def test_both_bounds_touch_a_session(tmp_path: Path) -> None:
    view = session_view(tmp_path, {session_key(b"k", 50, 80): b"v"})
    assert list(view.find_sessions(b"k", 80, 50)) == [((b"k", (50, 80)), b"v")]
    assert list(view.find_sessions(b"k", 81, 50)) == list(view.find_sessions(b"k", 80, 49)) == []


def test_a_session_is_found_by_its_two_times(tmp_path: Path) -> None:
    view = session_view(tmp_path, {session_key(b"k", 50, MINUTE + 80): b"v", session_key(b"k", 50, 60): b"w"})
    asked = [(50, MINUTE + 80), (50, 60), (50, 61), (51, 60), (-1, -1)]
    assert [view.fetch_session(b"k", start, end) for start, end in asked] == [b"v", b"w", None, None, None]


def test_a_session_expires_by_its_end(tmp_path: Path) -> None:
    newest, retention = 4 * MINUTE, 2 * MINUTE
    ends = [newest - retention, newest - retention + 1, newest]
    view = session_view(tmp_path, {session_key(b"k", 1, end): b"%d" % end for end in ends}, retention)
    assert [each.key.window.end for each in view.fetch(b"k")] == ends[1:]
    assert [view.fetch_session(b"k", 1, end) for end in ends] == [None, *(b"%d" % end for end in ends[1:])]
