"""Applications with windowed stores, and what is to be found in them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.views.view_types import QueryableStoreTypes
from migrate.queries.views.windowed_views import SessionView, WindowView
from tests.shared.windowed import MINUTE, make_segments, session_time

WINDOW, SESSION = "kafka-streams.window", "kafka-streams.session"


def stores_of(base: Path, definition: StoreDefinition) -> QueryableStores:
    """The store `win` of the application in `base`."""
    return QueryableStores.of_directory(base, {"win": definition})


def window_view(
    base: Path,
    records: Mapping[bytes, bytes],
    retention_ms: int | None = None,
    *,
    format: str = WINDOW,
    task: str = "0_0",
    segment_ms: int = MINUTE,
) -> WindowView:
    """A view of these records in the segments of their times."""
    make_segments(base / task / "win", records, segment_ms)
    definition = StoreDefinition(format, retention_ms=retention_ms, segment_ms=segment_ms, window_size_ms=10)
    return stores_of(base, definition).store("win", QueryableStoreTypes.window())


def session_view(base: Path, records: Mapping[bytes, bytes], retention_ms: int | None = None) -> SessionView:
    """The same of sessions."""
    make_segments(base / "0_0/win", records, MINUTE, time=session_time)
    definition = StoreDefinition(SESSION, retention_ms=retention_ms, segment_ms=MINUTE)
    return stores_of(base, definition).store("win", QueryableStoreTypes.session())


def in_order(
    records: Mapping[bytes, bytes], time: Callable[[bytes], int], wanted: Callable[[bytes], bool]
) -> list[bytes]:
    """The values of the records that are wanted: by segment, then by stored key."""
    return [records[key] for key in sorted(records, key=lambda key: (time(key) // MINUTE, key)) if wanted(key)]
