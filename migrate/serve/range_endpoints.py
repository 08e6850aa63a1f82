"""`/stores/{store}/range`: the records of a range of keys, page by page: partition after partition, host after host."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, aclosing, closing, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import urlencode

from formats import Format
from formats.serde import BYTES
from formats.serdes.json_text import load_json, with_texts
from migrate.queries.json_values import as_json, json_bytes
from migrate.queries.key_routing import HostInfo
from migrate.queries.open.partition import Opened
from migrate.queries.views.composite import decoded
from migrate.serve.forwarding import PAGE
from migrate.serve.http_messages import (
    NDJSON,
    Answer,
    Header,
    Problem,
    Receive,
    Request,
    Scope,
    Send,
    flag,
    problem_of,
    send_body,
    whole_number,
)
from migrate.serve.key_endpoints import encoding_of, read_key
from migrate.serve.record_json import check_kind, every_record, records_in, type_of
from migrate.serve.serve_context import Context, Placed
from migrate.serve.served_stores import Resolved, SeenPartition

_ROWS = 100


_NAMES = ("from", "to", "limit", "cursor", "reverse", "encoding", "stale")


class _Place(NamedTuple):
    """Where a page begins, as its cursor holds it."""

    host: str = ""
    """Empty: this one."""
    number: int = 0
    """How many partitions lie before it."""
    after: str | None = None
    """The serialized key of the last record before it, in base64; another host's own cursor; None: the beginning."""


async def page(context: Context, request: Request) -> Answer:
    """One page: `records`, and the `cursor` of the next page, null at the end."""
    store, given = request.part(2), request.parameters(_NAMES)
    encoding_of(given)
    handle = context.handle(store)
    asked = _Page(context, request, store, given, context.placed(store, request))
    with context.scanning():
        found = await handle.ask(asked.read)
    return found if isinstance(found, Answer) else await asked.of_host(found, handle.generation)


def _with_bytes(opened: Opened) -> Opened:
    """With keys as they are stored: a page goes on behind one, however it was spelled."""
    return replace(opened, format=replace(opened.format, key_serde=BYTES))


@dataclass(frozen=True, slots=True)
class _Page:
    context: Context
    request: Request
    store: str
    given: dict[str, str]
    placed: Placed

    def read(self, resolved: Resolved) -> Answer | _Place:
        """The page, or its place where another host has it."""
        place = self._place(resolved.generation)
        if place.host:
            return place
        limit = whole_number(self.given, "limit", _ROWS, smallest=1, largest=self.context.limits.rows)
        records: list[bytes] = []
        size, last = 0, place
        own = self.context.own(resolved, self.placed, is_stale=flag(self.given, "stale"))
        for number, key, record in self._records(resolved, own.views.keys(), place):
            if len(records) >= limit or size >= self.context.limits.answer_bytes:
                return self._answer(records, last, resolved.generation, own.headers)
            records.append(json_bytes(record))
            size += len(records[-1])
            last = _Place("", number, base64.b64encode(key).decode())
        return self._answer(records, self._next_host(""), resolved.generation, own.headers)

    async def of_host(self, place: _Place, generation: int) -> Answer:
        """The page that another host has, with a cursor of this one."""
        host = HostInfo.parse(place.host)
        given = {name: text for name, text in self.given.items() if name != "cursor"}
        query = urlencode(given if place.after is None else given | {"cursor": place.after}).encode()
        request, partitions = self.request.with_query(query), self.placed.others[host]
        found = await self.context.forwarder.ask([host], request, PAGE, partitions)
        return found if found.status != 200 else await asyncio.to_thread(self._with_cursor, found, place, generation)

    def _with_cursor(self, found: Answer, place: _Place, generation: int) -> Answer:
        answer = with_texts(load_json(found.body.decode()))
        after = answer["cursor"]
        following = self._next_host(place.host) if after is None else _Place(place.host, 0, after)
        records = [json_bytes(record) for record in answer["records"]]
        return self._answer(records, following, generation, found.headers)

    def _records(
        self, resolved: Resolved, numbers: AbstractSet[int | None], place: _Place
    ) -> Iterator[tuple[int, bytes, dict[str, object]]]:
        """(how many partitions lie before, serialized key, record) from a place on."""
        check_kind(resolved.format, "key-value")
        is_reverse = flag(self.given, "reverse")
        here = [each for each in resolved.partitions if each.number in numbers]
        for number, partition in enumerate(here[place.number :], place.number):
            known = partition.opened().format
            low, high = (self._bound(resolved, known, name) for name in ("from", "to"))
            after = base64.b64decode(place.after) if place.after is not None and number == place.number else None
            if after is not None:
                low, high = (low, after) if is_reverse else (after, high)
            view = type_of(known).view(resolved.name, [SeenPartition(partition, _with_bytes)], resolved.definition)
            for key, record in records_in(known, view, low, high, is_reverse=is_reverse):
                if key != after:
                    yield number, key, record | {"key": as_json(decoded(known.key_serde, key, key))}

    def _bound(self, resolved: Resolved, known: Format, name: str) -> bytes | None:
        text = self.given.get(name)
        return None if text is None else known.key_serde.encode(read_key(resolved.definition, text, self.given))

    @property
    def _asked(self) -> str:
        return json.dumps([self.store, *(self.given.get(name) for name in ("from", "to", "reverse", "encoding"))])

    def _place(self, generation: int) -> _Place:
        cursor = self.given.get("cursor")
        if cursor is None:
            return _Place()
        return _Place(*self.context.cursors.unseal(cursor, self._asked, self._made_of(generation)))

    def _made_of(self, generation: int) -> str:
        return f"{generation} {self.placed.text}"

    def _next_host(self, host: str) -> _Place | None:
        """The place after the last record of a host."""
        names = ["", *map(str, self.placed.others), None]
        following = names[names.index(host) + 1]
        return None if following is None else _Place(following)

    def _answer(
        self, records: list[bytes], following: _Place | None, generation: int, headers: tuple[Header, ...]
    ) -> Answer:
        made_of = self._made_of(generation)
        cursor = None if following is None else self.context.cursors.seal(self._asked, made_of, following)
        body = b'{"records":[' + b",".join(records) + b'],"cursor":' + json_bytes(cursor) + b"}"
        return Answer(body, headers=headers)


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
