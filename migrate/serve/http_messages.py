"""Requests as they came, answers as they are sent, and what the service grants and measures.

Pure ASGI, for a point query passes through nothing else. Each refusal is a document of RFC 9457
(`application/problem+json`):

| status | when                                                                                          |
|--------|-----------------------------------------------------------------------------------------------|
| 400    | a key that its serde cannot read, a wrong parameter or cursor, a question for another type of store |
| 401    | the bearer token is missing or wrong                                                          |
| 403    | a service without a token is asked under another host's name                                  |
| 404    | no such path, store or key                                                                    |
| 405    | a method other than GET and HEAD                                                              |
| 409    | the store was replaced under a cursor, or its partitions are on other hosts                   |
| 411    | a body whose length is not stated                                                             |
| 414, 431 | a request line or headers beyond the limit                                                  |
| 421    | a partition is not on this host and no route leads to it, or two hosts' lists of hosts differ |
| 500    | damaged data, a value that its serde cannot read, a bug                                       |
| 503    | the store is being moved, its host does not answer, too many scans; with `Retry-After`        |
| 508    | a request that was forwarded in a circle                                                      |
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from migrate.errors import (
    ConversionError,
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    MigrationError,
    StateStoreMigratedError,
    StoreClosedError,
    StoreNotReadyError,
    UnknownStateStoreError,
    explain_system_error,
)
from migrate.queries.json_values import json_bytes

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


_LOG = logging.getLogger("stateferry.serve")


_STATUSES: tuple[tuple[type[BaseException], int], ...] = (
    (UnknownStateStoreError, 404),
    (InvalidStateStorePartitionError, 421),
    (StoreNotReadyError, 503),
    (StateStoreMigratedError, 503),
    (StoreClosedError, 503),
    (InvalidStateStoreError, 400),
)


RETRY_AFTER = "1"


class Problem(Exception):
    """A request that is not answered: its status, what happened, and what to do next."""

    def __init__(self, status: int, detail: str, *, hint: str = "", error: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.error = error
        """The name of the library's error, if it is one."""

    @property
    def sentence(self) -> str:
        """The problem for a person."""
        return f"{self.detail}; {self.hint}" if self.hint else self.detail

    @property
    def document(self) -> dict[str, object]:
        """The problem as a JSON object."""
        said: dict[str, object] = {"status": self.status, "title": HTTPStatus(self.status).phrase}
        more = {"error": self.error, "detail": self.detail, "next": self.hint}
        return said | {name: text for name, text in more.items() if text}

    @property
    def body(self) -> bytes:
        """The document as JSON text."""
        return json_bytes(self.document)


def problem_of(error: BaseException) -> Problem:
    """The problem that an error is to whoever asked; a bug is written to the log with its traceback."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ConversionError):
        return Problem(500, f"a record cannot be read: {error.message}", hint=error.hint, error="ConversionError")
    known = error if isinstance(error, MigrationError) else explain_system_error(error)
    if known is None:
        _LOG.error("a request failed", exc_info=error)
        return Problem(500, f"this is a bug: {type(error).__name__}: {error}", hint="see the service's log")
    status = next((status for kind, status in _STATUSES if isinstance(known, kind)), 500)
    if status == 500:
        _LOG.error("%s", known)
    return Problem(status, known.message, hint=known.hint, error=type(known).__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """The service's limits; what is beyond one is refused with a status that says so."""

    rows: int = 10_000
    """Records of one answer that is not streamed."""
    answer_bytes: int = 8 << 20
    """Bytes of such an answer after which it ends: the rest follows by its cursor."""
    answer_seconds: float = 60.0
    """How long such an answer may take to be made, and then to be received."""
    large_bytes: int = 256 << 10
    """A value of this size is decoded and encoded in a thread, one at a time."""
    held_bytes: int = 256 << 20
    """Bytes of all answers that are made or being sent."""
    requests: int = 500
    """Requests that are answered at one time; fewer than connections, which may be idle."""
    scans: int = 8
    """Scans and pages that are read at one time."""
    scan_seconds: float = 3600.0
    """How long one streamed scan may take."""
    head_bytes: int = 64 << 10
    """The request's line and headers; keys are in the line."""
    head_seconds: float = 10.0
    """How long a client may take to send them."""
    write_seconds: float = 30.0
    """How long a client may take to receive 64 KiB."""
    idle_seconds: float = 60.0
    """How long a connection may stay open without a request."""
    connections: int = 1000
    move_seconds: float = 0.1
    """How long a query waits for a store that is being moved, before it is answered with 503."""
    connect_seconds: float = 1.0
    """How long another host may take to accept a connection."""
    forward_seconds: float = 10.0
    """How long another host may take to answer."""
    standby_seconds: float = 1.0
    """How long it may take where a standby can be asked instead."""


_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double each counter
        self._registry = CollectorRegistry()
        self._requests = self._counter("requests", "Answers, by what was asked and their status.", "endpoint", "status")
        self._seconds = Histogram(
            "stateferry_serve_seconds",
            "From a request's head to the end of its answer.",
            ["endpoint"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self.retries = self._counter("retries", "Reads that were asked again while their store was being replaced.")
        self.forwarded = self._counter("forwarded", "Requests to other hosts, by their end.", "end")
        self.streamed = self._counter("streamed_records", "Records of this host in streamed scans.")
        self.scans = Gauge("stateferry_serve_scans", "Scans and pages being read.", registry=self._registry)
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"stateferry_serve_{name}", what, labels, registry=self._registry)

    def watch(self, held: Callable[[], float]) -> None:
        """Tell the bytes of answers that are held."""
        gauge = Gauge("stateferry_serve_held_bytes", "Of answers that are made or being sent.", registry=self._registry)
        gauge.set_function(held)

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """Count one answer."""
        found = self._known.get((endpoint, status))
        if found is None:
            found = self._requests.labels(endpoint, str(status)), self._seconds.labels(endpoint)
            self._known[endpoint, status] = found
        found[0].inc()
        found[1].observe(seconds)

    @property
    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)
