"""Stores of every kind, made by rocksdict alone, and the views of them."""

import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.views.composite import TimeWindow, Windowed
from migrate.queries.views.view_types import QueryableStoreTypes
from migrate.queries.views.windowed_views import SessionView, WindowView
from tests.shared.windowed import MINUTE, make_segments, session_time
from tests.support import Records, make_families, make_store

NAME = "orders"
PLACE = Path("0_0/rocksdb") / NAME


def key_value(base: Path, *partitions: Records, family: str = "default") -> Path:
    """An application's directory with a key-value or versioned store of these partitions."""
    for number, records in enumerate(partitions):
        folder = base / "app" / f"0_{number}" / "rocksdb"
        folder.mkdir(parents=True)
        make_families(folder / NAME, {family: records})
    return base / "app"


def segmented(base: Path, *partitions: Mapping[int, Records], family: str = "default") -> Path:
    """The same with a window or session store, whose records are given by the start of their segment."""
    for number, segments in enumerate(partitions):
        folder = base / "app" / f"0_{number}" / NAME
        folder.mkdir(parents=True)
        for start, records in segments.items():
            make_families(folder / f"{NAME}.{start}", {family: records})
    return base / "app"


def stores(app: Path, format: str, refresh: float = 0.5, **more: Any) -> QueryableStores:  # noqa: ANN401
    """The stores of an application, with one definition."""
    return QueryableStores.of_directory(app, {NAME: StoreDefinition(format, **more)}, refresh=refresh)


def replace_by(app: Path, records: Records) -> None:
    """Let another store take the place of the first partition's."""
    other = make_store(app.parent / "other", records)
    (app / PLACE).rename(app.parent / "aside")
    other.rename(app / PLACE)


WINDOW, SESSION = "kafka-streams.window", "kafka-streams.session"


def stores_of(base: Path, definition: StoreDefinition) -> QueryableStores:
    """The store `win` of the application in `base`."""
    return QueryableStores.of_directory(base, {"win": definition})


def latest(key: bytes, since: int, value: bytes) -> tuple[bytes, bytes]:
    """The newest version of a key in a versioned store."""
    return struct.pack(">q", -1) + key, struct.pack(">q", since) + value


def former(segment: int, key: bytes, ended: int, *versions: tuple[int, bytes | None]) -> tuple[bytes, bytes]:
    """Its former ones in a segment: since when and what, the newest first."""
    heads = b"".join(struct.pack(">qi", since, -1 if value is None else len(value)) for since, value in versions)
    values = b"".join(value or b"" for _, value in reversed(versions))
    return struct.pack(">q", segment) + key, struct.pack(">qq", ended, versions[-1][0]) + heads + values


def found(iterator: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Key, times and value of each result, as far as it has them, in one row."""
    return [tuple(_flat(each)) for each in iterator]


def _flat(each: Any) -> Iterable[Any]:  # noqa: ANN401
    for part in each:
        if isinstance(part, Windowed | TimeWindow):
            yield from _flat(part)
        else:
            yield part


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
