"""The options of `serve` that say which host has which partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from migrate.errors import SpecError

if TYPE_CHECKING:
    from migrate.kafka.connection import Connection
    from migrate.queries.group_placement import ApplicationTopics
    from migrate.queries.key_routing import HostInfo, KeyRouter, StatedHosts
    from migrate.queries.queryable_stores import QueryableStores


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What was given of them."""

    partitions: int | None
    partitioner: str
    hosts: str | None
    peers: tuple[str, ...]
    standbys: tuple[str, ...]
    hosts_from_group: bool
    group_port: int | None
    bootstrap: str | None
    application_id: str | None
    config: str | None
    application_server: str | None

    def router(self, stores: QueryableStores, place: Path) -> Callable[[HostInfo], KeyRouter] | None:
        """From the service's address to its router; None: nothing was given.

        Raises SpecError, RefusedError, and BrokerError where the broker cannot be asked.
        """
        from formats.partitioners import PARTITIONERS
        from migrate.queries.group_placement import GroupPlacement, partition_counts
        from migrate.queries.key_routing import HostInfo, KeyRouter, stated_router

        if self.partitions is not None or self.bootstrap is not None or self.hosts_from_group:
            _check_placed_by_key(stores)
        stated, by = self._stated(), PARTITIONERS[self.partitioner]
        server = None if self.application_server is None else HostInfo.parse(self.application_server)
        if not self.hosts_from_group and self.bootstrap is None:
            self._check_no_broker()
            if self.partitions is None:
                if stated is not None:
                    raise SpecError("the hosts need the number of partitions", hint="state it: --partitions N")
                return None
            partitions = dict.fromkeys(stores.names, self.partitions)
            return lambda here: stated_router(stated, partitions, server or here, by)
        application, connection = self._application(place)
        if self.partitions is None:
            partitions = partition_counts(connection, application.topics(stores))
        else:
            partitions = dict.fromkeys(stores.names, self.partitions)
        if stated is not None:
            return lambda here: stated_router(stated, partitions, server or here, by)
        placement = GroupPlacement(connection, application.id, application.subtopologies(stores), self.group_port)
        placement.follow()
        return lambda here: KeyRouter(partitions, placement, server or here, by)

    def _check_no_broker(self) -> None:
        given = {"--config": self.config, "--application-id": self.application_id, "--group-port": self.group_port}
        for name, value in given.items():
            if value is not None:
                raise SpecError(f"{name} goes with a broker", hint="name it: --bootstrap HOST:PORT")

    def _application(self, place: Path) -> tuple[ApplicationTopics, Connection]:
        """Raises SpecError where no broker is named."""
        from migrate.batch.changelog.broker_access import connection_by_options, connection_of
        from migrate.queries.group_placement import ApplicationTopics
        from migrate.spec.spec import load_spec

        spec = load_spec(place) if place.is_file() else None
        if spec is not None:
            application = ApplicationTopics.of_migration(spec, self.application_id)
        else:
            application = ApplicationTopics.of_directory(place, self.application_id)
        if self.bootstrap is not None:
            return application, connection_by_options(self.bootstrap, self.config)
        if spec is None or spec.changelog is None:
            raise SpecError("--hosts-from-group: which broker?", hint="name it: --bootstrap HOST:PORT")
        return application, connection_of(spec)

    def _stated(self) -> StatedHosts | None:
        """Raises SpecError."""
        from migrate.queries.key_routing import read_hosts, stated_hosts

        ways = {
            "--hosts": self.hosts is not None,
            "--peer or --standby": bool(self.peers or self.standbys),
            "--hosts-from-group": self.hosts_from_group,
        }
        given = [name for name, is_given in ways.items() if is_given]
        if len(given) > 1:
            raise SpecError(f"{given[0]} and {given[1]} both say which hosts there are", hint="give one of them")
        if self.hosts is not None:
            return read_hosts(Path(self.hosts))
        return stated_hosts(self.peers, self.standbys) if self.peers or self.standbys else None


def _check_placed_by_key(stores: QueryableStores) -> None:
    """Raises SpecError for a store whose keys do not tell their partitions."""
    from migrate.systems import get_system

    for name in stores.names:
        system = get_system(stores.definition(name).stored.system)
        if not system.partitioners:
            raise SpecError(
                f"{system.title} does not choose a partition by a key of the store {name!r}: which host has a key "
                "cannot be computed",
                hint="serve each host's directory by itself, without --partitions and without hosts",
            )
