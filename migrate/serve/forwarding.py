"""Requests to the host that has what is asked for: once, since that host never forwards them again.

An answer is passed on only if it is one that a service of ours gives: of its type, its shape and its size.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, NamedTuple, NoReturn

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from starlette.requests import Request
from starlette.responses import Response

from migrate.queries.key_routing import HostInfo
from migrate.serve.http_messages import JSON, NDJSON, PROBLEM_JSON, Limits, Memory, Metrics, Problem

FORWARDED = "x-stateferry-forwarded"
"""Names the host that forwards a request."""
PARTITIONS = "x-stateferry-partitions"
"""The partitions that it expects of the other one in a list, and those that the other one's list is made of."""
_KEPT = ("etag", "cache-control", "retry-after", "x-stateferry-as-of")
_STRICT = ConfigDict(strict=True)
RECORD = create_model("Record", __config__=_STRICT, key=Any, value=Any)
TIMES = create_model("Times", __config__=_STRICT, key=Any, records=list[RECORD], complete=bool)  # type: ignore[valid-type]
PAGE = create_model("Page", __config__=_STRICT, records=list[RECORD], cursor=str | None)  # type: ignore[valid-type]
_PROBLEM = create_model("Problem", __config__=_STRICT, status=int, title=str)
_ERROR = create_model("Error", __config__=_STRICT, error=_PROBLEM)
_END = create_model("End", __config__=_STRICT, end=Literal[True], records=int)
"""What the document of an answer has to be."""
_NOT_ANSWERED = (421, 503)
"""Of a host that another one may stand in for."""
_NO_ANSWER = (httpx.HTTPError, httpx.InvalidURL, TimeoutError)
_OTHER = "another program's answer"
_LATER = "retry with backoff, or read a standby: stale=true"
_OTHER_PROGRAM = "see whether a service of this version listens at that address; the list of hosts names it"


class _ForeignAnswer(Exception):
    """An answer that no service of ours gives."""


class _Found(NamedTuple):
    """A whole answer of a host."""

    status: int
    headers: httpx.Headers
    body: bytes
    document: dict[str, Any]
    """Empty where it says that nothing has changed."""


