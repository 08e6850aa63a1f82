"""One record before and after, as a person reads it."""

from __future__ import annotations

from datetime import UTC, datetime

from formats import EntryError, Format
from migrate.dry_run.report import BeforeAfter
from migrate.showing import shown

Entry = tuple[bytes, bytes]
"""A key and its value, as they lie in a store."""


def before_after(store_partition: str, old: Entry, new: Entry, target: Format) -> BeforeAfter:
    """Both, and what the new one carries beside its payloads."""
    return BeforeAfter(
        store_partition=store_partition,
        key=shown(old[0]),
        value=shown(old[1]),
        new_key=shown(new[0]),
        new_value=shown(new[1]),
        fields=_carried(*new, target),
    )


def _carried(key: bytes, value: bytes, target: Format) -> tuple[tuple[str, str], ...]:
    try:
        record = target.decode(key, value)
    except EntryError:
        return ()
    return () if record.timestamp_ms is None else (("timestamp", timestamp_in_words(record.timestamp_ms)),)


def timestamp_in_words(milliseconds: int) -> str:
    """The number, and the moment where it is one."""
    if milliseconds == -1:
        return "-1 (unknown)"
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} (no moment that a calendar has)"
    return f"{milliseconds} = {moment:%Y-%m-%d %H:%M:%S} UTC"
