"""`/compare`: a key in the old store and in the new one of a migration, as JSON and as a page for people.

Answered from this host's directories alone: other hosts have pages of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from formats.serde import BYTES
from migrate.errors import SpecError
from migrate.queries.json_values import json_bytes
from migrate.queries.side_by_side.report import GetReport
from migrate.queries.side_by_side.stores import SideBySideStores, stated_window
from migrate.serve.answers.keys import encoding_of
from migrate.serve.context import Context
from migrate.serve.web.problems import Problem, problem_of
from migrate.serve.web.wire import Answer, Request, refusal
from migrate.show.page.get_page import GetForm, get_page

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
