"""What all endpoints share: the stores of this host, the way to the others, and cursors.

A cursor says where the next page begins. It is signed, so that none leads into another store or another range:

| size | field                                                                                  |
|------|----------------------------------------------------------------------------------------|
| 16   | the first bytes of HMAC-SHA256 over the range that was asked for and what follows      |
| rest | JSON: which store and which partitions it was made of, and where the page begins       |

All of it in base64url without padding. The key of the HMAC is the process's own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.requests import Request

from migrate.errors import RefusedError, StoreNotReadyError
from migrate.queries.key_routing import HostInfo, KeyQueryMetadata, KeyRouter
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.side_by_side import SideBySideStores
from migrate.serve.forwarding import FORWARDED, PARTITIONS, Forwarder
from migrate.serve.http_messages import Limits, Memory, Metrics, Problem
from migrate.serve.served_stores import Handle, ResolvedStore

_SIGNATURE = 16
_AGAIN = "ask without a cursor, from the beginning"
_NOT_KNOWN = "retry once the application's group is stable; or list the hosts: --hosts"
_SAME_HOSTS = "give every host the same list of hosts; while they change, retry with backoff"


class Placed(NamedTuple):
    """The partitions of a store that a list is made of."""

    own: frozenset[int] | None
    """On this host; None: all that it has."""
    others: Mapping[HostInfo, str] = {}
    """What is expected of each other host, in this order, as `listed` writes it."""
    asked_by: str | None = None
    """The host that expects just `own`; None: a client asks."""

    @property
    def text(self) -> str:
        """A short text that differs wherever the partitions are placed in another way."""
        hosts = {str(host): numbers for host, numbers in self.others.items()}
        return hashlib.sha256(f"{listed(self.own)} {hosts}".encode()).hexdigest()[:16]


def listed(partitions: frozenset[int] | None) -> str:
    """Partitions as the hosts name them to each other."""
    return "" if partitions is None else ",".join(map(str, sorted(partitions)))


class LocalPartitions(NamedTuple):
    """The partitions of this host that a scan reads."""

    views: dict[int | None, Any]
    """By the number of their partition."""
    headers: dict[str, str]
    """How old the answer may be."""


@dataclass(frozen=True, slots=True)
class PageCursors:
    """The cursors of one process."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def seal(self, asked: str, made_of: str, place: object) -> str:
        """The cursor of a place in what was asked for."""
        payload = json.dumps([made_of, place], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._sign(asked, payload) + payload).rstrip(b"=").decode()

    def unseal(self, cursor: str, asked: str, made_of: str) -> Any:  # noqa: ANN401 - what `seal` was given
        """The place of a cursor. Raises Problem, 409 where the store was replaced since, or is on other hosts."""
        try:
            found = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            found = b""
        payload = found[_SIGNATURE:]
        if not hmac.compare_digest(found[:_SIGNATURE], self._sign(asked, payload)):
            what = "the cursor does not belong to this query: it is damaged, or of another store, range or run"
            raise Problem(400, f"{what} of the service", hint=_AGAIN)
        was_made_of, place = json.loads(payload)
        if was_made_of != made_of:
            what = "the store was replaced since this cursor was made, or its partitions went to other hosts"
            raise Problem(409, what, hint=_AGAIN)
        return place

    def _sign(self, asked: str, payload: bytes) -> bytes:
        return hmac.digest(self.key, asked.encode() + b"\0" + payload, "sha256")[:_SIGNATURE]


