"""The records of a range of keys, page by page, and every record as a line of JSON.

Both go through one partition after the other, and one host after the other. The last line of a whole scan is
`{"end": true, "records": N}`. One that broke off has an `error` in its last line, or no such line: what came before it
is not all there is.
"""

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

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from formats import Format
from formats.serde import BYTES
from formats.serdes.json_text import load_json, with_texts
from migrate.queries.json_values import as_json, json_bytes
from migrate.queries.key_routing import HostInfo
from migrate.queries.open.partition import Opened
from migrate.queries.views.composite import decoded
from migrate.serve.forwarding import PAGE, kept
from migrate.serve.http_messages import JSON, NDJSON, Problem, flag, parameters, problem_of, send_body, whole_number
from migrate.serve.key_endpoints import encoding_of, read_key
from migrate.serve.record_json import check_kind, every_record, records_in, type_of
from migrate.serve.serve_context import Placed, ServeContext
from migrate.serve.served_stores import ResolvedStore, SeenPartition

_ROWS = 100
_NAMES = ("from", "to", "limit", "cursor", "reverse", "encoding", "stale")
_RECORDS, _BYTES = 500, 256 << 10
"""Of a scan, pulled at a time: short enough for the point queries in between."""


class _Place(NamedTuple):
    """Where a page begins, as its cursor holds it."""

    host: str = ""
    """Empty: this one."""
    number: int = 0
    """How many partitions lie before it."""
    after: str | None = None
    """The serialized key of the last record before it, in base64; another host's own cursor; None: the beginning."""


async def page(context: ServeContext, request: Request) -> Response:
    """`/stores/{store}/range`: `records`, and the `cursor` of the next page, null at the end."""
    store, given = request.path_params["store"], parameters(request, _NAMES)
    encoding_of(given)
    handle = context.handle(store)
    asked = _Page(context, request, store, given, context.placed(store, request))
    with context.scanning():
        found = await handle.ask(asked.read)
    return found if isinstance(found, Response) else await asked.of_host(found, handle.generation)


def _with_bytes(opened: Opened) -> Opened:
    """With keys as they are stored: a page continues after a key in its stored form."""
    return replace(opened, format=replace(opened.format, key_serde=BYTES))


@dataclass(frozen=True, slots=True)
class _Page:
    context: ServeContext
    request: Request
    store: str
    given: dict[str, str]
    placed: Placed

    def read(self, resolved: ResolvedStore) -> Response | _Place:
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

    async def of_host(self, place: _Place, generation: int) -> Response:
        """The page that another host has, with a cursor of this one."""
        host = HostInfo.parse(place.host)
        given = {name: text for name, text in self.given.items() if name != "cursor"}
        query = urlencode(given if place.after is None else given | {"cursor": place.after}).encode()
        request = Request({**self.request.scope, "query_string": query})
        found = await self.context.forwarder.ask([host], request, PAGE, self.placed.others[host])
        return (
            found if found.status_code != 200 else await asyncio.to_thread(self._with_cursor, found, place, generation)
        )

    def _with_cursor(self, found: Response, place: _Place, generation: int) -> Response:
        answer = with_texts(load_json(bytes(found.body).decode()))
        after = answer["cursor"]
        following = self._next_host(place.host) if after is None else _Place(place.host, 0, after)
        records = [json_bytes(record) for record in answer["records"]]
        return self._answer(records, following, generation, kept(found.headers))

    def _records(
        self, resolved: ResolvedStore, numbers: AbstractSet[int | None], place: _Place
    ) -> Iterator[tuple[int, bytes, dict[str, object]]]:
        """(how many partitions lie before, serialized key, record) from a place on."""
        check_kind(resolved.definition.stored, "key-value")
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

    def _bound(self, resolved: ResolvedStore, known: Format, name: str) -> bytes | None:
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
        self, records: list[bytes], following: _Place | None, generation: int, headers: dict[str, str]
    ) -> Response:
        made_of = self._made_of(generation)
        cursor = None if following is None else self.context.cursors.seal(self._asked, made_of, following)
        parts = b",".join(records), json_bytes(cursor)
        return Response(b'{"records":[%b],"cursor":%b}' % parts, headers=headers, media_type=JSON)


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


async def all_records(context: ServeContext, request: Request) -> Response | ScanStream:
    """`/stores/{store}/all`: reads the first records, so that what is wrong from the start has a status of its own."""
    store = request.path_params["store"]
    is_stale = flag(parameters(request, ("stale",)), "stale")
    handle = context.handle(store)
    if request.method == "HEAD":
        return Response(media_type=NDJSON)
    placed = context.placed(store, request)

    def begun(resolved: ResolvedStore) -> tuple[_Lines, bytes, dict[str, str]]:
        own = context.own(resolved, placed, is_stale=is_stale)
        lines = _Lines(every_record(resolved.definition.stored, own.views.values()))
        return lines, lines.pull(), own.headers

    with ExitStack() as slot:
        slot.enter_context(context.scanning())
        lines, first, headers = await handle.ask(begun)
        return ScanStream(context, request, placed, slot.pop_all(), lines, first, headers)


@dataclass
class ScanStream:
    """A streamed scan that has begun: an ASGI application of its own."""

    context: ServeContext
    request: Request
    placed: Placed
    slot: ExitStack
    lines: _Lines
    first: bytes
    headers: dict[str, str]
    elsewhere: int = 0
    """Records that other hosts have sent."""
    status_code = 200

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines, and at last whether they were all."""
        gone = asyncio.create_task(_disconnected(receive))
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", **self.headers}
        start = Response(headers=headers, media_type=NDJSON)
        del start.headers["content-length"]
        limits = self.context.limits
        try:
            with self.slot:
                await send({"type": "http.response.start", "status": self.status_code, "headers": start.raw_headers})
                last = await self._sent(send, gone)
            with suppress(TimeoutError):  # of a client that reads nothing: then the connection is closed
                async with asyncio.timeout(limits.answer_seconds):
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
