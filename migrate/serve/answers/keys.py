"""What is asked by one key: its record, its windows, its sessions, and where it is."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from formats.errors import EntryError
from migrate.queries.definition import StoreDefinition
from migrate.queries.json_values import ENCODINGS, as_json, how_read, json_bytes, key_of, shown_problem
from migrate.queries.routing.hosts import HostInfo
from migrate.queries.views.segments import MAX_TIME
from migrate.serve import records
from migrate.serve.context import Context
from migrate.serve.forwarding import RECORD, TIMES
from migrate.serve.handles import Handle, Resolved
from migrate.serve.web.problems import Problem
from migrate.serve.web.wire import Answer, Header, Request, flag, whole_number

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
