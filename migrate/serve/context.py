"""What all endpoints share."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from migrate.errors import RefusedError
from migrate.queries.definition import StoreDefinition
from migrate.queries.routing.hosts import HostInfo
from migrate.queries.routing.metadata import KeyQueryMetadata, Router
from migrate.queries.stores import QueryableStores
from migrate.serve.forwarding import FORWARDED, Forwarder
from migrate.serve.handles import Handle
from migrate.serve.web.cursors import Cursors
from migrate.serve.web.limits import Limits
from migrate.serve.web.metrics import Metrics
from migrate.serve.web.problems import Problem
from migrate.serve.web.wire import Request


class Context:
    """The stores of this host, the way to the others, and what the service grants."""

    def __init__(self, stores: QueryableStores, router: Router | None, token: str | None, limits: Limits) -> None:
        self.stores = stores
        self.router = router
        self.limits = limits
        self.metrics = Metrics()
        self.cursors = Cursors()
        self.pool = ThreadPoolExecutor(limits.scans, thread_name_prefix="stateferry-scan")
        self.forwarder = Forwarder(None if router is None else router.me, token, limits, self.metrics)
        self._handles: dict[str, Handle] = {}
        self._scans = 0

    def handle(self, name: str) -> Handle:
        """The store of a name. Raises UnknownStateStoreError."""
        found = self._handles.get(name)
        if found is None:
            self.stores.definition(name)
            moving, count = self.limits.move_seconds, self.metrics.retries.inc
            found = self._handles[name] = Handle(self.stores, name, self.pool, moving, count)
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
        me = None if self.router is None else self.router.me
        if me is None or found.active is None or found.active == me or (is_stale and me in found.standbys):
            return ()
        self.check_not_forwarded(request, f"partition {found.partition} is at {found.active}, not here at {me}")
        return (found.active, *found.standbys) if is_stale else (found.active,)

    def check_not_forwarded(self, request: Request, what: str) -> None:
        """Raises Problem for a request that another host has forwarded."""
        sender = request.header(FORWARDED)
        if sender is None:
            return
        if self.router is not None and sender == str(self.router.me):
            raise Problem(508, f"this host has forwarded the request to itself: {what}", hint=_SAME_HOSTS)
        raise Problem(421, f"{what}, and {sender} has forwarded the request already", hint=_SAME_HOSTS)

    def others(self, store: str, request: Request) -> tuple[HostInfo, ...]:
        """The other hosts of a store, whose own records follow those of this one."""
        if self.router is None or self.router.me is None or request.header(FORWARDED) is not None:
            return ()
        return tuple(host for host in self.router.hosts(store) if host != self.router.me)

    def own(self, store: str) -> frozenset[int] | None:
        """The partitions that this host answers scans from; None: all that it has."""
        return None if self.router is None else self.router.active_partitions(store)

    async def close(self) -> None:
        """Close what was opened for the service; the stores close with their last reader."""
        await self.forwarder.close()
        self.pool.shutdown(wait=False, cancel_futures=True)


_SAME_HOSTS = "give every host the same list of hosts"
