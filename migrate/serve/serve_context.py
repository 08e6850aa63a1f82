"""What all endpoints share."""

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

from migrate.errors import RefusedError, StoreNotReadyError
from migrate.queries.key_routing import HostInfo, KeyQueryMetadata, Router
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.serve.admission import LargeReads, Memory
from migrate.serve.forwarding import FORWARDED, PARTITIONS, Forwarder
from migrate.serve.http_messages import Header, Limits, Metrics, Problem, Request
from migrate.serve.served_stores import Handle, Resolved


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


class Own(NamedTuple):
    """The partitions of this host that a scan reads."""

    views: dict[int | None, Any]
    """By the number of their partition."""
    headers: tuple[Header, ...]
    """How old the answer may be."""


class Context:
    """The stores of this host, the way to the others, and what the service grants."""

    def __init__(
        self, stores: QueryableStores, router: Router | None, token: str | None, limits: Limits, *, stale: bool
    ) -> None:
        self.stores = stores
        self.router = router
        self.limits = limits
        self._is_stale = stale
        self.metrics = Metrics()
        self.cursors = Cursors()
        threads = 2 * limits.scans  # half of them for what scans must not hold up: stores that are opened or looked at
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="stateferry-scan")
        self.me = None if router is None else router.me
        self.memory = Memory(limits.held_bytes)
        self.large = LargeReads(limits, self.memory)
        self.metrics.watch(lambda: self.memory.held)
        self.forwarder = Forwarder(self.me, token, limits, self.metrics, self.memory)
        self._handles: dict[str, Handle] = {}
        self._scans = 0

    def handle(self, name: str) -> Handle:
        """The store of a name. Raises UnknownStateStoreError."""
        found = self._handles.get(name)
        if found is None:
            definition = self.stores.definition(name)
            moving, count = self.limits.move_seconds, self.metrics.retries.inc
            found = self._handles[name] = Handle(self.stores, name, self.pool, self.large, moving, definition, count)
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
        sender = request.header(FORWARDED)
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
        sender, expected = request.header(FORWARDED), request.header(PARTITIONS)
        if sender is None:
            return Placed(own, {host: listed(each) for host, each in every.items() if host is not None})
        if own is None or expected != listed(own):
            has = "does not know which it has active" if own is None else f"has {listed(own) or 'none'} active"
            what = f"this host is asked for the partitions {expected} of the store {store!r} and {has}"
            self.check_not_forwarded(request, what)
        return Placed(own, asked_by=sender)

    def own(self, resolved: Resolved, placed: Placed, *, is_stale: bool) -> Own:
        """What this host answers scans of a store from. Raises Problem, or StoreNotReadyError for a store in use."""
        views = resolved.views(placed.own)
        as_of = [opened.as_of_ms for number in views for opened in resolved.openings(number)]
        known = min((each for each in as_of if each is not None), default=None)
        confirmed = () if placed.asked_by is None else ((PARTITIONS, listed(placed.own).encode()),)
        return Own(views, (*self.as_of(resolved, known, is_stale=is_stale), *confirmed))

    def as_of(self, resolved: Resolved, written_at: int | None, *, is_stale: bool) -> tuple[Header, ...]:
        """The header for an answer from what was written until then; None: from all there is.

        Raises StoreNotReadyError where nobody asked for less than all there is.
        """
        if written_at is None:
            return ()
        if not (is_stale or self._is_stale):
            raise StoreNotReadyError(
                f"the store {resolved.name!r} is in use by its application, which may hold writes in memory",
                hint="stop that application, or ask for what it has written to its files: stale=true",
            )
        return ((b"x-stateferry-as-of", str(written_at).encode()),)

    async def close(self) -> None:
        """Close what was opened for the service; the stores close with their last reader."""
        await self.forwarder.close()
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.large.close()


_NOT_KNOWN = "retry once the application's group is stable; or list the hosts: --hosts"


_SAME_HOSTS = "give every host the same list of hosts; while they change, retry with backoff"


_SIZE = 16


_AGAIN = "ask without a cursor, from the beginning"


@dataclass(frozen=True, slots=True)
class Cursors:
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
        payload = found[_SIZE:]
        if not hmac.compare_digest(found[:_SIZE], self._sign(asked, payload)):
            what = "the cursor is none of this query: it is damaged, or of another store, range or run of the service"
            raise Problem(400, what, hint=_AGAIN)
        was_made_of, place = json.loads(payload)
        if was_made_of != made_of:
            what = "the store was replaced since this cursor was made, or its partitions went to other hosts"
            raise Problem(409, what, hint=_AGAIN)
        return place

    def _sign(self, asked: str, payload: bytes) -> bytes:
        return hmac.digest(self.key, asked.encode() + b"\0" + payload, "sha256")[:_SIZE]
