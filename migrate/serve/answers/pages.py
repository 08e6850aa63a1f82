"""`/stores/{store}/range`: the records of a range of keys, page by page: partition after partition, host after host."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import urlencode

from formats import Format
from formats.serde import BYTES
from formats.serdes.json_text import load_json, with_texts
from migrate.queries.json_values import as_json, json_bytes
from migrate.queries.open.partition import Opened
from migrate.queries.routing.hosts import HostInfo
from migrate.queries.views.composite import decoded
from migrate.serve.answers.keys import encoding_of, read_key
from migrate.serve.context import Context, Placed
from migrate.serve.forwarding import PAGE
from migrate.serve.handles import Resolved, SeenPartition
from migrate.serve.records import check_kind, records_in, type_of
from migrate.serve.web.wire import Answer, Header, Request, flag, whole_number

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
