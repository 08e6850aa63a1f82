"""The options of `serve` that say which host has which partition."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from migrate.errors import SpecError

if TYPE_CHECKING:
    from migrate.queries.routing.hosts import HostInfo, StatedHosts
    from migrate.queries.routing.metadata import KeyRouter
    from migrate.queries.stores import QueryableStores

_OPTIONS = (
    click.option("--partitions", type=click.IntRange(min=1), help="Partitions of the stores' topics, on all hosts."),
    click.option(
        "--hosts", type=click.Path(), help="A TOML file of all hosts and their partitions: requests are forwarded."
    ),
    click.option(
        "--peer",
        "peers",
        multiple=True,
        metavar="HOST:PORT=LIST",
        help="Instead of such a file, once for each host, this one too: its active partitions, like 0,2-5.",
    ),
    click.option(
        "--standby",
        "standbys",
        multiple=True,
        metavar="HOST:PORT=LIST",
        help="Likewise: the partitions of which it has a standby.",
    ),
    click.option("--application-server", metavar="HOST:PORT", help="This host among those, if not --host and --port."),
)


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What was given of them."""

    partitions: int | None
    hosts: str | None
    peers: tuple[str, ...]
    standbys: tuple[str, ...]
    application_server: str | None

    def router(self, stores: QueryableStores) -> Callable[[HostInfo], KeyRouter] | None:
        """From the service's address to its router; None: nothing was given. Raises SpecError."""
        from migrate.queries.routing.hosts import HostInfo
        from migrate.queries.routing.metadata import stated_router

        stated = self._stated()
        if self.partitions is None:
            if stated is not None:
                raise SpecError("the hosts need the number of partitions", hint="state it: --partitions N")
            return None
        partitions = dict.fromkeys(stores.names, self.partitions)
        server = None if self.application_server is None else HostInfo.parse(self.application_server)
        return lambda here: stated_router(stated, partitions, server or here)

    def _stated(self) -> StatedHosts | None:
        from migrate.queries.routing.hosts import read_hosts, stated_hosts

        one_by_one = self.peers or self.standbys
        if self.hosts is not None and one_by_one:
            raise SpecError("--hosts and --peer both say which hosts there are", hint="give one of them")
        if self.hosts is not None:
            return read_hosts(Path(self.hosts))
        return stated_hosts(self.peers, self.standbys) if one_by_one else None


def host_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options, which `command` gets as `routing`."""

    @functools.wraps(command)
    def with_routing(*args: Any, **given: Any) -> None:  # noqa: ANN401 - click's own
        own = {field.name: given.pop(field.name) for field in fields(HostOptions)}
        command(*args, routing=HostOptions(**own), **given)

    for option in reversed(_OPTIONS):
        with_routing = option(with_routing)
    return with_routing
