"""Tables that the real Faust writes, without a broker."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import faust
from faust.events import Event
from faust.streams import _current_event
from faust.types import TP
from faust.types.tuples import Message

Rows = Mapping[Any, Any]


def in_an_event(app: faust.App, partition: int, write: Callable[[], None]) -> None:
    """Do it as an agent would that handles an event of this partition."""
    message = Message("input", partition, 0, 1000.0, 0, None, None, None, None)
    event = Event(app, None, None, {}, message)
    token = _current_event.set(weakref.ref(event))
    try:
        write()
    finally:
        _current_event.reset(token)


def make_table(
    datadir: Path,
    name: str,
    content: Mapping[int, Rows],
    *,
    offsets: Mapping[int, int] | None = None,
    window: timedelta | None = None,
    **settings: Any,  # noqa: ANN401 - of Faust
) -> Path:
    """Write these rows, by partition, and these offsets; the application's directory.

    `window`: of a tumbling one, whose values are those of this time.
    """

    async def written() -> None:
        app = faust.App("shop", store="rocksdb://", datadir=str(datadir))
        table: Any = app.Table(name, partitions=max(content) + 1, **settings)
        store = table.data
        ranges = [None] if window is None else [table.tumbling(window).table.window.ranges(1_767_225_600.0)[0]]
        for partition, rows in content.items():
            store._db_for_partition(partition)  # it is made where the partition is assigned, whatever is in it
            for key, value in rows.items():
                for each in ranges:
                    stored = key if each is None else (key, each)
                    in_an_event(app, partition, lambda: store.__setitem__(stored, value))  # noqa: B023 - at once
        for partition, offset in (offsets or {}).items():
            store.set_persisted_offset(TP(f"shop-{name}-changelog", partition), offset)
        await store.stop()

    asyncio.run(written())
    return datadir / "v1"
