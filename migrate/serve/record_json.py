"""The records of each kind of store as JSON objects, and the views that they are read through.

| store     | a record                                                                 |
|-----------|--------------------------------------------------------------------------|
| key-value | `key`, `value`, and `timestamp` where the format has one                 |
| window    | the same, and `window` with its `start` and `end`                        |
| session   | `key`, `value`, and `window`: the times of its first and its last record |
| versioned | `key`, `value`, `timestamp` and `valid_to`, null for the newest          |

Times are milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from formats import Format
from formats.layout import TIMESTAMP
from migrate.queries.json_values import as_json
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.views.composite import ValueAndTimestamp, VersionedRecord
from migrate.queries.views.key_value_view import KeyValueView
from migrate.queries.views.view_types import QueryableStoreType
from migrate.queries.views.view_types import QueryableStoreTypes as Types
from migrate.queries.views.windowed_views import MAX_TIME, SessionView, WindowView
from migrate.serve.http_messages import Problem

Json = dict[str, object]
ReadTimes = Callable[[StoreDefinition, Any, Any, int, int], Generator[Json]]
"""From definition, view, key and the bounds of time to records."""
_ENDPOINTS = {
    "key-value": "keys, range, all",
    "versioned": "keys",
    "window": "windows, all",
    "session": "sessions, all",
}


def type_of(format_: Format) -> QueryableStoreType[Any]:
    """The type that tells most of a store of this format."""
    has_times = TIMESTAMP in format_.carries
    types: dict[str, Callable[[], QueryableStoreType[Any]]] = {
        "key-value": Types.timestamped_key_value if has_times else Types.key_value,
        "window": Types.timestamped_window if has_times else Types.window,
        "session": Types.session,
        "versioned": Types.versioned,
    }
    return types[format_.kind]()


def check_kind(format_: Format, *kinds: str) -> None:
    """Raises Problem where a store of another kind is asked."""
    if format_.kind not in kinds:
        what = f"the store is a {format_.kind} store, of {format_.id}, which cannot be asked so"
        raise Problem(400, what, hint=f"ask its {_ENDPOINTS[format_.kind]}", error="InvalidStateStoreError")


def record_of(format_: Format, view: Any, key: object, as_of: int | None) -> Json | None:  # noqa: ANN401
    """The record of a key, or the one that was valid at a time; None: there is none. Raises Problem."""
    check_kind(format_, "key-value", "versioned")
    # In the middle of a switch some partitions may be of the other kind.
    if as_of is not None and any(isinstance(each, KeyValueView) for each in getattr(view, "views", [view])):
        raise Problem(400, "as_of asks a versioned store, and this is a key-value store", hint="leave it out")
    found = view.get(key) if as_of is None else view.get(key, as_of)
    if isinstance(found, VersionedRecord):
        times = {"timestamp": found.timestamp, "valid_to": found.valid_to}
        return {"key": as_json(key), "value": as_json(found.value), **times}
    return None if found is None else _key_value(key, found)


def records_in(
    format_: Format, view: KeyValueView, low: object, high: object, *, is_reverse: bool
) -> Generator[tuple[Any, Json]]:
    """(key, record) of each key from `low` to `high`, both included; None: unbounded. Raises Problem."""
    check_kind(format_, "key-value")
    with view.reverse_range(low, high) if is_reverse else view.range(low, high) as found:
        for key, value in found:
            yield key, _key_value(key, value)


def every_record(format_: Format, views: Iterable[Any]) -> Generator[Json]:
    """Every record of these views. Raises Problem."""
    check_kind(format_, "key-value", "window", "session")
    for view in views:
        if format_.kind == "key-value":
            for _, record in records_in(format_, view, None, None, is_reverse=False):
                yield record
        else:
            with view.all() as found:
                for windowed, value in found:
                    yield _windowed(windowed.key, windowed.window.start, windowed.window.end, value)


def windows_of(definition: StoreDefinition, view: WindowView, key: object, start: int, end: int) -> Generator[Json]:
    """The windows of a key that start in a range of time. Raises Problem."""
    size = definition.window_size_ms
    check_kind(definition.stored, "window")
    with view.fetch(key, start, end) as found:
        for began, value in found:
            yield _windowed(key, began, None if size is None else min(began + size, MAX_TIME), value)


def sessions_of(definition: StoreDefinition, view: SessionView, key: object, start: int, end: int) -> Generator[Json]:
    """The sessions of a key that end at `start` or later and start at `end` or earlier. Raises Problem."""
    check_kind(definition.stored, "session")
    with view.find_sessions(key, start, end) as found:
        for windowed, value in found:
            yield _windowed(key, windowed.window.start, windowed.window.end, value)


def _key_value(key: object, value: Any) -> Json:  # noqa: ANN401
    if isinstance(value, ValueAndTimestamp):
        return {"key": as_json(key), "value": as_json(value.value), "timestamp": value.timestamp}
    return {"key": as_json(key), "value": as_json(value)}


def _windowed(key: object, start: int, end: int | None, value: Any) -> Json:  # noqa: ANN401
    return _key_value(key, value) | {"window": {"start": start, "end": end}}
