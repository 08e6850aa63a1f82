"""Requests to the host that has what is asked for: once, since that host never forwards them again."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import httpx

from migrate.queries.routing.hosts import HostInfo
from migrate.serve.web.limits import Limits
from migrate.serve.web.metrics import Metrics
from migrate.serve.web.problems import Problem
from migrate.serve.web.wire import Answer, Request

FORWARDED = b"x-stateferry-forwarded"
"""Names the host that forwards a request."""
PARTITIONS = b"x-stateferry-partitions"
"""The partitions that it expects of the other one in a list, and those that the other one's list is made of."""
_KEPT = (b"etag", b"cache-control", b"retry-after", b"x-stateferry-as-of")
_NOT_ANSWERED = (421, 503)
"""Of a host that another one may stand in for."""


class Forwarder:
    """The connections of this host to the others: to each its own, so that one that hangs takes none from the rest."""

    def __init__(self, me: HostInfo | None, token: str | None, limits: Limits, metrics: Metrics) -> None:
        self._metrics = metrics
        self._headers = {FORWARDED.decode(): str(me)} | ({"authorization": f"Bearer {token}"} if token else {})
        self._limits = limits
        self._clients: dict[HostInfo, httpx.AsyncClient] = {}

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()

    async def ask(self, hosts: Sequence[HostInfo], request: Request, partitions: str | None = None) -> Answer:
        """The answer of the first host that gives one, each but the last soon; to a list, from just these partitions.

        Raises Problem where none does.
        """
        condition = request.header(b"if-none-match")
        headers = ({"if-none-match": condition} if condition else {}) | _expecting(partitions)
        silent = []
        for host in hosts:
            is_last = host == hosts[-1]
            timeout = self._timeout(self._limits.forward_seconds if is_last else self._limits.standby_seconds)
            try:
                found = await self._client(host).get(_url(host, request), headers=headers, timeout=timeout)
            except httpx.HTTPError as error:
                silent.append(f"{host} ({type(error).__name__})")
                self._metrics.forwarded.labels("no answer").inc()
                continue
            self._metrics.forwarded.labels("answered").inc()
            if found.status_code in (401, 403):
                raise _refused(host, found.status_code, found.content)
            if is_last or found.status_code not in _NOT_ANSWERED:
                _check_made_of(partitions, host, found)
                return _passed_on(found)
            silent.append(f"{host} ({found.status_code})")
        raise _silent(", ".join(silent))

    async def lines(self, host: HostInfo, request: Request, partitions: str) -> AsyncGenerator[tuple[bytes, int], None]:
        """The records of a host's scan of these partitions: (whole lines, 0) each time, and at last (b"", how many).

        Raises Problem where the host does not answer, has others active, or does not come to the end of its scan.
        """
        held = b""  # up to one line, for the last one is no record
        try:
            headers = _expecting(partitions)
            async with self._client(host).stream("GET", _url(host, request), headers=headers) as found:
                if found.status_code != 200:
                    raise _refused(host, found.status_code, await found.aread())
                _check_made_of(partitions, host, found)
                async for piece in found.aiter_bytes():
                    held += piece
                    end = held.rfind(b"\n", 0, held.rfind(b"\n")) + 1
                    if end > 0:
                        yield held[:end], 0
                        held = held[end:]
        except httpx.HTTPError as error:
            self._metrics.forwarded.labels("no answer").inc()
            raise _silent(f"{host} ({type(error).__name__})") from error
        self._metrics.forwarded.labels("answered").inc()
        last = _document(held)
        if last.get("end") is not True:
            raise _refused(host, 502, held)
        yield b"", last["records"]

    def _client(self, host: HostInfo) -> httpx.AsyncClient:
        found = self._clients.get(host)
        if found is None:
            timeout = self._timeout(self._limits.forward_seconds)
            found = httpx.AsyncClient(headers=self._headers, timeout=timeout, trust_env=False)
            self._clients[host] = found
        return found

    def _timeout(self, seconds: float) -> httpx.Timeout:
        return httpx.Timeout(seconds, connect=self._limits.connect_seconds, pool=self._limits.connect_seconds)


def _expecting(partitions: str | None) -> dict[str, str]:
    return {} if partitions is None else {PARTITIONS.decode(): partitions}


def _check_made_of(partitions: str | None, host: HostInfo, found: httpx.Response) -> None:
    if partitions is not None and found.status_code == 200 and found.headers.get(PARTITIONS.decode()) != partitions:
        what = f"{host} does not confirm that its list is made of the partitions {partitions}"
        raise Problem(421, what, hint="run one version of Stateferry on all hosts")


def _passed_on(found: httpx.Response) -> Answer:
    kept = tuple((name, found.headers[name.decode()].encode()) for name in _KEPT if name.decode() in found.headers)
    return Answer(found.content, found.status_code, found.headers.get("content-type", "").encode(), kept)


def _url(host: HostInfo, request: Request) -> str:
    query = request.scope["query_string"]
    return f"http://{host}{request.scope['raw_path'].decode()}" + (f"?{query.decode()}" if query else "")


def _silent(which: str) -> Problem:
    return Problem(503, f"no answer from {which}", hint="retry with backoff, or read a standby: stale=true")


def _refused(host: HostInfo, status: int, body: bytes) -> Problem:
    said = _document(body)
    problem = said.get("error") if isinstance(said.get("error"), dict) else said
    assert isinstance(problem, dict)
    found = problem.get("status", status)
    what = f"{host}: {problem.get('detail', 'its scan broke off')}"
    hint = "give all hosts the same STATEFERRY_TOKEN" if found in (401, 403) else ""
    return Problem(found if found in (404, 409, 421, 503, 508) else 503, what, hint=hint)


def _document(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
