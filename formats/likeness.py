"""Whether bytes look like a format: a hint for a person, never a reason to choose one."""

from __future__ import annotations

from formats.errors import EntryError
from formats.format import Format
from formats.record import StateRecord

_OLDEST_MS = 1_000_000_000_000
"""2001-09-09: no stream processor is older."""
_AHEAD_MS = 366 * 86_400_000


def leaves_marks(known: Format) -> bool:
    """Whether its records have anything to be known by; without it, any bytes look like it."""
    return "timestamp" in known.carries


def looks_like(known: Format, key: bytes, value: bytes, *, now_ms: int, is_named: bool = False) -> bool:
    """Whether it decodes, and what it carries makes sense: a timestamp that is unknown, or not long ago or ahead.

    A value that is nothing but a time is a number, a counter or a moment, unless the format `is_named` by the user.
    """
    try:
        record = known.decode(key, value)
    except EntryError:
        return False
    return (is_named or bool(record.value)) and _is_plausible(record, now_ms)


def _is_plausible(record: StateRecord, now_ms: int) -> bool:
    timestamp = record.timestamp_ms
    return timestamp is None or timestamp == -1 or _OLDEST_MS <= timestamp <= now_ms + _AHEAD_MS
