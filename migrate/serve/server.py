"""The service, listening."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from migrate.errors import (
    RefusedError,
    SpecError,
    StateStoreMigratedError,
    StoreNotReadyError,
    UnknownStateStoreError,
    system_errors_explained,
)
from migrate.queries.key_routing import HostInfo, KeyRouter
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.side_by_side import SideBySideStores

if TYPE_CHECKING:
    from uvicorn import Server

    from migrate.serve.http_messages import Limits
    from migrate.serve.serve_context import ServeContext

TOKEN = "STATEFERRY_TOKEN"
_NAMES = ("localhost", "127.0.0.1", "[::1]")
_GRACE_SECONDS = 5
_SWITCH_SECONDS = 0.0005
"""After which a scan's thread lets point queries in; Python's 5 ms would be their latency."""


def token_of_environment() -> str | None:
    """The bearer token; None: there is none. Raises SpecError for one that no header can hold."""
    token = os.environ.get(TOKEN)
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise SpecError(f"{TOKEN} is empty, or not printable ASCII", hint="take one like `openssl rand -hex 32`")
    return token


def listen(host: str, port: int, *, token: str | None) -> socket.socket:
    """A socket that listens there. Raises RefusedError where it cannot, or would serve other hosts without a token."""
    if token is None and not _is_loopback(host):
        raise RefusedError(
            f"{host} can be reached from other hosts, and no token is set",
            hint=f"set the environment variable {TOKEN}, or bind to 127.0.0.1",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise RefusedError(
            f"cannot listen on {host}:{port}: {error}", hint="name another --port, or an address of this machine"
        ) from error
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else a body waits until the head is acknowledged
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Listening:
    """A service that has its port."""

    server: Server
    socket: socket.socket
    url: str

    def run(self) -> None:
        """Answer until SIGINT or SIGTERM, or until `stop`."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        with suppress(KeyboardInterrupt):  # uvicorn raises the signal again once it has stopped
            self.server.run(sockets=[self.socket])

    def stop(self) -> None:
        """End `run`, from another thread: what is being answered gets some seconds."""
        self.server.should_exit = True


def listening(
    stores: QueryableStores,
    *,
    host: str = "127.0.0.1",
    port: int = 7654,
    router: Callable[[HostInfo], KeyRouter] | None = None,
    limits: Limits | None = None,
    sides: SideBySideStores | None = None,
    stale: bool = True,
) -> Listening:
    """A service of these stores, ready to run.

    Args:
        stores: what is asked; read only.
        host: where to listen; other than this machine only with a token in the environment.
        port: 0 takes any that is free.
        router: from this host's address to what knows the partitions of keys and the other hosts.
        limits: None: the usual ones.
        sides: the old stores and the new ones, where they are those of a migration.
        stale: answer from stores that their application has open without being asked for what is on disk.

    Raises:
        RefusedError: it cannot listen there, or a store is not there.
        SpecError: there is no such format, or the token cannot be one.
        MissingPackageError: the extra `serve` is not installed.
    """
    with system_errors_explained(), ExitStack() as on_error:
        import uvicorn

        from migrate.serve.http_messages import Limits
        from migrate.serve.serve_context import ServeContext
        from migrate.serve.service import Service

        granted, token = limits or Limits(), token_of_environment()
        socket_ = on_error.enter_context(listen(host, port, token=token))
        here = HostInfo(host, socket_.getsockname()[1])
        names = None if token is not None else (*_NAMES, host.lower())
        known = None if router is None else router(here)
        context = ServeContext(stores, router=known, token=token, limits=granted, sides=sides, stale=stale)
        _open(context, is_alone=known is None)
        config = uvicorn.Config(
            Service(context, token, names),
            http="h11",
            loop="asyncio",
            h11_max_incomplete_event_size=granted.head_bytes,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=granted.connections,
            timeout_keep_alive=int(granted.idle_seconds),
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        on_error.pop_all()
        return Listening(uvicorn.Server(config), socket_, f"http://{here}")


def _open(context: ServeContext, *, is_alone: bool) -> None:
    """Open each store, unless it is being moved; a host of several may have no part of one."""
    for name in context.stores.names:
        _ = context.stores.definition(name).stored
        try:
            with suppress(StoreNotReadyError, StateStoreMigratedError):
                handle = context.handle(name)
                handle.use(handle.resolve())
        except UnknownStateStoreError as error:
            if is_alone:
                raise RefusedError(error.message, hint=error.hint) from error
