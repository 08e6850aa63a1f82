"""`/stores/{store}/range`: the records of a range of keys, page by page: partition after partition, host after host."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from migrate.queries.json_values import json_bytes
from migrate.serve.answers.keys import read_key
from migrate.serve.context import Context
from migrate.serve.handles import Resolved
from migrate.serve.records import records_in
from migrate.serve.web.problems import Problem
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
    asked = _Page(context, request, request.part(2), request.parameters(_NAMES))
    handle = context.handle(asked.store)
    with context.scanning():
        found = await handle.ask(asked.read)
    return found if isinstance(found, Answer) else await asked.of_host(found, handle.generation)


@dataclass(frozen=True, slots=True)
class _Page:
    context: Context
    request: Request
    store: str
    given: dict[str, str]

    def read(self, resolved: Resolved) -> Answer | _Place:
        """The page, or its place where another host has it."""
        place = self._place(resolved.generation)
        if place.host:
            return place
        limit = whole_number(self.given, "limit", _ROWS, smallest=1, largest=self.context.limits.rows)
        records: list[bytes] = []
        size, last = 0, place
        own = self.context.own(resolved, is_stale=flag(self.given, "stale"))
        for number, key, record in self._records(resolved, own.views, place):
            if len(records) >= limit or size >= self.context.limits.answer_bytes:
                return self._answer(records, last, resolved.generation, own.headers)
            records.append(json_bytes(record))
            size += len(records[-1])
            last = _Place("", number, base64.b64encode(key).decode())
        return self._answer(records, self._next_host(""), resolved.generation, own.headers)

    async def of_host(self, place: _Place, generation: int) -> Answer:
        """The page that another host has, with a cursor of this one."""
        others = self.context.others(self.store, self.request)
        host = next((each for each in others if str(each) == place.host), None)
        if host is None:
            raise Problem(409, f"{place.host} has left the hosts of this store", hint="ask from the beginning")
        given = {name: text for name, text in self.given.items() if name != "cursor"}
        query = urlencode(given if place.after is None else given | {"cursor": place.after}).encode()
        found = await self.context.forwarder.ask([host], self.request.with_query(query))
        if found.status != 200:
            return found
        answer = json.loads(found.body)
        after = answer["cursor"]
        following = self._next_host(place.host) if after is None else _Place(place.host, 0, after)
        records = [json_bytes(record) for record in answer["records"]]
        return self._answer(records, following, generation, found.headers)

    def _records(
        self, resolved: Resolved, views: list[Any], place: _Place
    ) -> Iterator[tuple[int, bytes, dict[str, object]]]:
        """(how many partitions lie before, serialized key, record) from a place on."""
        serde = resolved.definition.key
        low, high = (self._bound(resolved, name) for name in ("from", "to"))
        is_reverse = flag(self.given, "reverse")
        for number, view in enumerate(views):
            if number < place.number:
                continue
            after = base64.b64decode(place.after) if place.after is not None and number == place.number else None
            start, end = low, high
            if after is not None:
                start, end = (low, serde.decode(after)) if is_reverse else (serde.decode(after), high)
            for key, record in records_in(resolved.format, view, start, end, is_reverse=is_reverse):
                found = serde.encode(key)
                if found != after:
                    yield number, found, record

    def _bound(self, resolved: Resolved, name: str) -> Any:  # noqa: ANN401 - the serde's type
        text = self.given.get(name)
        return None if text is None else read_key(resolved.definition, text, self.given)

    @property
    def _asked(self) -> str:
        return json.dumps([self.store, *(self.given.get(name) for name in ("from", "to", "reverse", "encoding"))])

    def _place(self, generation: int) -> _Place:
        cursor = self.given.get("cursor")
        return _Place() if cursor is None else _Place(*self.context.cursors.unseal(cursor, self._asked, generation))

    def _next_host(self, host: str) -> _Place | None:
        """The place after the last record of a host."""
        names = ["", *map(str, self.context.others(self.store, self.request)), None]
        following = names[names.index(host) + 1] if host in names else None
        return None if following is None else _Place(following)

    def _answer(
        self, records: list[bytes], following: _Place | None, generation: int, headers: tuple[Header, ...]
    ) -> Answer:
        cursor = None if following is None else self.context.cursors.seal(self._asked, generation, following)
        body = b'{"records":[' + b",".join(records) + b'],"cursor":' + json_bytes(cursor) + b"}"
        return Answer(body, headers=headers)
