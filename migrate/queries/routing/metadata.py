"""Which host answers for a key: the metadata that Kafka Streams calls `queryMetadataForKey`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from migrate.errors import RefusedError, SpecError
from migrate.queries.routing.hosts import HostInfo, Placement, StatedHosts, read_hosts
from migrate.queries.routing.murmur2 import default_partition

Partitioner = Callable[[bytes, int], int]
"""From a serialized key and the number of partitions to the key's partition."""


@dataclass(frozen=True, slots=True)
class KeyQueryMetadata:
    """Where a key is."""

    partition: int
    active: HostInfo | None
    """None: not known."""
    standbys: tuple[HostInfo, ...] = ()


class Router(Protocol):
    """Finds the host for a key."""

    @property
    def me(self) -> HostInfo | None:
        """This host; None: it has no address of its own."""
        ...

    def key_metadata(self, store: str, key: bytes) -> KeyQueryMetadata:
        """Where a serialized key is. Raises RefusedError where the number of partitions is not known."""
        ...

    def hosts(self, store: str) -> tuple[HostInfo, ...]:
        """Every host that has an active partition of the store, in a fixed order."""
        ...

    def active_partitions(self, store: str) -> frozenset[int] | None:
        """The partitions of the store that are active on this host; None: all that it has."""
        ...


@dataclass(frozen=True, slots=True)
class KeyRouter:
    """A router by the partitioner, and a placement that is read anew for each question."""

    partitions: Mapping[str, int]
    """The number of partitions of each store's topics."""
    placement: Callable[[], Placement]
    me: HostInfo | None = None
    partitioner: Partitioner = default_partition

    def key_metadata(self, store: str, key: bytes) -> KeyQueryMetadata:
        """Where a serialized key is. Raises RefusedError where the number of partitions is not known."""
        count = self.partitions.get(store)
        if count is None:
            raise RefusedError(
                f"how many partitions the store {store!r} has is not known: the directory of one host does not show it",
                hint="state it: --partitions N",
            )
        partition = self.partitioner(key, count)
        placement = self.placement()
        return KeyQueryMetadata(partition, placement.active(store, partition), placement.standbys(store, partition))

    def hosts(self, store: str) -> tuple[HostInfo, ...]:
        """Every host that has an active partition of the store, in a fixed order."""
        return self.placement().hosts(store)

    def active_partitions(self, store: str) -> frozenset[int] | None:
        """The partitions of the store that are active on this host; None: not known, so all that it has."""
        if self.me is None or store not in self.partitions:
            return None
        placement = self.placement()
        count = self.partitions[store]
        return frozenset(number for number in range(count) if placement.active(store, number) == self.me)


def stated_router(file: Path | None, partitions: Mapping[str, int], me: HostInfo) -> KeyRouter:
    """A router by a file of hosts, or of this host alone.

    Raises SpecError where the file is not one, or lacks this host.
    """
    if file is None:
        return KeyRouter(partitions, lambda: StatedHosts(()))
    found = read_hosts(file)
    if me not in found.listed:
        listed = ", ".join(map(str, found.listed))
        raise SpecError(
            f"{file} lists no host {me}, which this one is (listed: {listed})",
            hint="add it, or say which one this is: --application-server HOST:PORT",
        )
    return KeyRouter(partitions, lambda: found, me)
