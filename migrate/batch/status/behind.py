"""What the old changelogs have that the new stores lack, for `run` and `status`: a few questions to the broker."""

from __future__ import annotations

from contextlib import suppress

from migrate.batch.changelog.broker_access import connection_of, tail_after, total_of
from migrate.batch.changelog.held_topics import held_partitions
from migrate.batch.changelog.host_claims import fleet_of
from migrate.batch.changelog.store_changelogs import reached
from migrate.batch.ledger.standing import Standing
from migrate.errors import BrokerError, MigrationError
from migrate.kafka.claims import seen_claims
from migrate.kafka.cluster import Cluster
from migrate.model.changelogs import Topics
from migrate.model.reports import Behind, Held
from migrate.spec.spec import Spec

_SECONDS = 2.0
"""A broker that takes no connection within this time does not answer."""


def ask_broker(spec: Spec, standing: Standing) -> tuple[Behind | None, tuple[Held, ...]]:
    """What a catch-up would read now, and which partitions of the old changelogs hold keys. Never fails.

    (None, ()) once the new stores are in use, and while no changelog is written to.
    """
    is_asked = spec.changelog is not None and not standing.is_live and not standing.published
    topics = standing.changelogs.topics if is_asked else None
    if topics is None:
        return None, ()
    held: tuple[Held, ...] = ()
    try:
        connection = connection_of(spec)
        if not connection.is_reachable(_SECONDS):
            raise BrokerError("the broker does not answer")
        with Cluster(connection) as cluster:
            with suppress(MigrationError):
                held = held_partitions(cluster, topics, seen_claims(cluster, fleet_of(spec, topics).group))
            return _behind(spec, standing, cluster, topics), held
    except MigrationError as error:
        return Behind(unknown=error.message) if topics.way == "new-topic" else None, held


def _behind(spec: Spec, standing: Standing, cluster: Cluster, topics: Topics) -> Behind | None:
    """None: there is nothing to catch up with."""
    if topics.way != "new-topic":
        return None
    at = reached(spec, standing)
    ends = {each: cluster.ends_of(each.topic, each.number) for each in topics.changelogs}
    return total_of(tail_after(cluster.connection, each, at[each.store_partition], ends[each]) for each in ends)
