"""Whether records look like a format: a hint for the operator, never a reason to choose the format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from formats.errors import EntryError
from formats.format import Format
from formats.layout import EXPIRY, TIMESTAMP, UNKNOWN_TIME, WINDOW_START
from formats.record import StateRecord
from formats.registry import FORMATS

_OLDEST_MS = 1_000_000_000_000
"""2001-09-09: no stream processor is older."""
_YEAR_MS = 366 * 86_400_000
SURE = 0.95
"""The share of a sample from which on it looks like a format; up to 1 - SURE, it does not."""
_TIME = slice(1, 9)
_TIMES_AT_THE_END = (-12, -16)
"""Offsets of the time: in front of a window's sequence number, and of a session's end and start."""


def leaves_marks(known: Format) -> bool:
    """Whether a format's records are recognizable: without a time, any bytes look like it."""
    return not known.carries.isdisjoint((TIMESTAMP, WINDOW_START, EXPIRY))


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
        self.sampled += 1
        try:
            record = self.known.decode(key, value)
        except EntryError:
            return
        self.decoded += 1
        is_a_number = record.timestamp_ms is not None and not record.value
        self.alike += (self.is_possible or not is_a_number) and _is_plausible(record, now_ms)

    @property
    def format(self) -> str:
        return self.known.id

    @property
    def share(self) -> float:
        """The share of the records that look like the format."""
        return self.alike / max(1, self.sampled)

    @property
    def is_ruled_out(self) -> bool:
        """Whether no record decodes as the format. One that does proves nothing."""
        return self.sampled > 0 and not self.decoded

    @property
    def is_alike(self) -> bool:
        """Whether the records look like the format, which others do not."""
        return self.sampled > 0 and leaves_marks(self.known) and self.share >= SURE

    @property
    def is_unlike(self) -> bool:
        return self.sampled > 0 and leaves_marks(self.known) and self.share <= 1 - SURE


def hint(samples: Iterable[FormatSample]) -> str:
    """A sentence that tells formats of the same column families apart; empty: their samples do not."""
    found = [each for each in samples if each.sampled]
    marked = [each for each in found if leaves_marks(each.known)]
    if len(found) < 2 or not marked:
        return ""
    if alike := [each.format for each in marked if each.is_alike]:
        return f"its records look like {' or '.join(alike)}"
    unlike = [each.format for each in marked if each.is_unlike]
    return f"its records do not look like {' or '.join(unlike)}" if len(unlike) == len(marked) else ""


class Rivals:
    """Compares a sample with the format that the spec names, and with others that its records may be of.

    `system`: the owner of the store; None: it may be any.
    """

    def __init__(self, named: Format, system: str | None) -> None:
        self.named = FormatSample(named)
        self._others = [
            FormatSample(known, is_possible=False)
            for known in FORMATS
            if known.id != named.id and system in (None, known.system) and leaves_marks(known)
            if named.column_families is None or known.is_segmented == named.is_segmented
        ]

    def add(self, key: bytes, value: bytes, *, now_ms: int) -> None:
        for each in (self.named, *self._others):
            each.add(key, value, now_ms=now_ms)

    def better(self) -> list[tuple[Format, float, str]]:
        """Formats that fit better than the named one: each with the share of records like it, and why, in words."""
        named, source = self.named, self.named.known
        found = [
            (other.known, other.share, other)
            for other in self._others
            if other.is_alike and (other.known.carries - source.carries or other.share > named.share)
        ]
        if not found and named.is_unlike and not source.is_segmented:
            plain = (known for known in FORMATS if known.system == source.system and not known.carries)
            found = [(known, 1.0, named) for known in plain]
        return [
            (
                known,
                share,
                f"{counted.share:.1%} of the sampled records look like {counted.format}: "
                f"is the old store {known.id}, and not {source.id}?",
            )
            for known, share, counted in found
        ]


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
        if window.end_ms is not None and not 0 <= window.end_ms - window.start_ms <= _YEAR_MS:
            return False
    if history is not None:
        return _is_moment(history.valid_to_ms, now_ms)
    return timestamp is None or timestamp == UNKNOWN_TIME or _is_moment(timestamp, now_ms)


def _is_moment(milliseconds: int, now_ms: int) -> bool:
    return _OLDEST_MS <= milliseconds <= now_ms + _YEAR_MS
