"""What the service reads of a request, grants, refuses and measures.

Each refusal is a document of RFC 9457 (`application/problem+json`):

| status | when                                                                                          |
|--------|-----------------------------------------------------------------------------------------------|
| 400    | a key that its serde cannot read, a wrong parameter or cursor, a question for another type of store |
| 401    | the bearer token is missing or wrong                                                          |
| 403    | a service without a token is asked under another host's name                                  |
| 404    | no such path, store or key                                                                    |
| 405    | a method other than GET and HEAD                                                              |
| 409    | the store was replaced under a cursor, or its partitions are on other hosts                   |
| 411    | a body whose length is not stated                                                             |
| 421    | a partition is not on this host and no route leads to it, or two hosts' lists of hosts differ |
| 500    | damaged data, a value that its serde cannot read, a bug                                       |
| 503    | the store is being moved, its host does not answer, too many scans; with `Retry-After`        |
| 508    | a request that was forwarded in a circle                                                      |

What is no request of HTTP/1.1, or has a head beyond the limit, gets 400 from h11 itself, as plain text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

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

JSON = "application/json"
NDJSON = "application/x-ndjson"
PROBLEM_JSON = "application/problem+json"
RETRY_AFTER = "1"
PIECE = 64 << 10
"""Sent at a time."""
_PARAMETERS = 16
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
_LOG = logging.getLogger("stateferry.serve")
_STATUSES: tuple[tuple[type[BaseException], int], ...] = (
    (UnknownStateStoreError, 404),
    (InvalidStateStorePartitionError, 421),
    (StoreNotReadyError, 503),
    (StateStoreMigratedError, 503),
    (StoreClosedError, 503),
    (InvalidStateStoreError, 400),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the service grants to each request and to all at once; what is beyond is refused with a status."""

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
    """Of a request's head that has not come to its end; keys are in it."""
    idle_seconds: float = 60.0
    """How long a connection may stay open without a further request."""
    connections: int = 1000
    move_seconds: float = 0.1
    """How long a query waits for a store that is being moved, before it is answered with 503."""
    connect_seconds: float = 1.0
    """How long another host may take to accept a connection."""
    forward_seconds: float = 10.0
    """How long another host may take to answer."""
    standby_seconds: float = 1.0
    """How long it may take where a standby can be asked instead."""


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
        said: dict[str, object] = {"status": self.status, "title": HTTPStatus(self.status).phrase}
        more = {"error": self.error, "detail": self.detail, "next": self.hint}
        return said | {name: text for name, text in more.items() if text}


def problem_of(error: BaseException) -> Problem:
    """The problem that an error is to the client; a bug is written to the log with its traceback."""
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


def refusal(problem: Problem) -> Response:
    """The answer that a problem is."""
    answer = Response(json_bytes(problem.document), problem.status, {"cache-control": "no-store"}, PROBLEM_JSON)
    if problem.status == 503:
        answer.headers["retry-after"] = RETRY_AFTER
    elif problem.status == 401:
        answer.headers.append("www-authenticate", "Bearer")
        answer.headers.append("www-authenticate", 'Basic realm="stateferry"')
    elif problem.status == 405:
        answer.headers["allow"] = "GET, HEAD"
    elif problem.status == 411:  # the body is not read
        answer.headers["connection"] = "close"
    return answer


def json_answer(document: object, headers: dict[str, str] | None = None) -> Response:
    """A document as an answer."""
    return Response(json_bytes(document), headers=headers, media_type=JSON)


async def send_body(send: Send, body: bytes, *, is_last: bool = True) -> None:
    """Send it in pieces, each once the one before it has gone: what is counted as held is what is not sent yet."""
    for start in range(0, max(len(body), 1), PIECE):
        more = not is_last or start + PIECE < len(body)
        await send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": more})


class Memory:
    """The bytes of all answers that are made or being sent; asked on the event loop alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0

    @contextmanager
    def holding(self, size: int = 0) -> Iterator[Callable[[int], None]]:
        """While an answer of this size is held; gives what takes another size. Both raise Problem if it is too much."""
        own = 0

        def hold(size: int) -> None:
            nonlocal own
            if self.held - own + size > self._limit:
                raise self._too_much(size)
            self.held += size - own
            own = size

        try:
            hold(size)
            yield hold
        finally:
            self.held -= own

    def _too_much(self, size: int) -> Problem:
        mib = self._limit >> 20
        if size > self._limit:
            return Problem(503, f"the answer is larger than {mib} MiB, which is the limit", hint="read it in Python")
        what = f"the answers that are being sent would hold more than {mib} MiB, which is the limit"
        return Problem(503, what, hint="retry with backoff")


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self, memory: Memory) -> None:
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
        self.scans = self._gauge("scans", "Scans and pages being read.")
        self._gauge("held_bytes", "Of answers that are made or being sent.").set_function(lambda: memory.held)
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"stateferry_serve_{name}", what, labels, registry=self._registry)

    def _gauge(self, name: str, what: str) -> Gauge:
        return Gauge(f"stateferry_serve_{name}", what, registry=self._registry)

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
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


def parameters(request: Request, known: Iterable[str]) -> dict[str, str]:
    """The parameters of the query, each given once, in UTF-8. Raises Problem for an unknown one."""
    if not (text := request.scope["query_string"]):
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
