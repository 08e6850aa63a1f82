"""Hosts and numbers of partitions, as the broker has them while the application runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from migrate.errors import MigrationError, RefusedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.queries.routing.group import GroupHosts, member_tasks
from migrate.queries.routing.hosts import HostInfo

_LOG = logging.getLogger("stateferry.hosts")
_NO_MEMBER = GroupHosts((), {})
_PAUSE_SECONDS = 3.0


@dataclass(slots=True)
class GroupPlacement:
    """The placement of an application's group, as it was when `refresh` asked last. Safe to read in any thread."""

    connection: Connection
    application: str
    subtopologies: Mapping[str, int]
    """The subtopology of each store, as its tasks' directories tell it."""
    port: int | None = None
    """Where the services listen on the members' hosts; None: at the port that each member states."""
    _found: GroupHosts = field(default=_NO_MEMBER)

    def __call__(self) -> GroupHosts:
        """The placement that was found last; one without hosts before that."""
        return self._found

    def refresh(self) -> GroupHosts:
        """Ask the broker; what was found before stays while the group rebalances, and once it has no member.

        Raises BrokerError, and RefusedError for a group whose members cannot be asked.
        """
        with Cluster(self.connection) as cluster:
            members = [each for each in cluster.member_metadata(self.application) if all(each)]
            if not members:
                _check_can_be_asked(cluster, self.application)
        found = member_tasks(members, self.application)
        if self.port is not None:
            found = tuple(replace(each, host=HostInfo(each.host.host, self.port)) for each in found)
        if members or not self._found.members:
            self._found = GroupHosts(found, self.subtopologies)
        return self._found

    def follow(self) -> None:
        """Ask once, raising the errors of `refresh`; then every few seconds, in a thread that ends with the process."""
        self.refresh()
        threading.Thread(target=self._follow, name="stateferry-hosts", daemon=True).start()

    def _follow(self) -> None:
        is_known = True
        while True:
            time.sleep(_PAUSE_SECONDS)
            try:
                self.refresh()
            except MigrationError as error:
                if is_known:
                    _LOG.warning("the hosts stay those that were found last: %s", error)
                is_known = False
            else:
                is_known = True


def partition_counts(connection: Connection, topics: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """The number of partitions of each store, by the first of its topics that there is.

    Raises RefusedError for a store without any, BrokerError where the broker cannot be asked.
    """
    found: dict[str, int] = {}
    with Cluster(connection) as cluster:
        for store, names in topics.items():
            topic = next((topic for topic in map(cluster.topic, names) if topic is not None), None)
            if topic is None:
                raise RefusedError(
                    f"the topic {names[0]} of the store {store!r} is not at {connection.bootstrap}",
                    hint="check the broker and the application's id; or state the number: --partitions N",
                )
            found[store] = topic.partitions
    return found


def _check_can_be_asked(cluster: Cluster, name: str) -> None:
    group = cluster.group(name)
    if group.state == "UNKNOWN" or group.protocol == "consumer":
        which = "consumer" if group.protocol == "consumer" else "streams"
        raise RefusedError(
            f'the group {name} is of the protocol "{which}", whose members do not say which partitions they have',
            hint="list the hosts in a file: --hosts, or one by one: --peer",
        )
