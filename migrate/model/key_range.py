"""Half-open key ranges, and their subtraction, by which a run resumes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from migrate.model.values import Stored


class KeyRange(Stored):
    """The keys in [start, end), in byte order; None: unbounded."""

    start: bytes | None = None
    end: bytes | None = None

    def __str__(self) -> str:
        return f"[{_show(self.start, 'first')}, {_show(self.end, 'end')})"

    def __contains__(self, key: bytes) -> bool:
        return (self.start is None or key >= self.start) and (self.end is None or key < self.end)

    @property
    def is_empty(self) -> bool:
        return self.end is not None and (self.start or b"") >= self.end


def subtract(whole: KeyRange, done: Iterable[KeyRange]) -> list[KeyRange]:
    """The parts of `whole` that no range in `done` covers, in order."""
    left = []
    start = whole.start
    for part in sorted((part for part in done if not part.is_empty), key=lambda part: part.start or b""):
        end = part.start or b""
        gap = KeyRange(start=start, end=end if whole.end is None else min(end, whole.end))
        if not gap.is_empty:
            left.append(gap)
        if part.end is None:
            return left
        start = max(start or b"", part.end)
    rest = KeyRange(start=start, end=whole.end)
    return left if rest.is_empty else [*left, rest]


def tiling_flaw(ranges: Sequence[KeyRange]) -> str | None:
    """Why ranges in key order do not cover every possible key exactly once; None: they do."""
    if not ranges:
        return "are missing"
    if ranges[0].start is not None:
        return f"start at {show_key(ranges[0].start)}, not at the first possible key"
    for before, after in pairwise(ranges):
        if before.end is None or after.start is None or before.end != after.start:
            word = "leave a gap" if before.end is not None and before.end < (after.start or b"") else "overlap"
            return f"{word} between {before} and {after}"
    if ranges[-1].end is not None:
        return f"end at {show_key(ranges[-1].end)}, not after the last possible key"
    empty = next((each for each in ranges if each.is_empty), None)
    return None if empty is None else f"include an empty one, {empty}"


def _show(key: bytes | None, unbounded: str) -> str:
    return unbounded if key is None else show_key(key)


def show_key(key: bytes) -> str:
    """A key for messages: as text if it is printable, else in hex, cut to 64 bytes."""
    head = key[:64]
    more = "..." if len(key) > 64 else ""
    text = head.decode("ascii", "replace")
    return f'"{text}{more}"' if text.isprintable() and "\ufffd" not in text else f"0x{head.hex()}{more}"
