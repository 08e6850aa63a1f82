"""Which host answers for a key: the metadata that Kafka Streams calls `queryMetadataForKey`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from formats.partitioners import Partitioner, default_partition
from migrate.errors import RefusedError, SpecError
from migrate.queries.routing.hosts import HostInfo, Placement, StatedHosts


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

    def active_by_host(self, store: str) -> Mapping[HostInfo | None, frozenset[int]]:
        """The active partitions of each host, each partition once; all with `me` where no hosts are known.

        Raises RefusedError where a partition is on no host that is known.
        """
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
        partition = self.partitioner(key, self._count(store))
        placement = self.placement()
        return KeyQueryMetadata(partition, placement.active(store, partition), placement.standbys(store, partition))

    def hosts(self, store: str) -> tuple[HostInfo, ...]:
        """Every host that has an active partition of the store, in a fixed order."""
        return self.placement().hosts(store)

    def active_partitions(self, store: str) -> frozenset[int] | None:
        """The partitions of the store that are active on this host; None: it is no host of several.

        Raises RefusedError where a partition is on no host that is known.
        """
        return None if self.me is None else self.active_by_host(store).get(self.me, frozenset())

    def active_by_host(self, store: str) -> Mapping[HostInfo | None, frozenset[int]]:
        """The active partitions of each host, each partition once; all with `me` where no hosts are known.

        Raises RefusedError where a partition is on no host that is known.
        """
        numbers = range(self._count(store))
        if self.me is None:
            return {None: frozenset(numbers)}
        placement = self.placement()
        active = [placement.active(store, number) for number in numbers]
        if None in active:
            raise RefusedError(
                f"no host is known that has partition {active.index(None)} of the store {store!r} active",
                hint="list it in the hosts; or wait until the application's group is stable",
            )
        return {host: frozenset(each for each in numbers if active[each] == host) for host in dict.fromkeys(active)}

    def _count(self, store: str) -> int:
        count = self.partitions.get(store)
        if count is None:
            raise RefusedError(
                f"how many partitions the store {store!r} has is not known: the directory of one host does not show it",
                hint="state it: --partitions N",
            )
        return count


def stated_router(
    hosts: StatedHosts | None, partitions: Mapping[str, int], me: HostInfo, partitioner: Partitioner = default_partition
) -> KeyRouter:
    """A router by these hosts, or of this host alone. Raises SpecError where they lack this host."""
    if hosts is None:
        return KeyRouter(partitions, lambda: StatedHosts(()), partitioner=partitioner)
    if me not in hosts.listed:
        listed = ", ".join(map(str, hosts.listed))
        raise SpecError(
            f"the hosts are {listed}: {me}, which this one is, is none of them",
            hint="add it, or say which one this is: --application-server HOST:PORT",
        )
    return KeyRouter(partitions, lambda: hosts, me, partitioner)
