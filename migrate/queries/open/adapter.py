"""The stores of an adapter in this process: read through its handles, as its other threads read them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, islice

from migrate.dual.handles import ReadHandle, Stores
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.partition import Opened, OpenSegment, Partition
from migrate.stores.records import BatchSource, Record, Records

_OPENINGS = count()
_PROCESS = secrets.token_hex(6)


class AdapterStores:
    """The stores that are open under a name in `Stores`; each is a single store partition."""

    def __init__(self, stores: Stores, definitions: Mapping[str, StoreDefinition]) -> None:
        self._stores = stores
        self._definitions = dict(definitions)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are defined."""
        return tuple(sorted(self._definitions))

    def definition(self, name: str) -> StoreDefinition:
        """How the store of this name is read: in its new format."""
        return self._definitions[name]

    def open(self, name: str) -> list[Partition]:
        """The one store partition. Raises StoreNotReadyError while the store is opened or handed over."""
        return [_AdapterPartition(name, self._stores.resolve(name), self._definitions[name])]


class _AdapterPartition:
    """A store of this process, as `Partition` says; its handle notices a convergence and a hand-over."""

    number = None

    def __init__(self, name: str, handle: ReadHandle, definition: StoreDefinition) -> None:
        self.id = name
        self._handle = handle
        self._format = definition.stored
        self._segments = (OpenSegment(None, _HandleEntries(handle)),)

    def opened(self) -> Opened:
        """The store as it is from now on: every other opening may differ."""
        self._handle.check()
        return Opened(self._format, self._segments, {}, f"{_PROCESS}-{next(_OPENINGS)}")

    recent = opened

    def check(self) -> None:
        """Raise StateStoreMigratedError where the store was replaced or has converged."""
        self._handle.check()


@dataclass(frozen=True, slots=True)
class _HandleEntries:
    handle: ReadHandle

    def get(self, key: bytes) -> bytes | None:
        return self.handle.get(key)

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        return _Pulled(self.handle.range(start, end, reverse=reverse))

    @property
    def estimated_records(self) -> int:
        return self.handle.approximate_num_entries()


@dataclass(frozen=True, slots=True)
class _Pulled:
    records: Records

    def pull(self, limit: int) -> list[Record]:
        return list(islice(self.records, limit))

    def close(self) -> None:
        self.records.close()
