"""The stores that the service answers from: resolved once, and again when a migration replaces them."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from migrate.errors import StateStoreMigratedError, StoreClosedError, StoreNotReadyError
from migrate.queries.open.partition import Entries, Opened, Partition, StoreDefinition
from migrate.queries.open.pinned import PinnedPartition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.retries import Retries
from migrate.serve.http_messages import Limits, Memory, Metrics, Problem
from migrate.serve.record_json import type_of
from migrate.stores.state_store import BatchSource

T = TypeVar("T")
_MOVING = (StateStoreMigratedError, StoreNotReadyError, StoreClosedError)


@dataclass(frozen=True)
class ResolvedStore:
    """The views of a store as it was at one time."""

    name: str
    generation: int
    """How often the store was replaced before, as this service saw it."""
    definition: StoreDefinition
    partitions: tuple[Partition, ...]
    """On this host, by their numbers."""
    whole: Any
    """The view of all partitions here, each of the type that its format is."""
    by_number: dict[int | None, Any]
    """The view of each partition."""
    small: ResolvedStore | None = None
    """The same, of views that raise _LargeValue: for what is read on the event loop."""

    def view(self, partition: int | None) -> Any:  # noqa: ANN401 - of the type that its format is
        """The view of one partition; None: of all. Raises Problem where the partition is not here."""
        if partition is None or None in self.by_number:  # a bare RocksDB directory has no partition number
            return self.whole
        found = self.by_number.get(partition)
        if found is None:
            here = ", ".join(str(number) for number in self.by_number) or "none"
            what = f"partition {partition} of the store {self.name!r} is not on this host (here: {here})"
            raise Problem(421, what, hint="ask the host that has it, or start the service with --hosts")
        return found

    def views(self, wanted: frozenset[int] | None) -> dict[int | None, Any]:
        """The view of each partition here that is wanted; None: of all. Raises Problem where one is not here."""
        if wanted is None or (wanted and None in self.by_number):
            return self.by_number
        return {number: self.view(number) for number in sorted(wanted)}

    def written_ms(self, partition: int | None) -> int | None:
        """When the newest file was written, of the partition that was not written to for longest."""
        return min((each.written_ms for each in self.openings(partition) if each.written_ms is not None), default=None)

    def openings(self, partition: int | None) -> list[Opened]:
        """The partitions that a view of one or of all reads, as they are now. Raises the errors of `opened`."""
        alone = [each for each in self.partitions if each.number == partition] if partition is not None else []
        return [each.opened() for each in alone or self.partitions]


@dataclass(frozen=True, slots=True)
class _Mixed:
    """The view of all partitions in the middle of a switch, where some have timestamps and others do not."""

    views: list[Any]

    def get(self, *asked: object) -> Any:  # noqa: ANN401 - as its view gives it
        return next((found for view in self.views if (found := view.get(*asked)) is not None), None)

    def fetch(self, *asked: object) -> AbstractContextManager[Iterator[Any]]:
        return self._each("fetch", asked)

    def find_sessions(self, *asked: object) -> AbstractContextManager[Iterator[Any]]:
        return self._each("find_sessions", asked)

    @contextmanager
    def _each(self, method: str, asked: tuple[object, ...]) -> Iterator[Iterator[Any]]:
        with ExitStack() as found:
            yield chain.from_iterable(found.enter_context(getattr(view, method)(*asked)) for view in self.views)


class _LargeValue(Exception):
    def __init__(self, size: int) -> None:
        self.size = size


@dataclass(frozen=True, slots=True)
class _SmallEntries:
    """Entries of which large values are not read."""

    entries: Entries
    most: int

    def get(self, key: bytes) -> bytes | None:
        value = self.entries.get(key)
        if value is not None and len(value) > self.most:
            raise _LargeValue(len(value))
        return value

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        return self.entries.scan(start, end, reverse=reverse)

    @property
    def estimated_records(self) -> int:
        return self.entries.estimated_records


def _with_small(opened: Opened, most: int) -> Opened:
    """As it is read on the event loop, which one large value would hold up."""
    segments = tuple(replace(each, entries=_SmallEntries(each.entries, most)) for each in opened.segments)
    return replace(opened, segments=segments)


class SeenPartition:
    """A store partition that is read in another way than it is stored."""

    def __init__(self, partition: Partition, see: Callable[[Opened], Opened]) -> None:
        self.id, self.number, self.check = partition.id, partition.number, partition.check
        self._partition, self._see = partition, see
        self._seen: tuple[Opened, Opened] | None = None

    def opened(self) -> Opened:
        return self._seen_as(self._partition.opened())

    def recent(self) -> Opened:
        return self._seen_as(self._partition.recent())

    def _seen_as(self, opened: Opened) -> Opened:
        if self._seen is None or self._seen[0] is not opened:
            self._seen = opened, self._see(opened)
        return self._seen[1]


@dataclass
class Handle:
    """One store of the service. What its queries share changes on the event loop alone: no lock stops it."""

    stores: QueryableStores
    name: str
    limits: Limits
    metrics: Metrics
    memory: Memory
    pool: ThreadPoolExecutor
    large: ThreadPoolExecutor
    """Of one thread, which reads the large values of all stores."""
    definition: StoreDefinition
    """How the store is read, or was when it was read last."""
    generation: int = 0
    """How often the store was replaced, as this service saw it."""
    _resolved: ResolvedStore | None = None
    _opening: asyncio.Future[ResolvedStore] | None = None
    """Of all queries that wait for it."""
    _next_look: float = 0.0
    _etags: dict[int | None, tuple[str, str]] = field(default_factory=dict)

    def resolve(self) -> ResolvedStore:
        """The store as it is now, opened. Slow: of a thread."""
        definition = self.stores.definition(self.name)
        found = sorted(self.stores.partitions(self.name), key=lambda each: (each.number or 0, each.id))
        small = [SeenPartition(each, partial(_with_small, most=self.limits.large_bytes)) for each in found]
        return replace(self._viewed(definition, found), small=self._viewed(definition, small))

    def _viewed(self, definition: StoreDefinition, found: Sequence[Partition]) -> ResolvedStore:
        kinds = [type_of(each.opened().format) for each in found]
        views = {each.number: kind.view(self.name, [each], definition) for each, kind in zip(found, kinds, strict=True)}
        kind, *others = {*kinds} or {type_of(definition.stored)}
        whole = _Mixed([*views.values()]) if others else kind.view(self.name, [*found], definition)
        return ResolvedStore(self.name, self.generation, definition, tuple(found), whole, views)

    async def _open(self) -> ResolvedStore:
        """The store as it is now, opened once for all who ask meanwhile."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().run_in_executor(self.pool, self.resolve)
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    def _opened(self, opening: asyncio.Future[ResolvedStore]) -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self.use(opening.result())

    def use(self, resolved: ResolvedStore) -> None:
        """Answer from this from now on."""
        self._resolved, self.definition, self._next_look = resolved, resolved.definition, 0.0

    async def ask(self, read: Callable[[ResolvedStore], T], *, is_quick: bool = False) -> T:
        """What `read` returns, in a thread unless it is quick; asked again while the store is being replaced.

        Raises StoreNotReadyError or StateStoreMigratedError where that takes longer than the limit, and Problem where
        there is no memory for a large value.
        """
        retries: Retries | None = None
        while True:
            try:
                return await self._asked(read, is_quick=is_quick)
            except _MOVING as error:
                self.metrics.retries.inc()
                retries = retries or Retries(self.limits.move_seconds)
                await asyncio.sleep(retries.pause_after(error))

    async def _asked(self, read: Callable[[ResolvedStore], T], *, is_quick: bool) -> T:
        resolved = self._resolved or await self._open()
        seen = (resolved.small or resolved) if is_quick else resolved
        loop = asyncio.get_running_loop()
        try:
            if is_quick and not self._is_due(resolved):
                return read(seen)
            return await loop.run_in_executor(self.pool, read, seen)
        except _LargeValue as value:
            with self.memory.holding(value.size):
                return await loop.run_in_executor(self.large, read, resolved)
        except (StateStoreMigratedError, StoreClosedError):
            if self._resolved is resolved:  # the next query resolves the store again
                self._resolved = None
                self.generation += 1
            raise

    def _is_due(self, resolved: ResolvedStore) -> bool:
        """Whether a read may look at the files again."""
        now = time.monotonic()
        if now >= self._next_look:
            looks = [each.next_look for each in resolved.partitions if isinstance(each, PinnedPartition)]
            self._next_look = min(looks, default=math.inf)
        return now >= self._next_look

    def etag(self, resolved: ResolvedStore, partition: int | None) -> tuple[str, int | None]:
        """(the entity tag of answers from a partition, or from all, as they are now; the oldest `as_of_ms`)."""
        found = resolved.openings(partition)
        tag = "-".join([each.tag for each in found])
        known, etag = self._etags.get(partition, ("", ""))
        if known != tag:
            etag = f'"{hashlib.sha256(f"{tag} {resolved.definition}".encode()).hexdigest()[:32]}"'
            self._etags[partition] = tag, etag
        return etag, min([each.as_of_ms for each in found if each.as_of_ms is not None], default=None)
