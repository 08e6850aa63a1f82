"""`/stores/{store}/all`: every record as a line of JSON, partition after partition and host after host.

The last line of a whole answer is `{"end": true, "records": N}`. An answer that broke off has an `error` in its last
line, or no such line: what came before it is not all there is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, aclosing, closing, suppress
from dataclasses import dataclass

from migrate.queries.json_values import json_bytes
from migrate.serve.context import Context, Placed
from migrate.serve.handles import Resolved
from migrate.serve.records import every_record
from migrate.serve.web.problems import Problem, problem_of
from migrate.serve.web.wire import NDJSON, Answer, Header, Receive, Request, Scope, Send, flag, send_body

_RECORDS, _BYTES = 500, 256 << 10
"""Pulled at a time: short enough for the point queries in between."""


class _Lines:
    """The records of this host as lines, some at a time; pulled in threads, one after the other."""

    def __init__(self, records: Generator[dict[str, object], None, None]) -> None:
        self._records = records
        self._pulling = threading.Lock()
        self.count = 0

    def pull(self) -> bytes:
        """The next lines; none: that was all."""
        lines: list[bytes] = []
        size = 0
        with self._pulling:
            for record in self._records:
                lines.append(json_bytes(record))
                size += len(lines[-1])
                if len(lines) >= _RECORDS or size >= _BYTES:
                    break
        self.count += len(lines)
        return b"\n".join([*lines, b""]) if lines else b""

    def close(self) -> None:
        """Close the store's iterator, after a pull that is under way."""
        with self._pulling, closing(self._records):
            pass


@dataclass
class Scan:
    """A streamed scan that has begun: an ASGI application of its own."""

    context: Context
    request: Request
    placed: Placed
    slot: ExitStack
    lines: _Lines
    first: bytes
    headers: tuple[Header, ...]
    elsewhere: int = 0
    """Records that other hosts have sent."""

    @classmethod
    async def begin(cls, context: Context, request: Request) -> Scan | Answer:
        """Read the first records, so that what is wrong from the start has a status of its own."""
        store = request.part(2)
        is_stale = flag(request.parameters(("stale",)), "stale")
        handle = context.handle(store)
        if request.scope["method"] == "HEAD":
            return Answer(b"", kind=NDJSON)

        placed = context.placed(store, request)

        def begun(resolved: Resolved) -> tuple[_Lines, bytes, tuple[Header, ...]]:
            own = context.own(resolved, placed, is_stale=is_stale)
            lines = _Lines(every_record(resolved.format, own.views.values()))
            return lines, lines.pull(), own.headers

        with ExitStack() as slot:
            slot.enter_context(context.scanning())
            lines, first, as_of = await handle.ask(begun)
            return cls(context, request, placed, slot.pop_all(), lines, first, as_of)

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines, and at last whether they were all."""
        gone = asyncio.create_task(_disconnected(receive))
        headers = [
            (b"content-type", NDJSON),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            *self.headers,
        ]
        try:
            with self.slot:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                last = await self._sent(send, gone)
            await send_body(send, json_bytes(last) + b"\n")
        finally:
            gone.cancel()
            self.context.metrics.streamed.inc(self.lines.count)
            with suppress(RuntimeError):  # the pool is shut down, and the process about to end
                self.context.pool.submit(self.lines.close)

    async def _sent(self, send: Send, gone: asyncio.Task[None]) -> dict[str, object]:
        """Send all lines but the last, and return that one."""
        seconds = self.context.limits.scan_seconds
        too_long = Problem(503, f"the scan took longer than {seconds:g} s", hint="read /range page by page")
        try:
            async with asyncio.timeout(seconds), aclosing(self._all_lines()) as every:
                async for lines in every:
                    with self.context.memory.holding(len(lines)):
                        await send_body(send, lines, is_last=False)
                    if gone.done():
                        return {"error": too_long.document}
        except TimeoutError:
            return {"error": too_long.document}
        except Exception as error:  # noqa: BLE001 - whatever it is, the stream must not look complete
            return {"error": problem_of(error).document}
        return {"end": True, "records": self.lines.count + self.elsewhere}

    async def _all_lines(self) -> AsyncGenerator[bytes, None]:
        """The lines of this host, then those of the others."""
        loop = asyncio.get_running_loop()
        lines = self.first
        while lines:
            yield lines
            lines = await loop.run_in_executor(self.context.pool, self.lines.pull)
        for host, partitions in self.placed.others.items():
            async with aclosing(self.context.forwarder.lines(host, self.request, partitions)) as found:
                async for lines, records in found:
                    self.elsewhere += records
                    if lines:
                        yield lines


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
