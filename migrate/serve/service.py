"""The service as an ASGI application: who may ask, what, and what is measured of it. Reads only, by construction."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from starlette.routing import Route
from starlette.routing import Router as Routes
from starlette.types import ASGIApp

from migrate.queries.json_values import json_bytes
from migrate.queries.key_routing import Router
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.side_by_side import SideBySideStores
from migrate.serve.http_messages import (
    PIECE,
    Answer,
    Limits,
    Problem,
    Receive,
    Request,
    Scope,
    Send,
    as_bearer,
    problem_of,
    refusal,
)
from migrate.serve.key_endpoints import Compare, Keys, about_store, about_stores
from migrate.serve.openapi import docs_page, openapi
from migrate.serve.range_endpoints import Scan, page
from migrate.serve.serve_context import Context

Handler = Callable[[Request], Awaitable[Answer | Scan]]
_PUBLIC = ("/health", "/docs", "/openapi.json")
_METHODS = ("GET", "HEAD")


class Service:
    """The stores of one process, over HTTP."""

    def __init__(
        self,
        stores: QueryableStores,
        *,
        router: Router | None = None,
        token: str | None = None,
        limits: Limits | None = None,
        names: tuple[str, ...] | None = None,
        sides: SideBySideStores | None = None,
        stale: bool = True,
    ) -> None:
        """Serve `stores`.

        Args:
            stores: what is asked.
            router: knows the partitions of keys and the other hosts; None: every partition here is asked.
            token: what a client has to show; None: nothing.
            limits: None: the usual ones.
            names: the names that a client may call this host, so that no web page reaches a service without a token
                under a name of its own; None: any.
            sides: the old stores and the new ones, where they are those of a migration.
            stale: answer from stores that their application has open without being asked for what is on disk.
        """
        self.context = Context(stores, router, token, limits or Limits(), stale=stale)
        self._token = None if token is None else f"Bearer {token}".encode()
        self._names = None if names is None else frozenset(name.encode() for name in names)
        self._sides = sides
        keys, compare = Keys(self.context), Compare(self.context, sides)
        self._record = self._endpoint("keys", keys.record, is_quick=True)
        self._nothing = self._endpoint("none", _no_such_path)
        endpoints: dict[str, tuple[str, Handler]] = {
            "/": ("none", self._first_page),
            "/stores": ("stores", self._stores),
            "/stores/{store}": ("store", self._store),
            "/stores/{store}/windows/{key:path}": ("windows", keys.windows),
            "/stores/{store}/sessions/{key:path}": ("sessions", keys.sessions),
            "/stores/{store}/range": ("range", self._range),
            "/stores/{store}/all": ("all", self._all),
            "/metadata/{store}/{key:path}": ("metadata", keys.metadata),
            "/compare": ("compare", compare.page),
            "/compare/{store}/{key:path}": ("compare", compare.record),
            "/health": ("health", self._health),
            "/metrics": ("metrics", self._metrics),
            "/openapi.json": ("openapi", self._openapi),
            "/docs": ("docs", self._docs),
        }
        routes = [Route(path, self._endpoint(*endpoint)) for path, endpoint in endpoints.items()]
        self._routes = Routes(routes, redirect_slashes=False, default=self._nothing, lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; point queries go past the table of routes."""
        if scope["type"] == "http":
            if (problem := self._refused(scope)) is not None:
                await refusal(problem)(scope, receive, send)
                self.context.metrics.answered("refused", problem.status, 0.0)
                return
            parts = scope["raw_path"].split(b"/", 4)
            if len(parts) == 5 and parts[1] == b"stores" and parts[3] == b"keys":
                await self._record(scope, receive, send)
                return
        await self._routes(scope, receive, send)

    def _refused(self, scope: Scope) -> Problem | None:
        if scope["method"] not in _METHODS:
            return Problem(405, f"{scope['method']} is not possible: the service only reads", hint="use GET")
        if self._token is None and self._names is None:
            return None
        headers = dict(scope["headers"])
        if self._token is not None:
            shown = as_bearer(headers.get(b"authorization", b""))
            if scope["path"] not in _PUBLIC and not hmac.compare_digest(shown, self._token):
                return Problem(401, "the bearer token is missing or wrong", hint="send Authorization: Bearer TOKEN")
        elif self._names is not None and _without_port(headers.get(b"host", b"")) not in self._names:
            what = "this service has no token, and answers only to its own name"
            return Problem(403, what, hint="ask for it as localhost, or start it with STATEFERRY_TOKEN")
        return None

    def _endpoint(self, name: str, handler: Handler, *, is_quick: bool = False) -> ASGIApp:
        """`is_quick`: what may take long in the handler has a limit of its own, for one costs as much as a query."""

        async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            began = time.perf_counter()
            status, seconds = 200, self.context.limits.answer_seconds
            try:
                if is_quick:
                    answer = await handler(Request(scope, receive))
                else:
                    async with asyncio.timeout(seconds):
                        answer = await handler(Request(scope, receive))
            except Exception as error:  # noqa: BLE001 - each has its status
                answer = refusal(problem_of(_too_long(seconds) if isinstance(error, TimeoutError) else error))
            if isinstance(answer, Answer):
                if len(answer.body) > PIECE:
                    answer = await self._send_large(answer, scope, receive, send)
                else:
                    await answer(scope, receive, send)
                status = answer.status
            else:
                await answer(scope, receive, send)
            self.context.metrics.answered(name, status, time.perf_counter() - began)

        return _Endpoint(endpoint)

    async def _send_large(self, answer: Answer, scope: Scope, receive: Receive, send: Send) -> Answer:
        """Send an answer of several pieces, which may take a while; return what was sent."""
        try:
            with self.context.memory.holding(len(answer.body)), suppress(TimeoutError):  # then the connection is closed
                async with asyncio.timeout(self.context.limits.answer_seconds):
                    await answer(scope, receive, send)
        except Problem as problem:
            answer = refusal(problem)
            await answer(scope, receive, send)
        return answer

    async def _first_page(self, _request: Request) -> Answer:
        return Answer(b"", 307, headers=((b"location", b"docs" if self._sides is None else b"compare"),))

    async def _stores(self, request: Request) -> Answer:
        request.parameters(())
        return Answer(json_bytes({"stores": about_stores(self.context)}))

    async def _store(self, request: Request) -> Answer:
        request.parameters(())
        handle = self.context.handle(request.part(2))
        return Answer(json_bytes(await handle.ask(about_store)))

    async def _range(self, request: Request) -> Answer:
        return await page(self.context, request)

    async def _all(self, request: Request) -> Answer | Scan:
        return await Scan.begin(self.context, request)

    async def _health(self, _request: Request) -> Answer:
        return Answer(b'{"status":"ok"}', headers=((b"cache-control", b"no-store"),))

    async def _metrics(self, _request: Request) -> Answer:
        return Answer(self.context.metrics.text, kind=b"text/plain; version=0.0.4; charset=utf-8")

    async def _openapi(self, _request: Request) -> Answer:
        return Answer(json_bytes(openapi()))

    async def _docs(self, _request: Request) -> Answer:
        return docs_page()

    @asynccontextmanager
    async def _lifespan(self, _app: object) -> AsyncIterator[None]:
        yield
        await self.context.close()


class _Endpoint:
    """An ASGI application, which Starlette takes as it is if it is an object."""

    def __init__(self, call: ASGIApp) -> None:
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._call(scope, receive, send)


async def _no_such_path(request: Request) -> Answer:
    raise Problem(404, f"there is no {request.scope['path'][:200]!r} here", hint="see /docs")


def _too_long(seconds: float) -> Problem:
    return Problem(503, f"to make the answer takes longer than {seconds:g} s", hint="ask for less at a time")


def _without_port(host: bytes) -> bytes:
    name, separator, port = host.rpartition(b":")
    return (name if separator and port.isdigit() else host).lower()
