"""Whether records look like a format: a hint for the operator, never a reason to choose the format."""

from __future__ import annotations

from dataclasses import dataclass

from formats.errors import EntryError
from formats.format import Format
from formats.layout import TIMESTAMP, WINDOW_START
from formats.record import StateRecord

_OLDEST_MS = 1_000_000_000_000
"""2001-09-09: no stream processor is older."""
_AHEAD_MS = 366 * 86_400_000
_LONGEST_SESSION_MS = 366 * 86_400_000
SURE = 0.95
"""The share of a sample from which on it looks like a format; up to 1 - SURE, it does not."""
_TIME = slice(1, 9)
_TIMES_AT_THE_END = (-12, -16)
"""Offsets of the time: in front of a window's sequence number, and of a session's end and start."""


def leaves_marks(known: Format) -> bool:
    """Whether a format's records are recognizable: without a time, any bytes look like it."""
    return not known.carries.isdisjoint((TIMESTAMP, WINDOW_START))


@dataclass(slots=True)
class FormatSample:
    """Counts how many records of a sample decode as a format, and look like it."""

    known: Format
    is_possible: bool = True
    """Whether the spec or the column families name the format: a value that is only a time then counts."""
    sampled: int = 0
    decoded: int = 0
    alike: int = 0
    """Decoded records whose times are plausible too: unknown, or neither long ago nor far ahead."""

    def add(self, key: bytes, value: bytes, *, now_ms: int) -> None:
        """Count one record."""
        self.sampled += 1
        try:
            record = self.known.decode(key, value)
        except EntryError:
            return
        self.decoded += 1
        is_a_number = record.timestamp_ms is not None and not record.value
        self.alike += (self.is_possible or not is_a_number) and _is_plausible(record, now_ms)

    @property
    def share(self) -> float:
        """The share of the records that look like the format."""
        return self.alike / max(1, self.sampled)


def looks_closed_first(key: bytes, *, now_ms: int) -> bool:
    """Whether a key may be one of a store that emits when windows or sessions close: see
    formats.kafka_streams.unsupported."""
    if key[:1] == b"\0":
        return len(key) > _TIME.stop and _is_moment(int.from_bytes(key[_TIME], "big", signed=True), now_ms)
    if key[:1] == b"\1":
        times = (int.from_bytes(key[at : at + 8], "big", signed=True) for at in _TIMES_AT_THE_END if len(key) > -at)
        return any(_is_moment(time, now_ms) for time in times)
    return False


def _is_plausible(record: StateRecord, now_ms: int) -> bool:
    timestamp, window, history = record.timestamp_ms, record.window, record.history
    if window is not None:
        if not _is_moment(window.start_ms, now_ms) or window.sequence < 0:
            return False
        if window.end_ms is not None and not 0 <= window.end_ms - window.start_ms <= _LONGEST_SESSION_MS:
            return False
    if history is not None:
        return _is_moment(history.valid_to_ms, now_ms)
    return timestamp is None or timestamp == -1 or _is_moment(timestamp, now_ms)


def _is_moment(milliseconds: int, now_ms: int) -> bool:
    return _OLDEST_MS <= milliseconds <= now_ms + _AHEAD_MS
