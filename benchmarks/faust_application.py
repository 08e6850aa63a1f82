"""The job of `benchmarks.faust`: one life of an application of Faust, and what a message of it costs."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.rounds import seconds, seconds_since

Facts = dict[str, Any]
_NEVER = 1e9
_MOST = 0.99
"""Of the messages: Faust may skip one where messages wait while it recovers."""


def faust_application(
    *, bootstrap: str, topic: str, group: str, folder: str, code: str, messages: int, converges: bool = True
) -> Facts:
    """Of so many messages. `code`: old, new or dual. `converges`: else the adapter moves nothing by itself."""

    async def live() -> Facts:
        import faust  # here: other jobs do without it

        app = faust.App(
            group,
            broker=f"kafka://{bootstrap}",
            store="rocksdb://",
            datadir=f"{folder}-{group}",
            topic_partitions=2,
            web_enabled=False,
        )
        table = _table(app, code, converges=converges)
        begun: list[dict[str, float]] = []
        handled, done = 0, asyncio.Event()

        totals = app.topic(f"{topic}-totals", key_type=bytes, key_serializer="raw")

        @app.agent(app.topic(topic, key_type=bytes, key_serializer="raw"))
        async def add(stream: Any) -> None:  # noqa: ANN401 - of Faust
            nonlocal handled
            async for key, value in stream.items():
                if not begun:
                    begun.append(seconds())
                _add(table, key, value["amount"], is_new=code != "old")
                await totals.send(key=key, value=table[key])
                handled += 1
                if handled == round(_MOST * messages):
                    done.set()

        await app.start()
        await done.wait()
        for _ in range(3):  # old copies go after the new ones
            await app.producer.flush()
            await asyncio.sleep(0.1)
        spent = seconds_since(begun[0])
        await app.stop()
        return {"seconds": spent, "moved": table.progress.moved_by_write if code == "dual" else 0}

    return asyncio.run(live())


def _table(app: Any, code: str, *, converges: bool) -> Any:  # noqa: ANN401 - of Faust
    from migrate.processors.faust import DualTable

    name = "numbers" if code == "old" else "totals"
    table = app.Table(name, key_type=bytes, partitions=2)
    if code != "dual":
        return table
    old = app.Table("numbers", key_type=bytes, partitions=2)
    pace: dict[str, Any] = {} if converges else {"interval": _NEVER}
    return DualTable(table, old, lambda number: {"sum": number}, **pace)


def _add(table: Any, key: bytes, number: int, *, is_new: bool) -> None:  # noqa: ANN401 - of Faust
    if is_new:
        table[key] = {"sum": table.get(key, {"sum": 0})["sum"] + number}
    else:
        table[key] = table.get(key, 0) + number


JOBS = {"faust": faust_application}
