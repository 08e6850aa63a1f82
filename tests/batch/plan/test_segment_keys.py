"""Keys that are not of their segment's time are refused before anything is converted."""

import pytest

from formats import StateRecord, Window, get_format
from migrate.batch.plan.sample import check_keys, spans_of
from migrate.errors import RefusedError
from migrate.model.plan import TimeSlice
from migrate.model.store_partition import Segment
from tests.support import raises

WINDOWED, SESSIONS = get_format("kafka-streams.window"), get_format("kafka-streams.session")
START = 1_767_225_600_000
SPAN = TimeSlice(start_ms=START, end_ms=START + 900_000)
TIMES = range(START, START + 900_000, 60_000)


def _time(moment: int) -> bytes:
    return moment.to_bytes(8, "big")


def test_keys_of_the_segment_pass() -> None:
    windows = [WINDOWED.encode(StateRecord(b"\0user", b"v", window=Window(time)))[0] for time in TIMES]
    sessions = [SESSIONS.encode(StateRecord(b"u", b"v", window=Window(time - 5_000_000, time)))[0] for time in TIMES]
    check_keys(windows, WINDOWED, SPAN, "here")
    check_keys(sessions, SESSIONS, SPAN, "here")
    check_keys([], WINDOWED, SPAN, "here")


@pytest.mark.parametrize("user", [b"k", b"user-1", b"a longer key than most"])
def test_windows_that_are_emitted_on_close_are_named(user: bytes) -> None:
    keys = [b"\0" + _time(time) + user + bytes(4) for time in TIMES]
    raises(RefusedError, "emits when windows or sessions close", check_keys, keys, WINDOWED, SPAN, "here")
    index = [b"\1" + user + _time(time) + bytes(4) for time in TIMES]
    raises(RefusedError, "emits when windows or sessions close", check_keys, [*keys, *index], WINDOWED, SPAN, "here")


def test_sessions_that_are_emitted_on_close_are_named() -> None:
    keys = [b"\0" + _time(time) + _time(time - 7) + b"user" for time in TIMES]
    raises(RefusedError, "emits when windows or sessions close", check_keys, keys, SESSIONS, SPAN, "here")


def test_sessions_are_not_taken_for_windows() -> None:
    keys = [SESSIONS.encode(StateRecord(b"u", b"v", window=Window(time - 7, time)))[0] for time in TIMES]
    with pytest.raises(RefusedError, match="15 of 15 sampled keys of here lie outside the time of their segment"):
        check_keys(keys, WINDOWED, SPAN, "here")


def test_some_keys_that_another_retention_left_behind_are_no_reason() -> None:
    keys = [WINDOWED.encode(StateRecord(b"u", b"v", window=Window(time)))[0] for time in [*TIMES, START + 10**9]]
    check_keys(keys, WINDOWED, SPAN, "here")


def test_a_segment_reaches_to_the_next_one() -> None:
    spans = spans_of([Segment("w.0", 0), Segment("w.900000", 900_000)])
    assert spans["w.0"] == TimeSlice(start_ms=0, end_ms=900_000)
    assert spans["w.900000"].start_ms == 900_000
    assert spans["w.900000"].end_ms > 900_000 + 365 * 86_400_000
    assert spans_of([]) == {}
