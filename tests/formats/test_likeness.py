"""Likeness: what of a record must make sense."""

import struct

import pytest

from formats import FORMATS, get_format
from formats.likeness import FormatSample, Rivals, leaves_marks, looks_closed_first

NOW = 1_763_812_800_000
YEAR = 366 * 86_400_000
SMALL = struct.pack(">q", NOW)
TIMED = "timestamped-key-value"


def window(start: int, sequence: int = 0) -> bytes:
    return b"user" + struct.pack(">qi", start, sequence)


def session(end: int, start: int) -> bytes:
    return b"user" + struct.pack(">qq", end, start)


@pytest.mark.parametrize(
    ("format_id", "key", "value", "expected"),
    [
        ("window", window(NOW), b"v", True),
        ("window", window(NOW, 3), b"", True),
        ("window", window(NOW, -1), b"v", False),
        ("window", window(61_000), b"v", False),
        ("window", window(NOW + 2 * YEAR), b"v", False),
        ("window", session(NOW, NOW - 5), b"v", False),
        ("window", b"short", b"v", False),
        ("session", session(NOW, NOW - 5), b"v", True),
        ("session", session(NOW, NOW), b"", True),
        ("session", session(NOW, NOW + 1), b"v", False),
        ("session", session(NOW, NOW - 2 * YEAR), b"v", False),
        ("session", window(NOW), b"v", False),
        ("timestamped-window", window(NOW), SMALL + b"v", True),
        ("timestamped-window", window(NOW), SMALL, False),
        ("timestamped-window", window(NOW), struct.pack(">q", 5) + b"v", False),
        ("headers-key-value", b"k", b"\0" + SMALL + b"v", True),
        ("headers-key-value", b"k", SMALL + b"v", False),
        ("timestamped-key-value", b"k", b"\0" + SMALL + b"v", False),
        ("versioned", struct.pack(">q", -1) + b"k", SMALL + b"v", True),
        ("versioned", struct.pack(">q", 3) + b"k", struct.pack(">qqqi", NOW, NOW - 9, NOW - 9, 1) + b"v", True),
        ("versioned", struct.pack(">q", 3) + b"k", struct.pack(">qqqi", 9, 5, 5, 1) + b"v", False),
        ("versioned", b"order-000001", b"some value", False),
    ],
)
def test_times_must_make_sense(format_id: str, key: bytes, value: bytes, expected: bool) -> None:
    sample = FormatSample(get_format(f"kafka-streams.{format_id}"), is_possible=False)
    sample.add(key, value, now_ms=NOW)
    assert (sample.sampled, sample.share) == (1, float(expected))


def test_records_unlike_their_format_may_be_bare_ones_but_not_in_segments() -> None:
    timed, windows = (Rivals(get_format(f"kafka-streams.{name}"), "kafka-streams") for name in (TIMED, "window"))
    timed.add(b"k", struct.pack(">q", 5) + b"v", now_ms=NOW)
    windows.add(window(61_000), b"v", now_ms=NOW)
    assert [known.id for known, _, _ in timed.better()] == ["kafka-streams.key-value"]
    assert windows.better() == []


@pytest.mark.parametrize(
    ("named", "value", "better"),
    [
        ("kafka-streams.timestamped-window", SMALL + b"v", False),  # like `window` too, which says less
        ("kafka-streams.key-value", b"v", False),  # no segment
        ("rocksdb.raw", b"v", True),  # of a directory by itself it is not known
    ],
)
def test_a_rival_says_more_of_the_same_kind_of_directory(named: str, value: bytes, better: bool) -> None:
    rivals = Rivals(get_format(named), None)
    rivals.add(window(NOW), value, now_ms=NOW)
    assert ("kafka-streams.window" in {known.id for known, _, _ in rivals.better()}) is better


def test_only_formats_of_bare_keys_and_values_leave_no_marks() -> None:
    assert [known.id for known in FORMATS if not leaves_marks(known)] == [
        known.id for known in FORMATS if not known.carries
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"\0" + SMALL + b"user" + bytes(4), True),
        (b"\0" + SMALL + SMALL + b"user", True),
        (b"\1user" + SMALL + bytes(4), True),
        (b"\1user" + SMALL + SMALL, True),
        (b"\0" + window(NOW), False),
        (window(NOW), False),
        (b"\0", False),
        (b"", False),
    ],
)
def test_keys_of_stores_that_emit_on_close_begin_with_a_mark_and_a_time(key: bytes, expected: bool) -> None:
    assert looks_closed_first(key, now_ms=NOW) == expected
