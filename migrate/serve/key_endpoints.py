"""What is asked by one key: its record, its windows, its sessions, and where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from formats.errors import EntryError
from formats.serde import BYTES
from migrate.errors import SpecError
from migrate.queries.get_report import GetReport
from migrate.queries.json_values import ENCODINGS, as_json, how_read, json_bytes, key_of, shown_problem
from migrate.queries.key_routing import HostInfo
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.side_by_side import SideBySideStores, stated_window
from migrate.queries.views.windowed_views import MAX_TIME
from migrate.serve import record_json as records
from migrate.serve.forwarding import RECORD, TIMES
from migrate.serve.http_messages import Answer, Header, Problem, Request, flag, problem_of, refusal, whole_number
from migrate.serve.serve_context import Context
from migrate.serve.served_stores import Handle, Resolved
from migrate.show.page.get_page import GetForm, get_page

_HOW = ("stale", "encoding")


_AS_TEXT = "if it is text, ask with ?encoding=text"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A key, and what is asked of it."""

    handle: Handle
    text: str
    given: dict[str, str]
    definition: StoreDefinition
    """By which the key was read."""
    _key: Any
    partition: int | None = None
    """None: not known, so that each partition here is asked."""
    elsewhere: tuple[HostInfo, ...] = ()
    """The hosts that have it; none: this one."""
    is_stale: bool = False
    is_standby: bool = False
    """Whether this host has a standby of the partition, and no more."""

    def key(self, resolved: Resolved) -> Any:  # noqa: ANN401 - its serde's type
        """The key as the store reads it now, which may have another serde since a cut-over."""
        return (
            self._key
            if resolved.definition is self.definition
            else read_key(resolved.definition, self.text, self.given)
        )

    def none(self, resolved: Resolved) -> Problem:
        """That there is no record of the key."""
        serde, encoding = resolved.definition.key, self.given.get("encoding")
        what = f"the store {resolved.name!r} has no record of this key, which was read as {how_read(serde, encoding)}"
        return Problem(404, what, hint=_AS_TEXT if serde.name == "bytes" and encoding is None else "")


@dataclass(frozen=True, slots=True)
class Keys:
    """The endpoints whose path ends in a key."""

    context: Context

    async def record(self, request: Request) -> Answer:
        """`/stores/{store}/keys/{key}`."""
        asked = self._asked(request, "as_of")
        if asked.elsewhere:
            return await self.context.forwarder.ask(asked.elsewhere, request, RECORD)
        as_of = whole_number(asked.given, "as_of", -1, largest=MAX_TIME)
        condition = request.header(b"if-none-match")

        def read(resolved: Resolved) -> Answer:
            view = resolved.view(asked.partition)
            etag, written_at = asked.handle.etag(resolved, asked.partition)
            age = self._as_of(asked, resolved, written_at)
            if condition is not None and _names(condition, etag):
                return Answer(b"", 304, headers=((b"etag", etag), *age))
            found = records.record_of(resolved.format, view, asked.key(resolved), None if as_of < 0 else as_of)
            if found is None:
                raise asked.none(resolved)
            return Answer(json_bytes(found), headers=((b"etag", etag), (b"cache-control", b"no-cache"), *age))

        return await asked.handle.ask(read, is_quick=True)

    async def windows(self, request: Request) -> Answer:
        """`/stores/{store}/windows/{key}`."""
        return await self._several(request, records.windows_of)

    async def sessions(self, request: Request) -> Answer:
        """`/stores/{store}/sessions/{key}`."""
        return await self._several(request, records.sessions_of)

    async def _several(self, request: Request, read: records.ReadTimes) -> Answer:
        asked = self._asked(request, "from", "to", "limit")
        if asked.elsewhere:
            return await self.context.forwarder.ask(asked.elsewhere, request, TIMES)
        start = whole_number(asked.given, "from", 0, largest=MAX_TIME)
        end = whole_number(asked.given, "to", MAX_TIME, largest=MAX_TIME)
        rows = self.context.limits.rows
        limit = whole_number(asked.given, "limit", rows, smallest=1, largest=rows)

        def answer(resolved: Resolved) -> Answer:
            view = resolved.view(asked.partition)
            _, written_at = asked.handle.etag(resolved, asked.partition)
            as_of = self._as_of(asked, resolved, written_at)
            key = asked.key(resolved)
            found: list[bytes] = []
            left = self.context.limits.answer_bytes
            with closing(read(resolved.definition, view, key, start, end)) as every:
                for record in every:
                    if len(found) >= limit or left <= 0:
                        break
                    found.append(json_bytes(record))
                    left -= len(found[-1])
                else:
                    return _times(key, found, as_of, is_complete=True)
            return _times(key, found, as_of, is_complete=False)

        with self.context.scanning():
            return await asked.handle.ask(answer)

    async def metadata(self, request: Request) -> Answer:
        """`/metadata/{store}/{key}`."""
        handle = self.context.handle(request.part(2))
        key = read_key(handle.definition, request.part(3, last=3), request.parameters(("encoding",)))
        found = self.context.metadata(handle.name, key, handle.definition)
        if found is None:
            raise Problem(
                421, "the partitions of keys are not known here", hint="start the service with --partitions N"
            )
        body = {
            "store": handle.name,
            "key": as_json(key),
            "partition": found.partition,
            "active": None if found.active is None else str(found.active),
            "standbys": [str(host) for host in found.standbys],
        }
        return Answer(json_bytes(body))

    def _asked(self, request: Request, *parameters: str) -> _Asked:
        handle = self.context.handle(request.part(2))
        given = request.parameters((*parameters, *_HOW))
        definition, text = handle.definition, request.part(4)
        key, is_stale = read_key(definition, text, given), flag(given, "stale")
        found = self.context.metadata(handle.name, key, definition)
        if found is None:
            return _Asked(handle, text, given, definition, key, is_stale=is_stale)
        elsewhere = self.context.elsewhere(found, request, is_stale=is_stale)
        is_standby = not elsewhere and self.context.me in found.standbys
        return _Asked(handle, text, given, definition, key, found.partition, elsewhere, is_stale, is_standby)

    def _as_of(self, asked: _Asked, resolved: Resolved, written_at: int | None) -> tuple[Header, ...]:
        """How old the answer may be. Raises StoreNotReadyError for a store in use, unless that may be."""
        found = resolved.written_ms(asked.partition) if asked.is_standby else written_at
        return self.context.as_of(resolved, found, is_stale=asked.is_stale)


