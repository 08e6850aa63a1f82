"""What a store must hold after writes, after a migration to another kind, and with another retention."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from tests.live.kafka_streams.events import Event, Headers, Row
from tests.live.kafka_streams.kinds import KINDS, RETENTION_MS, Kind, segment_interval

UNKNOWN_TIMESTAMP = -1

_Slot: TypeAlias = tuple[bytes, int | None, int | None, int | None]


def rows_after(
    kind: str, events: Iterable[Event], *, retention_ms: int = RETENTION_MS, before: Iterable[Row] = ()
) -> list[Row]:
    """Return what a store of a kind holds after the events, in a store that held the rows before."""
    held = KINDS[kind]
    if held.shape == "versioned":
        return _versions_after(events, retention_ms, before)
    if held.segmented:
        return _segmented_after(held, events, retention_ms, before)
    rows = {row.key: row for row in before}
    for event in events:
        if event.value is None and not event.read:
            rows.pop(event.key, None)
        elif not event.read:
            rows[event.key] = _kept(held, event)
    return [rows[key] for key in sorted(rows)]


def rows_as(
    kind: str, rows: Iterable[Row], *, timestamp: int | None = None, retention_ms: int | None = None
) -> list[Row]:
    """Return what a store of another kind holds after a migration of these rows, or if simply opened as that kind.

    `timestamp` is that of records without one; with a retention, older segments than it allows are gone.
    """
    held = KINDS[kind]
    unknown = UNKNOWN_TIMESTAMP if timestamp is None else timestamp
    given = list(rows)
    if held.shape == "key-value":
        given = [row for row in _latest(given) if row.value is not None]
    converted = [
        replace(
            row,
            timestamp=(unknown if row.timestamp is None else row.timestamp) if held.timestamped else None,
            headers=(row.headers or ()) if held.headers else None,
        )
        for row in given
    ]
    if retention_ms is None or held.shape == "key-value":
        return converted
    return _readable(converted, retention_ms) if held.shape == "versioned" else _live(converted, retention_ms)


def _kept(kind: Kind, event: Event, sequence: int | None = None) -> Row:
    headers: Headers | None = event.headers if kind.headers else None
    timestamp = event.timestamp if kind.timestamped else None
    return Row(event.key, event.value, timestamp, headers, event.start, event.end, sequence)


def _time(row: Row | Event) -> int:
    """Return the time that decides the segment: a window's start, a session's end."""
    time = row.start if row.end is None else row.end
    assert time is not None
    return time


def _segmented_after(kind: Kind, events: Iterable[Event], retention_ms: int, before: Iterable[Row]) -> list[Row]:
    interval = segment_interval(retention_ms)
    rows: dict[_Slot, Row] = {(row.key, row.start, row.end, row.sequence): row for row in before}
    stream_time, first_live, sequence = -1, 0, 0
    for event in events:
        if event.read:
            continue
        stream_time = max(stream_time, _time(event))
        if kind.duplicates:
            sequence += 1
        slot = (event.key, event.start, event.end, sequence if kind.duplicates else None)
        if event.value is None:
            rows.pop(slot, None)
        if event.value is None and kind.shape == "session":
            continue  # which does not make segments expire
        oldest = (stream_time - retention_ms) // interval
        if oldest > first_live:
            first_live = oldest
            rows = {slot: row for slot, row in rows.items() if _time(row) // interval >= first_live}
        if event.value is not None and _time(event) // interval >= first_live:
            rows[slot] = _kept(kind, event, slot[3])
    return sorted(rows.values(), key=_order)


def _order(row: Row) -> tuple[bytes, int, int]:
    return row.key, _time(row), row.sequence or 0


def _live(rows: list[Row], retention_ms: int) -> list[Row]:
    interval = segment_interval(retention_ms)
    newest = max((_time(row) for row in rows), default=0)
    return [row for row in rows if _time(row) // interval >= (newest - retention_ms) // interval]


def _versions_after(events: Iterable[Event], retention_ms: int, before: Iterable[Row]) -> list[Row]:
    versions = {(row.key, row.timestamp or 0): row for row in before}
    stream_time = -1
    for event in events:
        if event.read or event.timestamp < stream_time - retention_ms:
            continue
        stream_time = max(stream_time, event.timestamp)
        versions[event.key, event.timestamp] = Row(event.key, event.value, event.timestamp)
    return _readable([versions[slot] for slot in sorted(versions)], retention_ms)


def _readable(versions: list[Row], retention_ms: int) -> list[Row]:
    """Leave out versions that ended before the retention; the latest of a key never does."""
    oldest = max((row.timestamp or 0 for row in versions), default=0) - retention_ms
    after: list[Row | None] = [*versions[1:], None]
    return [
        row
        for row, later in zip(versions, after, strict=True)
        if later is None or later.key != row.key or (later.timestamp or 0) >= oldest
    ]


def _latest(rows: list[Row]) -> list[Row]:
    """Return the latest version of each key of a versioned store; other rows have but one."""
    latest: dict[bytes, Row] = {}
    for row in rows:
        latest[row.key] = row
    return list(latest.values())
