"""A real application of Faust, in a process of its own: `python -m tests.live.faust.program SETTINGS`.

It keeps the last value of each key in a table. `SETTINGS` is JSON of `Settings`. It reads commands, a line each, from
its standard input, and answers with JSON on its standard output.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import faust

from migrate.processors.faust import DualTable

PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class Settings:
    """A version of the application, where it runs and what its table is."""

    bootstrap: str
    name: str
    datadir: Path
    table: str = "counts"
    is_new: bool = False
    """The version whose values are objects `{"sum": n}`; else they are numbers."""
    old_table: str | None = None
    """The table whose values show through the adapter."""
    per_checkpoint: int = 10
    """How fast the adapter moves them: so slowly that a kill comes in the middle."""

    @property
    def input(self) -> str:
        return f"{self.name}-input"

    @property
    def changelog(self) -> str:
        return f"{self.name}-{self.table}-changelog"

    @property
    def home(self) -> Path:
        """The application's directory."""
        return self.datadir / "v1"

    def next_version(self, table: str) -> Settings:
        """The version with the new values, and this table."""
        return replace(self, table=table, is_new=True)

    def with_adapter(self, table: str) -> Settings:
        """The same, which reads both tables."""
        return replace(self.next_version(table), old_table=self.table)

    def without_adapter(self) -> Settings:
        """The plain new code."""
        return replace(self, old_table=None)

    def elsewhere(self) -> Settings:
        """The same on another host, where it finds no state."""
        return replace(self, datadir=self.datadir.with_name(f"{self.datadir.name}-{token_hex(4)}"))

    def text(self) -> str:
        """As the program reads them."""
        return json.dumps(asdict(self) | {"datadir": str(self.datadir)})


def say(event: str, **facts: Any) -> None:  # noqa: ANN401 - of JSON
    """Tell the test."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def made_table(app: faust.App, settings: Settings, **options: Any) -> Any:  # noqa: ANN401 - of Faust
    """The application's table, or the adapter in its place."""
    table = app.Table(settings.table, key_type=str, partitions=PARTITIONS, **options)
    if settings.old_table is None:
        return table
    old = app.Table(settings.old_table, key_type=str, partitions=PARTITIONS, **options)
    pace = settings.per_checkpoint
    return DualTable(table, old, lambda number: {"sum": number}, interval=0.05, per_checkpoint=pace)


def application(settings: Settings) -> tuple[faust.App, Any]:
    """The application and its table, as its authors would write them."""
    app = faust.App(
        settings.name,
        broker=f"kafka://{settings.bootstrap}",
        store="rocksdb://",
        datadir=str(settings.datadir),
        topic_partitions=PARTITIONS,
        web_enabled=False,
        broker_session_timeout=6.0,
        broker_heartbeat_interval=1.0,
        stream_wait_empty=False,
    )
    restored = 0

    async def count(event: Any) -> None:  # noqa: ANN401 - of Faust
        nonlocal restored
        restored += 1

    table = made_table(app, settings, on_changelog_event=count)
    topic = app.topic(settings.input, key_type=str, value_type=bytes, value_serializer="raw")

    @app.agent(topic)
    async def keep(stream: Any) -> None:  # noqa: ANN401 - of Faust
        async for key, value in stream.items():
            before = table.get(key)
            if before is not None and isinstance(before, dict) != settings.is_new:
                say("failed", why=f"{key} has the value {before!r}, which this version does not know")
            if value == b"delete":
                del table[key]
            else:
                table[key] = {"sum": int(value)} if settings.is_new else int(value)

    async def ready() -> None:
        say("recovered", restored=restored)

    table.on_recover(ready)

    return app, table


async def serve(settings: Settings) -> None:
    """Run until the test says that it is enough."""
    app, table = application(settings)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands),
        open(0, "rb"),  # noqa: SIM115
    )
    await app.start()
    while (command := (await commands.readline()).decode().strip()) not in ("", "stop"):
        assert command == "dump"
        say("dumped", content=dict(table.items()), is_converged=getattr(table, "is_converged", None))
    await app.stop()
    say("stopped")


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    asyncio.run(serve(Settings(**given | {"datadir": Path(given["datadir"])})))
