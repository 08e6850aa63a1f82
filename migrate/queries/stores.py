"""`QueryableStores`: the stores of a process, a directory or a migration, by name and type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from formats import Format
from migrate.errors import InvalidStateStoreError, InvalidStateStorePartitionError, UnknownStateStoreError
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.directory import Directory
from migrate.queries.open.partition import Partition

V_co = TypeVar("V_co", covariant=True)


class StoreType(Protocol[V_co]):
    """A type of store to ask for: one of `QueryableStoreTypes`."""

    def accepts(self, format: Format) -> bool:
        """Whether a store of this format is of this type."""
        ...

    def view(self, store_name: str, partitions: list[Partition], definition: StoreDefinition) -> V_co:
        """The view that reads these store partitions."""
        ...


class QueryableStores:
    """Stores to query by name. Safe to share between threads."""

    def __init__(self, source: Directory) -> None:
        self._source = source

    @classmethod
    def of_directory(
        cls,
        path: str | Path,
        definitions: Mapping[str, StoreDefinition],
        *,
        stale: bool = False,
        refresh: float = 0.5,
    ) -> QueryableStores:
        """The stores in an application's directory; or a RocksDB directory by itself, under a name of your own."""
        return cls(Directory(Path(path), definitions, stale=stale, refresh=refresh))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the stores."""
        return tuple(sorted(self._source.definitions))

    def definition(self, name: str) -> StoreDefinition:
        """How the store is read. Raises UnknownStateStoreError."""
        known = self._source.definitions.get(name)
        if known is None:
            raise UnknownStateStoreError(
                f"there is no store {name!r} (there are: {', '.join(self.names) or 'none'})",
                hint="ask for one of these names",
            )
        return known

    def partitions(self, name: str) -> list[Partition]:
        """The store partitions on this host, as they are now. Raises UnknownStateStoreError, StoreNotReadyError."""
        self.definition(name)
        return self._source.open(name)

    def store(self, name: str, store_type: StoreType[V_co], partition: int | None = None) -> V_co:
        """A view of the store, of all its partitions on this host or of one."""
        definition = self.definition(name)
        if not store_type.accepts(definition.stored):
            raise InvalidStateStoreError(
                f"cannot get the state store {name!r}: it is {definition.stored.id}, which is not {store_type!r}",
                hint="ask for a type that the store is",
            )
        found = self.partitions(name)
        if partition is not None:
            numbers = ", ".join(str(each.number) for each in found)
            found = [each for each in found if each.number == partition]
            if not found:
                raise InvalidStateStorePartitionError(
                    f"partition {partition} of the store {name!r} is not on this host (here: {numbers or 'none'})",
                    hint="ask the host that has it",
                )
        return store_type.view(name, found, definition)