class ServeContext:
    """The stores of this host, the way to the others, and what the service grants."""

    def __init__(
        self,
        stores: QueryableStores,
        *,
        router: KeyRouter | None = None,
        token: str | None = None,
        limits: Limits | None = None,
        sides: SideBySideStores | None = None,
        stale: bool = True,
    ) -> None:
        """Serve `stores`.

        Args:
            stores: what is asked.
            router: knows the partitions of keys and the other hosts; None: every partition here is asked.
            token: what this host shows to the others; None: nothing.
            limits: None: the usual ones.
            sides: the old stores and the new ones, where they are those of a migration.
            stale: answer from stores that their application has open without being asked for what is on disk.
        """
        self.stores, self.router, self.sides = stores, router, sides
        self.limits = limits or Limits()
        self._is_stale = stale
        self.memory = Memory(self.limits.held_bytes)
        self.metrics = Metrics(self.memory)
        self.cursors = PageCursors()
        threads = 2 * self.limits.scans  # half of them for what scans must not hold up: stores that are opened
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="stateferry-scan")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="stateferry-large")
        self.me = None if router is None else router.me
        self.forwarder = Forwarder(self.me, token, self.limits, self.metrics, self.memory)
        self._handles: dict[str, Handle] = {}
        self._scans = 0

    def handle(self, name: str) -> Handle:
        """The store of a name. Raises UnknownStateStoreError."""
        found = self._handles.get(name)
        if found is None:
            definition = self.stores.definition(name)
            shared = self.limits, self.metrics, self.memory, self.pool, self._large
            found = self._handles[name] = Handle(self.stores, name, *shared, definition)
        return found

    @contextmanager
    def scanning(self) -> Iterator[None]:
        """While one scan or page is read. Raises Problem where there are too many."""
        if self._scans >= self.limits.scans:
            raise Problem(503, f"{self._scans} scans are being read, which is the limit", hint="retry with backoff")
        self._scans += 1
        self.metrics.scans.inc()
        try:
            yield
        finally:
            self._scans -= 1
            self.metrics.scans.dec()

    def metadata(self, store: str, key: object, definition: StoreDefinition) -> KeyQueryMetadata | None:
        """Where a key is; None: this host knows no partitions. Raises Problem where that cannot be told."""
        if self.router is None:
            return None
        try:
            return self.router.key_metadata(store, definition.key.encode(key))
        except RefusedError as error:
            raise Problem(421, error.message, hint=error.hint, error=type(error).__name__) from error

    def elsewhere(self, found: KeyQueryMetadata, request: Request, *, is_stale: bool) -> tuple[HostInfo, ...]:
        """The hosts to ask for a key, in this order; none: this one. Raises Problem for a second forwarding."""
        me = self.me
        if me is None or found.active == me or (is_stale and me in found.standbys):
            return ()
        if found.active is None:
            raise Problem(503, f"which host has partition {found.partition} active is not known", hint=_NOT_KNOWN)
        self.check_not_forwarded(request, f"partition {found.partition} is at {found.active}, not here at {me}")
        return (found.active, *found.standbys) if is_stale else (found.active,)

    def check_not_forwarded(self, request: Request, what: str) -> None:
        """Raises Problem for a request that another host has forwarded."""
        sender = request.headers.get(FORWARDED)
        if sender is None:
            return
        if sender == str(self.me):
            raise Problem(508, f"this host has forwarded the request to itself: {what}", hint=_SAME_HOSTS)
        raise Problem(421, f"{what}, and {sender} has forwarded the request already", hint=_SAME_HOSTS)

    def placed(self, store: str, request: Request) -> Placed:
        """Where a list of a store is read: each partition once, by one reading of the hosts.

        Raises Problem where a partition is on no known host, or another host expects other partitions of this one.
        """
        try:
            every = {} if self.router is None else dict(self.router.active_by_host(store))
        except RefusedError as error:
            raise Problem(503, error.message, hint=error.hint, error=type(error).__name__) from error
        own = None if self.router is None else every.pop(self.me, frozenset())
        sender, expected = request.headers.get(FORWARDED), request.headers.get(PARTITIONS)
        if sender is None:
            return Placed(own, {host: listed(each) for host, each in every.items() if host is not None})
        if own is None or expected != listed(own):
            has = "does not know which it has active" if own is None else f"has {listed(own) or 'none'} active"
            what = f"this host is asked for the partitions {expected} of the store {store!r} and {has}"
            self.check_not_forwarded(request, what)
        return Placed(own, asked_by=sender)

    def own(self, resolved: ResolvedStore, placed: Placed, *, is_stale: bool) -> LocalPartitions:
        """What this host answers scans of a store from. Raises Problem, or StoreNotReadyError for a store in use."""
        views = resolved.views(placed.own)
        as_of = [opened.as_of_ms for number in views for opened in resolved.openings(number)]
        known = min((each for each in as_of if each is not None), default=None)
        confirmed = {} if placed.asked_by is None else {PARTITIONS: listed(placed.own)}
        return LocalPartitions(views, self.as_of(resolved, known, is_stale=is_stale) | confirmed)

    def as_of(self, resolved: ResolvedStore, written_at: int | None, *, is_stale: bool) -> dict[str, str]:
        """The header for an answer from what was written until then; None: from all there is.

        Raises StoreNotReadyError where nobody asked for less than all there is.
        """
        if written_at is None:
            return {}
        if not (is_stale or self._is_stale):
            raise StoreNotReadyError(
                f"the store {resolved.name!r} is in use by its application, which may hold writes in memory",
                hint="stop that application, or ask for what it has written to its files: stale=true",
            )
        return {"x-stateferry-as-of": str(written_at)}

    async def close(self) -> None:
        """Close what was opened for the service; the stores close with their last reader."""
        await self.forwarder.close()
        for threads in (self.pool, self._large):
            threads.shutdown(wait=False, cancel_futures=True)
