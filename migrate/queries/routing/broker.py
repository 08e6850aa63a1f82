"""Hosts and numbers of partitions, as the broker has them while the application runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.queries.routing.group import GroupHosts, member_tasks

_NO_MEMBER = GroupHosts((), {})


@dataclass(slots=True)
class GroupPlacement:
    """The placement of an application's group, as it was when `refresh` asked last. Safe to read in any thread."""

    connection: Connection
    application: str
    subtopologies: Mapping[str, int]
    """The subtopology of each store, as its tasks' directories tell it."""
    _found: GroupHosts = field(default=_NO_MEMBER)

    def __call__(self) -> GroupHosts:
        """The placement that was found last; one without hosts before that."""
        return self._found

    def refresh(self) -> GroupHosts:
        """Ask the broker. Raises BrokerError; what was found before stays then, also while the group rebalances."""
        with Cluster(self.connection) as cluster:
            members = [each for each in cluster.member_metadata(self.application) if all(each)]
        found = GroupHosts(member_tasks(members, self.application), self.subtopologies)
        if members or not self._found.members:
            self._found = found
        return self._found


def partition_counts(connection: Connection, topics: Mapping[str, str]) -> dict[str, int]:
    """The number of partitions of each store, by its changelog topic.

    Raises RefusedError for a topic that is missing, BrokerError where the broker cannot be asked.
    """
    with Cluster(connection) as cluster:
        found = {store: cluster.topic(topic) for store, topic in topics.items()}
    for store, topic in found.items():
        if topic is None:
            raise RefusedError(
                f"the topic {topics[store]} of the store {store!r} is not at {connection.bootstrap}",
                hint="check the broker and the application's id; or state the number: --partitions N",
            )
    return {store: topic.partitions for store, topic in found.items() if topic is not None}
