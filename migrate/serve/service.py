"""The service as an ASGI application: who may ask, what, and what is measured of it. Reads only, by construction."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any
from urllib.parse import unquote_to_bytes

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from migrate.model.packages import VERSION
from migrate.serve.http_messages import PIECE, Problem, json_answer, problem_of, refusal, send_body
from migrate.serve.key_endpoints import about_store, about_stores, compare_page, compared, metadata, record, several
from migrate.serve.range_endpoints import ScanStream, all_records, page
from migrate.serve.record_json import sessions_of, windows_of
from migrate.serve.serve_context import ServeContext

Handler = Callable[[ServeContext, Request], Awaitable[Response | ScanStream]]
_PROBE = "/health"
_PUBLIC = (_PROBE, "/docs", "/openapi.json")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class _Rest(PathConvertor):
    """The rest of a path, with slashes and, other than Starlette's own `path`, with line ends."""

    regex = r"[\s\S]*"


register_url_convertor("rest", _Rest())


@cache
def openapi() -> dict[str, Any]:
    """What can be asked, as an OpenAPI 3.1 document."""
    found: dict[str, Any] = json.loads(files("migrate.serve").joinpath("templates/openapi.json").read_bytes())
    found["info"]["version"] = VERSION
    return found


@cache
def _docs_page() -> str:
    """The same as a page without scripts."""
    loader = PackageLoader("migrate.serve", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("docs.html.j2").render(api=openapi())


async def _first_page(context: ServeContext, _request: Request) -> Response:
    return RedirectResponse("docs" if context.sides is None else "compare")


async def _health(_context: ServeContext, _request: Request) -> Response:
    return json_answer({"status": "ok"}, {"cache-control": "no-store"})


async def _metrics(context: ServeContext, _request: Request) -> Response:
    return Response(context.metrics.text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _openapi(_context: ServeContext, _request: Request) -> Response:
    return json_answer(openapi())


async def _docs(_context: ServeContext, _request: Request) -> Response:
    return HTMLResponse(_docs_page(), headers={"content-security-policy": _POLICY})


async def _nothing(_context: ServeContext, request: Request) -> Response:
    raise Problem(404, f"there is no {request.scope['path'][:200]!r} here", hint="see /docs")


ENDPOINTS: dict[str, tuple[str, Handler]] = {
    "/stores/{store}/keys/{key:rest}": ("keys", record),  # the first that is compared: it is asked most
    "/": ("none", _first_page),
    "/stores": ("stores", about_stores),
    "/stores/{store}": ("store", about_store),
    "/stores/{store}/windows/{key:rest}": ("windows", partial(several, windows_of)),
    "/stores/{store}/sessions/{key:rest}": ("sessions", partial(several, sessions_of)),
    "/stores/{store}/range": ("range", page),
    "/stores/{store}/all": ("all", all_records),
    "/metadata/{store}/{key:rest}": ("metadata", metadata),
    "/compare": ("compare", compare_page),
    "/compare/{store}/{key:rest}": ("compare", compared),
    _PROBE: ("health", _health),
    "/metrics": ("metrics", _metrics),
    "/openapi.json": ("openapi", _openapi),
    "/docs": ("docs", _docs),
}
"""By their paths: under which name each is counted, and what answers."""


class Service:
    """The stores of one process, over HTTP."""

    def __init__(self, context: ServeContext, token: str | None = None, names: tuple[str, ...] | None = None) -> None:
        """Serve the stores of `context`.

        Args:
            context: what all endpoints share.
            token: what a client has to show; None: nothing.
            names: the names that a client may call this host, so that no web page reaches a service without a token
                under a name of its own; None: any.
        """
        self.context = context
        self._token = None if token is None else f"Bearer {token}".encode()
        self._names = None if names is None else frozenset(name.encode() for name in names)
        self._count = 0
        routes = [Route(path, _Endpoint(context, *about)) for path, about in ENDPOINTS.items()]
        nothing = _Endpoint(context, "none", _nothing)
        self._routes = Router(routes, redirect_slashes=False, default=nothing, lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._routes(scope, receive, send)
            return
        try:
            self._check(scope)
        except Problem as problem:
            self.context.metrics.answered("refused", problem.status, 0.0)
            await refusal(problem)(scope, receive, send)
            return
        self._count += 1
        try:
            await self._routes(scope, receive, send)
        finally:
            self._count -= 1

    def _check(self, scope: Scope) -> None:
        """Raises Problem for a request that is none, beyond the limit, or not allowed."""
        _check_head(scope)
        if self._count >= self.context.limits.requests and scope["path"] != _PROBE:
            what = f"{self._count} requests are being answered, which is the limit"
            raise Problem(503, what, hint="retry with backoff")
        if scope["method"] not in ("GET", "HEAD"):
            raise Problem(405, f"{scope['method']} is not possible: the service only reads", hint="use GET")
        headers = dict(scope["headers"])
        if self._token is not None:
            shown = as_bearer(headers.get(b"authorization", b""))
            if scope["path"] not in _PUBLIC and not hmac.compare_digest(shown, self._token):
                raise Problem(401, "the bearer token is missing or wrong", hint="send Authorization: Bearer TOKEN")
        elif self._names is not None and _without_port(headers.get(b"host", b"")) not in self._names:
            what = "this service has no token, and answers only to its own name"
            raise Problem(403, what, hint="ask for it as localhost, or start it with STATEFERRY_TOKEN")

    @asynccontextmanager
    async def _lifespan(self, _app: object) -> AsyncIterator[None]:
        yield
        await self.context.close()


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An ASGI application, which Starlette takes as it is if it is an object."""

    context: ServeContext
    name: str
    """Under which its answers are counted."""
    handler: Handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        seconds = self.context.limits.answer_seconds
        answer: Response | ScanStream
        try:
            async with asyncio.timeout(seconds):
                answer = await self.handler(self.context, Request(scope, receive))
        except TimeoutError:
            what = f"to make the answer takes longer than {seconds:g} s"
            answer = refusal(Problem(503, what, hint="ask for less at a time"))
        except Exception as error:  # noqa: BLE001 - each has its status
            answer = refusal(problem_of(error))
        if isinstance(answer, Response) and len(answer.body) > PIECE:
            answer = await self._send_large(answer, scope, receive, send)
        else:
            await answer(scope, receive, send)
        self.context.metrics.answered(self.name, answer.status_code, time.perf_counter() - began)

    async def _send_large(self, answer: Response, scope: Scope, receive: Receive, send: Send) -> Response:
        """Send an answer of several pieces, which may take a while; return what was sent."""
        status, headers = answer.status_code, answer.raw_headers
        try:
            with self.context.memory.holding(len(answer.body)), suppress(TimeoutError):  # then the connection is closed
                async with asyncio.timeout(self.context.limits.answer_seconds):
                    await send({"type": "http.response.start", "status": status, "headers": headers})
                    await send_body(send, bytes(answer.body))
        except Problem as problem:
            answer = refusal(problem)
            await answer(scope, receive, send)
        return answer


def _check_head(scope: Scope) -> None:
    """Set the path to the text that it stands for. Raises Problem for what h11 takes, and is ambiguous or unknown."""
    names = [name for name, _ in scope["headers"]]
    if b"transfer-encoding" in names:  # first, for it alone closes the connection
        raise Problem(411, "the request has a body without a stated length", hint="send none: nothing is written")
    if scope["http_version"] not in ("1.0", "1.1"):
        raise Problem(400, f"HTTP/{scope['http_version']} is not known here", hint="use HTTP/1.1")
    if (count := names.count(b"authorization")) > 1:
        raise Problem(400, f"the request has {count} Authorization headers", hint="send one")
    raw = scope["raw_path"]
    if not raw.startswith(b"/"):
        scheme, _, place = raw.partition(b"://")
        if scheme.lower() not in (b"http", b"https"):
            raise Problem(400, "the request's target is not a path", hint="a path begins with /")
        raw = b"/" + place.partition(b"/")[2]
    try:  # another text would be the key of something else
        scope["raw_path"], scope["path"] = raw, unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise Problem(400, f"the path is not UTF-8 text: {error.reason}", hint="percent-encode its UTF-8") from error


def as_bearer(authorization: bytes) -> bytes:
    """The header's value; that of a browser's dialog, any user with the token as password, as a bearer's."""
    scheme, _, credentials = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return authorization
    try:
        return b"Bearer " + base64.b64decode(credentials, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _without_port(host: bytes) -> bytes:
    name, separator, port = host.rpartition(b":")
    return (name if separator and port.isdigit() else host).lower()
