"""`QueryableStores`: the stores of a directory, a migration or an adapter, by name and type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from formats import Format, Function
from migrate.dual.handles import Stores
from migrate.dual.lazy_conversion import KeyFunction
from migrate.errors import (
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    StateStoreMigratedError,
    StoreClosedError,
    StoreNotReadyError,
    UnknownStateStoreError,
    system_errors_explained,
)
from migrate.queries.key_routing import KeyQueryMetadata, KeyRouter
from migrate.queries.open.partition import Partition, StoreDefinition
from migrate.queries.open.store_sources import AdapterStores, DirectoryStores, MigrationStores, Side
from migrate.queries.requests import StateQueryRequest, StateQueryResult, answer
from migrate.spec.spec import Spec

V_co = TypeVar("V_co", covariant=True)
_REFRESH_SECONDS = 0.5
_ATTEMPTS = 3
_Source = AdapterStores | DirectoryStores | MigrationStores
"""Where stores come from. `open` finds them as they are now: UnknownStateStoreError, StoreNotReadyError."""


class StoreType(Protocol[V_co]):
    """A type of store to ask for: one of `QueryableStoreTypes`."""

    def accepts(self, format: Format) -> bool:
        """Whether a store of this format is of this type."""

    def view(self, store_name: str, partitions: list[Partition], definition: StoreDefinition) -> V_co:
        """The view that reads these store partitions."""


class QueryableStores:
    """Stores to query by name. Safe to share between threads.

    Files stay open as long as a view or an iterator refers to them. What is asked by name is looked up each time: ask
    for a view once, and again after StateStoreMigratedError.
    """

    def __init__(self, source: _Source) -> None:
        """Made by `of_directory`, `of_migration` or `of_adapter`."""
        self._source = source
        self._resolved: dict[str, list[Partition]] = {}

    @classmethod
    def of_directory(
        cls,
        path: str | Path,
        definitions: Mapping[str, StoreDefinition],
        *,
        stale: bool = False,
        refresh: float = _REFRESH_SECONDS,
        convert: Mapping[str, Function] | None = None,
        old_key: Mapping[str, KeyFunction] | None = None,
    ) -> QueryableStores:
        """The stores in an application's directory; or a RocksDB directory by itself, under a name of your own.

        Args:
            path: the directory.
            definitions: how each store is read, by name; a half-converged one as what it becomes.
            stale: read a store that an application has open as its files are, without what is in its memory.
            refresh: seconds after which files are looked at again, 0: at each use; a store that changes all the time
                and takes long to open is looked at less often.
            convert: the function that the adapter of a half-converged store was opened with, by name.
            old_key: likewise.
        """
        source = DirectoryStores(
            Path(path), definitions, convert=convert or {}, old_key=old_key or {}, stale=stale, refresh=refresh
        )
        return cls(source)

    @classmethod
    def of_migration(
        cls, spec: Spec, side: Side = "live", *, stale: bool = False, refresh: float = _REFRESH_SECONDS
    ) -> QueryableStores:
        """The stores of a migration: those that the application uses now, the old ones or the new ones.

        Formats, serdes and retentions are those of the spec. A store with a new name is found under both names.
        """
        return cls(MigrationStores(spec, side, stale=stale, refresh=refresh))

    @classmethod
    def of_adapter(cls, stores: Stores, definitions: Mapping[str, StoreDefinition]) -> QueryableStores:
        """The stores that are open in this process, by the names that they have there, in their new formats."""
        return cls(AdapterStores(stores, definitions))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the stores."""
        return self._source.names

    @system_errors_explained()
    def definition(self, name: str) -> StoreDefinition:
        """How the store is read at present. Raises UnknownStateStoreError."""
        self._check_known(name)
        return self._source.definition(name)

    @system_errors_explained()
    def partitions(self, name: str) -> list[Partition]:
        """The store partitions on this host, as they are now.

        Raises UnknownStateStoreError, StoreNotReadyError, and RefusedError for files that cannot be read.
        """
        self._check_known(name)
        return self._source.open(name)

    @system_errors_explained()
    def store(self, name: str, store_type: StoreType[V_co], partition: int | None = None) -> V_co:
        """A view of the store, of all its partitions on this host or of one.

        Raises the errors of `partitions`, InvalidStateStoreError where the store is not of this type, and
        InvalidStateStorePartitionError where the partition is not here.
        """
        found = self.partitions(name)
        if partition is not None:
            found = self._only(name, found, partition)
        definition = self._source.definition(name)
        for stored in (definition.stored, *(each.opened().format for each in found)):
            if not store_type.accepts(stored):
                raise InvalidStateStoreError(
                    f"cannot get the state store {name!r}: it is of {stored.id}, and not of the type {store_type}",
                    hint="ask for the type that it is",
                )
        return store_type.view(name, found, definition)

    @system_errors_explained()
    def query(self, request: StateQueryRequest) -> StateQueryResult:
        """Ask a query, of each wanted store partition on this host; a store that was replaced is resolved again.

        Raises UnknownStateStoreError, and StoreNotReadyError where none of it can be opened.
        """
        name = request.store_name
        for _ in range(_ATTEMPTS):
            resolved = self._resolved.get(name)
            if resolved is None:
                resolved = self._resolved[name] = self.partitions(name)
            try:
                return answer(request, resolved, self.definition(name))
            except (StateStoreMigratedError, StoreClosedError):
                self._resolved.pop(name, None)
        raise StoreNotReadyError(
            f"the state store {name!r} is being replaced again and again", hint="retry with backoff"
        )

    @system_errors_explained()
    def key_metadata(self, name: str, key: object, *, router: KeyRouter) -> KeyQueryMetadata:
        """Which partition a key belongs to, and which hosts have it; the key of a window or session without its times.

        The key is serialized by the store's key serde, and `router` has the partitioner: Kafka's own, or one of yours.
        Raises UnknownStateStoreError, EntryError for a key that the serde cannot write, and RefusedError where `router`
        does not know how many partitions the store has.
        """
        return router.key_metadata(name, self.definition(name).key.encode(key))

    def _check_known(self, name: str) -> None:
        if name not in self._source.names:
            raise UnknownStateStoreError(
                f"there is no state store {name!r} (there are: {', '.join(self._source.names) or 'none'})",
                hint="ask for one of these names",
            )

    def _only(self, name: str, found: list[Partition], partition: int) -> list[Partition]:
        wanted = [each for each in found if each.number == partition]
        if not wanted:
            here = ", ".join(str(each.number) for each in found if each.number is not None)
            raise InvalidStateStorePartitionError(
                f"partition {partition} of the state store {name!r} is not on this host (here: {here or 'none'})",
                hint="ask the host that has it",
            )
        return wanted
