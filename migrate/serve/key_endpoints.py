"""What is asked by one key, its record, its windows, its sessions, where it is and both sides of it; and what is here.

`/compare` shows a key in the old store and in the new one of a migration, as JSON and as a page for people. It is
answered from this host's directories alone: other hosts have pages of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from formats.errors import EntryError
from formats.serde import BYTES
from migrate.errors import SpecError
from migrate.queries.get_report import GetReport
from migrate.queries.json_values import ENCODINGS, as_json, how_read, json_bytes, key_of, shown_problem
from migrate.queries.key_routing import HostInfo
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.side_by_side import SideBySideStores, stated_window
from migrate.queries.views.windowed_views import MAX_TIME
from migrate.serve.forwarding import RECORD, TIMES
from migrate.serve.http_messages import (
    JSON,
    RETRY_AFTER,
    Problem,
    flag,
    json_answer,
    parameters,
    problem_of,
    whole_number,
)
from migrate.serve.record_json import ReadTimes, record_of
from migrate.serve.serve_context import ServeContext
from migrate.serve.served_stores import Handle, ResolvedStore
from migrate.show.sides import GetForm, get_page

_HOW = ("stale", "encoding")
_AS_TEXT = "if it is text, ask with ?encoding=text"
_ROWS = 25
"""Records of a page that begins at a key."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_NOT_STORED = {"cache-control": "no-store"}
_HINTS = {
    "bytes": "text, or 0x and hex digits",
    **dict.fromkeys(("json", "avro", "list"), "JSON"),
    "boolean": "true or false",
    "string": "text",
    "uuid": "a UUID",
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A key, and what is asked of it."""

    context: ServeContext
    handle: Handle
    text: str
    given: dict[str, str]
    definition: StoreDefinition
    """By which the key was read."""
    _key: Any
    is_stale: bool
    partition: int | None = None
    """None: not known, so that each partition here is asked."""
    elsewhere: tuple[HostInfo, ...] = ()
    """The hosts that have it; none: this one."""
    is_standby: bool = False
    """Whether this host has a standby of the partition, and no more."""

    def key(self, resolved: ResolvedStore) -> Any:  # noqa: ANN401 - its serde's type
        """The key as the store reads it now, which may have another serde since a cut-over."""
        if resolved.definition is self.definition:
            return self._key
        return read_key(resolved.definition, self.text, self.given)

    def tags(self, resolved: ResolvedStore) -> tuple[str, dict[str, str]]:
        """(the entity tag, how old the answer may be). Raises StoreNotReadyError for a store in use, unless allowed."""
        etag, written_at = self.handle.etag(resolved, self.partition)
        known = resolved.written_ms(self.partition) if self.is_standby else written_at
        return etag, self.context.as_of(resolved, known, is_stale=self.is_stale)

    def none(self, resolved: ResolvedStore) -> Problem:
        """That there is no record of the key."""
        serde, encoding = resolved.definition.key, self.given.get("encoding")
        what = f"the store {resolved.name!r} has no record of this key, which was read as {how_read(serde, encoding)}"
        return Problem(404, what, hint=_AS_TEXT if serde.name == "bytes" and encoding is None else "")


def _asked(context: ServeContext, request: Request, *known: str) -> _Asked:
    handle = context.handle(request.path_params["store"])
    given, text = parameters(request, (*known, *_HOW)), request.path_params["key"]
    definition = handle.definition
    key, is_stale = read_key(definition, text, given), flag(given, "stale")
    found = context.metadata(handle.name, key, definition)
    if found is None:
        return _Asked(context, handle, text, given, definition, key, is_stale)
    elsewhere = context.elsewhere(found, request, is_stale=is_stale)
    is_standby = not elsewhere and context.me in found.standbys
    return _Asked(context, handle, text, given, definition, key, is_stale, found.partition, elsewhere, is_standby)


async def record(context: ServeContext, request: Request) -> Response:
    """`/stores/{store}/keys/{key}`."""
    asked = _asked(context, request, "as_of")
    if asked.elsewhere:
        return await context.forwarder.ask(asked.elsewhere, request, RECORD)
    as_of = whole_number(asked.given, "as_of", -1, largest=MAX_TIME)
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]

    def read(resolved: ResolvedStore) -> Response:
        view = resolved.view(asked.partition)
        etag, age = asked.tags(resolved)
        if etag in known:
            return Response(status_code=304, headers={"etag": etag, **age}, media_type=JSON)
        found = record_of(resolved.definition.stored, view, asked.key(resolved), None if as_of < 0 else as_of)
        if found is None:
            raise asked.none(resolved)
        return json_answer(found, {"etag": etag, "cache-control": "no-cache", **age})

    return await asked.handle.ask(read, is_quick=True)


async def several(read: ReadTimes, context: ServeContext, request: Request) -> Response:
    """`/stores/{store}/windows/{key}` and `/stores/{store}/sessions/{key}`."""
    asked = _asked(context, request, "from", "to", "limit")
    if asked.elsewhere:
        return await context.forwarder.ask(asked.elsewhere, request, TIMES)
    start = whole_number(asked.given, "from", 0, largest=MAX_TIME)
    end = whole_number(asked.given, "to", MAX_TIME, largest=MAX_TIME)
    rows = context.limits.rows
    limit = whole_number(asked.given, "limit", rows, smallest=1, largest=rows)

    def answer(resolved: ResolvedStore) -> Response:
        view = resolved.view(asked.partition)
        _, age = asked.tags(resolved)
        key, found, left, is_complete = asked.key(resolved), list[bytes](), context.limits.answer_bytes, True
        with closing(read(resolved.definition, view, key, start, end)) as every:
            for each in every:
                if len(found) >= limit or left <= 0:
                    is_complete = False
                    break
                found.append(json_bytes(each))
                left -= len(found[-1])
        parts = json_bytes(as_json(key)), b",".join(found), json_bytes(is_complete)
        return Response(b'{"key":%b,"records":[%b],"complete":%b}' % parts, headers=age, media_type=JSON)

    with context.scanning():
        return await asked.handle.ask(answer)


async def metadata(context: ServeContext, request: Request) -> Response:
    """`/metadata/{store}/{key}`."""
    handle = context.handle(request.path_params["store"])
    key = read_key(handle.definition, request.path_params["key"], parameters(request, ("encoding",)))
    found = context.metadata(handle.name, key, handle.definition)
    if found is None:
        raise Problem(421, "the partitions of keys are not known here", hint="start the service with --partitions N")
    body = {
        "store": handle.name,
        "key": as_json(key),
        "partition": found.partition,
        "active": None if found.active is None else str(found.active),
        "standbys": [str(host) for host in found.standbys],
    }
    return json_answer(body)


def read_key(definition: StoreDefinition, text: str, given: dict[str, str]) -> Any:  # noqa: ANN401 - its serde's type
    """The key that a text stands for, in the encoding that is given. Raises Problem."""
    encoding = encoding_of(given)
    serde = definition.key
    try:
        return key_of(serde, text, encoding)
    except EntryError as error:
        hint = _AS_TEXT if serde.name == "bytes" and encoding is None else f"its serde is {serde.name}: /docs"
        raise Problem(400, shown_problem(error, text), hint=hint, error="EntryError") from error


def encoding_of(given: dict[str, str]) -> str | None:
    """How keys are written; None: as their serde says. Raises Problem."""
    encoding = given.get("encoding")
    if encoding is not None and encoding not in ENCODINGS:
        hint = f"leave it out, or give one of {', '.join(ENCODINGS)}"
        raise Problem(400, f"encoding={encoding[:40]!r} is not known", hint=hint)
    return encoding


async def about_stores(context: ServeContext, request: Request) -> Response:
    """`/stores`: each store, as the service was told of it, without opening any."""
    parameters(request, ())
    found = [_described(name, context.handle(name).definition) for name in context.stores.names]
    return json_answer({"stores": found})


async def about_store(context: ServeContext, request: Request) -> Response:
    """`/stores/{store}`: a store with its partitions on this host."""
    parameters(request, ())
    return json_answer(await context.handle(request.path_params["store"]).ask(_with_partitions))


def _described(name: str, definition: StoreDefinition) -> dict[str, object]:
    serdes = {"key": definition.key.name, "value": definition.value.name}
    return {"name": name, "format": definition.format, "kind": definition.stored.kind, **serdes}


def _with_partitions(resolved: ResolvedStore) -> dict[str, object]:
    partitions = []
    for partition in resolved.partitions:
        opened = partition.opened()
        partitions.append(
            {
                "id": partition.id,
                "partition": partition.number,
                "format": opened.format.id,
                "estimated_records": sum(segment.entries.estimated_records for segment in opened.segments),
                "as_of": opened.as_of_ms,
                "position": {f"{topic}-{number}": offset for (topic, number), offset in opened.position.items()},
            }
        )
    more = {"retention_ms": resolved.definition.retention_ms, "partitions": partitions}
    return _described(resolved.name, resolved.definition) | more


async def compared(context: ServeContext, request: Request) -> Response:
    """`/compare/{store}/{key}`."""
    sides = _sides(context)
    store, key = request.path_params["store"], request.path_params["key"]
    given = parameters(request, ("window", "encoding"))
    encoding = encoding_of(given) or ("base64url" if sides.key_serde == BYTES else None)

    def read() -> GetReport:
        return sides.get(store, key, stated_window(given.get("window")), encoding=encoding)

    return json_answer((await _compared(context, read)).model_dump(), _NOT_STORED)


async def compare_page(context: ServeContext, request: Request) -> Response:
    """`/compare`."""
    sides = _sides(context)
    given: dict[str, str] = {}
    report, problem = None, None
    try:
        given = parameters(request, ("store", "key", "window", "from", "at"))
        report = await _compared(context, lambda: _asked_for(sides, given))
    except Exception as error:  # noqa: BLE001 - each has its sentence
        problem = problem_of(error)
    form = _form(sides, given, "" if report is None else report.next_place)
    headers = {"content-security-policy": _POLICY, **_NOT_STORED}
    if problem is None:
        return HTMLResponse(get_page(form, report, ""), headers=headers)
    headers |= {"retry-after": RETRY_AFTER} if problem.status == 503 else {}
    return HTMLResponse(get_page(form, None, problem.sentence), problem.status, headers)


def _sides(context: ServeContext) -> SideBySideStores:
    if context.sides is None:
        what = "there is no migration to compare: the service was started with a directory"
        raise Problem(404, what, hint="stateferry serve SPEC")
    return context.sides


async def _compared(context: ServeContext, read: Callable[[], GetReport]) -> GetReport:
    def answer() -> GetReport:
        try:
            return read()
        except SpecError as error:
            raise Problem(400, error.message, hint=error.hint, error="SpecError") from error

    with context.scanning():
        return await asyncio.get_running_loop().run_in_executor(context.pool, answer)


def _asked_for(sides: SideBySideStores, given: dict[str, str]) -> GetReport:
    """What the form asks for. Raises the errors of SideBySideStores."""
    store, key = given.get("store", sides.names[0]), given.get("key", "")
    if "from" in given or "key" not in given:
        return sides.first(store, key or None, _ROWS, place=given.get("at", ""))
    if not key:
        raise SpecError("there is no key in the form", hint="without one, ask for the records from here on")
    return sides.get(store, key, stated_window(given.get("window") or None))


def _form(sides: SideBySideStores, given: dict[str, str], next_place: str) -> GetForm:
    store = given["store"] if given.get("store") in sides.names else sides.names[0]
    following = {"store": store, "key": given.get("key", ""), "from": "here", "at": next_place}
    return GetForm(
        store=store,
        stores=sides.names,
        key=given.get("key", ""),
        key_hint=_HINTS.get(sides.key_serde.name, "a number"),
        window=given.get("window", ""),
        has_windows=sides.spec.source_format.is_segmented,
        next_page=f"?{urlencode(following)}" if next_place and ("from" in given or "key" not in given) else "",
    )
