"""What the old changelogs have that the new stores lack, for `run` and `status`: a few questions to the broker."""

from __future__ import annotations

from contextlib import suppress

from migrate.batch.changelog.broker.claims import fleet_of
from migrate.batch.changelog.broker.connect import connection_of
from migrate.batch.changelog.broker.held import held_partitions
from migrate.batch.changelog.broker.records import tail_after, total_of
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.ways import reached
from migrate.batch.ledger.standing import Standing
from migrate.errors import MigrationError
from migrate.kafka.claims import seen_claims
from migrate.kafka.cluster import Cluster
from migrate.model.changelog.written import Topics
from migrate.model.reports import Behind, Held
from migrate.spec.spec import Spec

_SECONDS = 2.0
"""A broker that takes no connection within this time does not answer."""


def behind_of(spec: Spec, standing: Standing) -> Behind | None:
    """What a catch-up would read now; None: there is nothing to catch up with. Never fails."""
    topics = _topics(spec, standing)
    if topics is None or topics.way != "new-topic":
        return None
    try:
        connection = connection_of(spec)
        if not connection.is_reachable(_SECONDS):
            return Behind(unknown="the broker does not answer")
        at = reached(spec, standing.rows)
        with Cluster(connection) as cluster:
            ends = {each: cluster.ends_of(each.topic, each.number) for each in topics.changelogs}
        return total_of(tail_after(connection, each, at[each.store_partition], ends[each]) for each in ends)
    except MigrationError as error:
        return Behind(unknown=error.message)


def held_of(spec: Spec, standing: Standing) -> tuple[Held, ...]:
    """Which partitions of the old changelogs hold keys; empty where nobody asks, or answers. Never fails."""
    topics = _topics(spec, standing)
    with suppress(MigrationError):
        if topics is not None and connection_of(spec).is_reachable(_SECONDS):
            with Cluster(connection_of(spec)) as cluster:
                return held_partitions(cluster, topics, seen_claims(cluster, fleet_of(spec, topics).group))
    return ()


def _topics(spec: Spec, standing: Standing) -> Topics | None:
    """The topics that are written to, until the new stores are in use."""
    is_asked = spec.changelog is not None and not standing.is_live and not standing.published
    return ChangelogStanding(standing.rows).topics if is_asked else None