class Forwarder:
    """The connections of this host to the others: to each its own, so that one that hangs takes none from the rest."""

    def __init__(
        self, me: HostInfo | None, token: str | None, limits: Limits, metrics: Metrics, memory: Memory
    ) -> None:
        self._metrics = metrics
        self._headers = {FORWARDED: str(me), "accept-encoding": "identity"}
        self._headers |= {"authorization": f"Bearer {token}"} if token else {}
        self._limits = limits
        self._memory = memory
        self._clients: dict[HostInfo, httpx.AsyncClient] = {}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def ask(
        self, hosts: Sequence[HostInfo], request: Request, shape: type[BaseModel], partitions: str | None = None
    ) -> Response:
        """The answer of the first host that gives one, each but the last soon; to a list, from just these partitions.

        Raises Problem where none does.
        """
        condition = request.headers.get("if-none-match", "")
        is_tag = condition != "" and condition.isascii()  # as every tag of ours is
        headers = {"if-none-match": condition} if is_tag else {}
        silent, hint = [], _LATER
        for host in hosts:
            is_last = host == hosts[-1]
            seconds = self._limits.forward_seconds if is_last else self._limits.standby_seconds
            try:
                asked = self._asked(host, request, headers, partitions, seconds)
                async with asyncio.timeout(self._limits.answer_seconds / 2), asked as response:
                    found = await self._read(response, shape)
            except (*_NO_ANSWER, _ForeignAnswer) as error:
                hint = _OTHER_PROGRAM if isinstance(error, _ForeignAnswer) else hint
                silent.append(f"{host} ({_reason(error)})")
                self._metrics.forwarded.labels("no answer").inc()
                continue
            self._metrics.forwarded.labels("answered").inc()
            if found.status in (401, 403):
                raise _refused(host, found.document)
            if is_last or found.status not in _NOT_ANSWERED:
                _check_made_of(partitions, host, found.status, found.headers)
                kind = JSON if found.status < 400 else PROBLEM_JSON
                return Response(found.body, found.status, kept(found.headers), kind)
            silent.append(f"{host} ({found.status})")
        raise Problem(503, f"no answer from {', '.join(silent)}", hint=hint)

    async def lines(self, host: HostInfo, request: Request, partitions: str) -> AsyncGenerator[tuple[bytes, int], None]:
        """The records of a host's scan of these partitions: (whole lines, 0) each time, and at last (b"", how many).

        Raises Problem where the host does not answer, has others active, or does not come to the end of its scan.
        """
        held, count = bytearray(), 0  # up to one line, for the last one is no record
        try:
            async with self._asked(host, request, {}, partitions, self._limits.forward_seconds) as found:
                if found.status_code != 200:
                    raise _refused(host, (await self._read(found, _PROBLEM)).document)
                _check_kind(found.headers, NDJSON)
                _check_made_of(partitions, host, 200, found.headers)
                async for piece in self._pieces(found, held):
                    if b"\n" in piece and (end := held.rfind(b"\n", 0, held.rfind(b"\n")) + 1):
                        lines = bytes(held[:end])
                        del held[:end]
                        count += _count(lines)
                        yield lines, 0
            yield b"", _end(host, bytes(held), count)
        except (*_NO_ANSWER, _ForeignAnswer) as error:
            self._metrics.forwarded.labels("no answer").inc()
            hint = _OTHER_PROGRAM if isinstance(error, _ForeignAnswer) else _LATER
            raise Problem(503, f"no answer from {host} ({_reason(error)})", hint=hint) from error
        self._metrics.forwarded.labels("answered").inc()

    def _asked(
        self, host: HostInfo, request: Request, headers: dict[str, str], partitions: str | None, seconds: float
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """The answer of a host, as it begins: each of its pieces may take `seconds`."""
        if host not in self._clients:
            self._clients[host] = httpx.AsyncClient(headers=self._headers, trust_env=False)
        expected = {} if partitions is None else {PARTITIONS: partitions}
        connect = self._limits.connect_seconds
        timeout = httpx.Timeout(seconds, connect=connect, pool=connect)
        return self._clients[host].stream("GET", _url(host, request), headers=headers | expected, timeout=timeout)

    async def _read(self, response: httpx.Response, shape: type[BaseModel]) -> _Found:
        """A whole answer, whose document is of this shape, or a problem; a large one is read in a thread."""
        status, headers, body = response.status_code, response.headers, bytearray()
        async for _ in self._pieces(response, body):
            pass
        if status == 304 and "if-none-match" in response.request.headers:
            return _Found(status, headers, b"", {})
        with self._memory.holding(len(body)):
            whole = bytes(body)
            expected = shape if status == 200 else _PROBLEM
            _check_kind(headers, JSON if status == 200 else PROBLEM_JSON)
            is_large = len(whole) > self._limits.large_bytes
            found = await asyncio.to_thread(_document, whole, expected) if is_large else _document(whole, expected)
        if status != 200 and not (found["status"] == status and 400 <= status < 600):
            raise _ForeignAnswer(f"{_OTHER}: it is a problem of status {status}, and says {found['status']}")
        return _Found(status, headers, whole, found)

    async def _pieces(self, response: httpx.Response, held: bytearray) -> AsyncGenerator[bytes, None]:
        """Each piece of an answer as it is sent, for a host of ours compresses none; `held`: with those before it."""
        if "content-encoding" in response.headers:
            raise _ForeignAnswer(f"{_OTHER}: it is compressed")
        most = self._limits.held_bytes // 2
        with self._memory.holding() as hold:
            async for piece in response.aiter_raw():
                hold(len(held) + len(piece))  # of a scan, lines were taken out
                held += piece
                if len(held) > most:
                    raise _ForeignAnswer(f"more than {most >> 20} MiB without an end")
                yield piece


def kept(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer that are passed on."""
    return {name: headers[name] for name in _KEPT if name in headers}


def _check_made_of(partitions: str | None, host: HostInfo, status: int, headers: httpx.Headers) -> None:
    if partitions is not None and status == 200 and headers.get(PARTITIONS) != partitions:
        what = f"{host} does not confirm that its list is made of the partitions {partitions}"
        raise Problem(421, what, hint="run one version of Stateferry on all hosts")


def _check_kind(headers: httpx.Headers, kind: str) -> None:
    found = headers.get("content-type", "no type")
    if found != kind:
        raise _ForeignAnswer(f"{_OTHER}: it is of {found[:80]!r}")


def _document(text: bytes, *shapes: type[BaseModel]) -> dict[str, Any]:
    """The document of one of these shapes, with all that it has."""
    try:
        found: dict[str, Any] = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _ForeignAnswer(f"{_OTHER}: it is no JSON") from error
    for shape in shapes:
        try:
            shape.model_validate(found)
        except ValidationError:
            continue
        return found
    raise _ForeignAnswer(f"{_OTHER}: its JSON is of another shape")


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _count(lines: bytes) -> int:
    """How many records whole lines are. Raises _ForeignAnswer for lines that are none."""
    every = lines.split(b"\n")[:-1]
    if not all(each.startswith(b'{"key":') and each.endswith(b"}") for each in every):
        raise _ForeignAnswer(f"{_OTHER}: a line is no record")
    return len(every)


def _end(host: HostInfo, line: bytes, count: int) -> int:
    """The number of records that the last line tells. Raises Problem where it is an error, or tells another number."""
    last = _document(line, _ERROR, _END)
    if "error" in last:
        raise _refused(host, last["error"])
    if last["records"] != count:
        raise _ForeignAnswer(f"its scan of {count} records ends as one of {last['records']}")
    return count


def _url(host: HostInfo, request: Request) -> httpx.URL:
    """The same path and query at a host: made of parts, for a path that is put behind a name may change the name."""
    path = request.scope["raw_path"].replace(b"/.", b"/%2E")  # httpx would leave out a key `..`
    query = request.scope["query_string"]
    return httpx.URL(scheme="http", host=host.host, port=host.port, raw_path=path + (b"?" + query if query else b""))


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, _ForeignAnswer) else type(error).__name__


def _refused(host: HostInfo, said: dict[str, Any]) -> Problem:
    found = said["status"]
    hint = "give all hosts the same STATEFERRY_TOKEN" if found in (401, 403) else ""
    what = f"{host}: {said.get('detail', said['title'])}"
    return Problem(found if found in (404, 409, 421, 503, 508) else 503, what, hint=hint)