def _times(key: object, records: list[bytes], headers: tuple[Header, ...], *, is_complete: bool) -> Answer:
    head = b'{"key":' + json_bytes(as_json(key)) + b',"records":['
    return Answer(head + b",".join(records) + b'],"complete":' + json_bytes(is_complete) + b"}", headers=headers)


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


def _names(condition: str, etag: bytes) -> bool:
    """Whether an `If-None-Match` names the tag."""
    return any(each.strip().removeprefix("W/").encode() == etag for each in condition.split(","))


def about_stores(context: Context) -> list[dict[str, object]]:
    """Each store, as the service was told of it: without opening any."""
    found = []
    for name in context.stores.names:
        definition = context.handle(name).definition
        described: dict[str, object] = {"name": name, "format": definition.format, "kind": definition.stored.kind}
        found.append(described | {"key": definition.key.name, "value": definition.value.name})
    return found


def about_store(resolved: Resolved) -> dict[str, object]:
    """A store with its partitions on this host."""
    definition, format_ = resolved.definition, resolved.definition.stored
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
    return {
        "name": resolved.name,
        "format": format_.id,
        "kind": format_.kind,
        "key": definition.key.name,
        "value": definition.value.name,
        "retention_ms": definition.retention_ms,
        "partitions": partitions,
    }


_ROWS = 25
"""Records of a page that begins at a key."""


_POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"


_HEADERS = ((b"content-security-policy", _POLICY), (b"cache-control", b"no-store"))


_HINTS = {
    "bytes": "text, or 0x and hex digits",
    **dict.fromkeys(("json", "avro", "list"), "JSON"),
    "boolean": "true or false",
    "string": "text",
    "uuid": "a UUID",
}


@dataclass(frozen=True, slots=True)
class Compare:
    """The endpoints of a service that was started with a spec."""

    context: Context
    sides: SideBySideStores | None
    """None: it was started with a directory."""

    async def record(self, request: Request) -> Answer:
        """`/compare/{store}/{key}`."""
        sides = self._required()
        store, key = request.part(2), request.part(3, last=3)
        given = request.parameters(("window", "encoding"))
        encoding = encoding_of(given) or ("base64url" if sides.key_serde == BYTES else None)

        def read() -> GetReport:
            return sides.get(store, key, stated_window(given.get("window")), encoding=encoding)

        report = await self._read(sides, read)
        return Answer(json_bytes(report.model_dump()), headers=((b"cache-control", b"no-store"),))

    async def page(self, request: Request) -> Answer:
        """`/compare`."""
        sides = self._required()
        given: dict[str, str] = {}
        report, problem = None, None
        try:
            given = request.parameters(("store", "key", "window", "from", "at"))
            report = await self._read(sides, lambda: _asked(sides, given))
        except Exception as error:  # noqa: BLE001 - each has its sentence
            problem = problem_of(error)
        form = _form(sides, given, "" if report is None else report.next_place)
        text = get_page(form, report, "" if problem is None else problem.sentence)
        plain = Answer(b"") if problem is None else refusal(problem)
        headers = (*_HEADERS, *(each for each in plain.headers if each[0] != b"cache-control"))
        return Answer(text.encode(), plain.status, b"text/html; charset=utf-8", headers)

    def _required(self) -> SideBySideStores:
        if self.sides is None:
            raise Problem(404, "there is no migration to compare: the service was started with a directory", hint=_SPEC)
        return self.sides

    async def _read(self, sides: SideBySideStores, read: Callable[[], GetReport]) -> GetReport:
        def answer() -> GetReport:
            try:
                return read()
            except SpecError as error:
                raise Problem(400, error.message, hint=error.hint, error="SpecError") from error

        with self.context.scanning():
            return await asyncio.get_running_loop().run_in_executor(self.context.pool, answer)


_SPEC = "stateferry serve SPEC"


def _asked(sides: SideBySideStores, given: dict[str, str]) -> GetReport:
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
