"""What views and queries return, under Kafka Streams' names. Times are milliseconds since the epoch."""

from __future__ import annotations

from typing import Any, NamedTuple

from formats import Headers


class KeyValue(NamedTuple):
    """A record of a key-value store."""

    key: Any
    value: Any


class ValueAndTimestamp(NamedTuple):
    """A value and the time of the record that wrote it; -1: unknown."""

    value: Any
    timestamp: int


class ValueTimestampHeaders(NamedTuple):
    """The same with the record's headers."""

    value: Any
    timestamp: int
    headers: Headers


class TimeWindow(NamedTuple):
    """A window, or the times of a session's first and last record."""

    start: int
    end: int | None
    """Exclusive for a window, inclusive for a session; None: a window whose size is not known."""


class Windowed(NamedTuple):
    """A key and its window or session."""

    key: Any
    window: TimeWindow


class VersionedRecord(NamedTuple):
    """A version of a key's value."""

    value: Any
    timestamp: int
    """Since when it holds."""
    valid_to: int | None = None
    """Until when; None: it is the newest."""
