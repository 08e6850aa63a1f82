"""Requests as they came, and answers as they are sent: pure ASGI, for a point query passes through nothing else."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from migrate.serve.web.problems import RETRY_AFTER, Problem

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON = b"application/json"
NDJSON = b"application/x-ndjson"
PROBLEM_JSON = b"application/problem+json"
PIECE = 64 << 10
"""Sent at a time, each as slowly as the limit allows."""
_PARAMETERS = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: an ASGI application of its own."""

    body: bytes
    status: int = 200
    kind: bytes = JSON
    headers: tuple[Header, ...] = ()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        size = str(len(self.body)).encode()
        headers = [(b"content-type", self.kind), (b"content-length", size), *self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send_body(send, self.body)


async def send_body(send: Send, body: bytes, *, is_last: bool = True) -> None:
    """Send it in pieces, so that a slow client is not one that has stopped."""
    if len(body) <= PIECE:
        await send({"type": "http.response.body", "body": body, "more_body": not is_last})
        return
    whole = memoryview(body)
    for start in range(0, len(body), PIECE):
        more = not is_last or start + PIECE < len(body)
        await send({"type": "http.response.body", "body": bytes(whole[start : start + PIECE]), "more_body": more})


def refusal(problem: Problem) -> Answer:
    """The answer that a problem is."""
    headers: list[Header] = [(b"cache-control", b"no-store")]
    if problem.status == 503:
        headers.append((b"retry-after", RETRY_AFTER.encode()))
    elif problem.status == 401:
        headers += [(b"www-authenticate", b"Bearer"), (b"www-authenticate", b'Basic realm="stateferry"')]
    elif problem.status == 405:
        headers.append((b"allow", b"GET, HEAD"))
    elif problem.status == 411:  # fields may follow such a body, which the parser would keep without a limit
        headers.append((b"connection", b"close"))
    return Answer(problem.body, problem.status, PROBLEM_JSON, tuple(headers))


def as_bearer(authorization: bytes) -> bytes:
    """The header's value; that of a browser's dialog, any user with the token as password, as a bearer's."""
    scheme, _, credentials = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return authorization
    try:
        return b"Bearer " + base64.b64decode(credentials, validate=True).partition(b":")[2]
    except ValueError:
        return b""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, decoded strictly: text that is not UTF-8 would else become the key of something else."""

    scope: Scope
    receive: Receive

    def part(self, number: int, *, last: int = 4) -> str:
        """A part of the path, counted from 1; the last one may hold slashes. Raises Problem."""
        parts = self.scope["raw_path"].split(b"/", last)
        try:
            return unquote_to_bytes(parts[number]).decode() if number < len(parts) else ""
        except UnicodeDecodeError as error:
            raise Problem(
                400, f"the path is not UTF-8 text: {error.reason}", hint="percent-encode its UTF-8"
            ) from error

    def parameters(self, known: Iterable[str]) -> dict[str, str]:
        """The parameters of the query, each given once. Raises Problem for an unknown one."""
        if not (text := self.scope["query_string"]):
            return {}
        try:
            pairs = parse_qsl(text.decode(), True, errors="strict", max_num_fields=_PARAMETERS)
        except ValueError as error:
            raise Problem(400, f"the parameters cannot be read: {error}", hint="percent-encode their UTF-8") from error
        found = dict(pairs)
        if unknown := sorted(found.keys() - set(known)):
            known_ones = ", ".join(known) or "none"
            raise Problem(400, f"there is no parameter {unknown[0]!r} here", hint=f"known: {known_ones}")
        if len(found) != len(pairs):
            raise Problem(400, "a parameter is given twice", hint="give each once")
        return found

    def with_query(self, query: bytes) -> Request:
        """The same request with other parameters."""
        return Request({**self.scope, "query_string": query}, self.receive)

    def header(self, name: bytes) -> str | None:
        """The value of a header, by its name in lower case."""
        return next((value.decode("latin-1") for each, value in self.scope["headers"] if each == name), None)


def whole_number(given: dict[str, str], name: str, default: int, *, smallest: int = 0, largest: int) -> int:
    """A parameter that is a number in these bounds. Raises Problem."""
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and smallest <= int(text) <= largest):
        what = f"{name}={text[:40]!r} is not a whole number from {smallest} to {largest}"
        raise Problem(400, what, hint="give such a number")
    return int(text)


def flag(given: dict[str, str], name: str) -> bool:
    """A parameter that is `true` or `false`. Raises Problem."""
    text = given.get(name, "false")
    if text not in ("true", "false"):
        raise Problem(400, f"{name}={text[:40]!r} is neither true nor false", hint="give one of them")
    return text == "true"
