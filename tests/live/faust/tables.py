"""Tables that the real Faust writes, without a broker."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import faust
from faust.events import Event
from faust.streams import _current_event
from faust.types import TP
from faust.types.tuples import Message

Rows = Mapping[Any, Any]


@contextmanager
def event_in(app: faust.App, partition: int) -> Iterator[None]:
    """Within it tables are used as by an agent that handles an event of this partition."""
    message = Message("events", partition, 0, 0.0, 0, None, None, None, None)
    event = Event(app, None, None, None, message)
    token = _current_event.set(weakref.ref(event))
    try:
        yield
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
                    with event_in(app, partition):
                        store[key if each is None else (key, each)] = value
        for partition, offset in (offsets or {}).items():
            store.set_persisted_offset(TP(f"shop-{name}-changelog", partition), offset)
        await store.stop()

    asyncio.run(written())
    return datadir / "v1"
