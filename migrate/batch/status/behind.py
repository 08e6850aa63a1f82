"""How much of the old changelogs the new stores lack, for `run` and `status`: a few questions to the broker."""

from __future__ import annotations

from migrate.batch.changelog.broker.connect import connection_of
from migrate.batch.changelog.broker.records import tail_after, total_of
from migrate.batch.changelog.standing import ChangelogStanding
from migrate.batch.changelog.ways import reached
from migrate.batch.ledger.standing import Standing
from migrate.errors import MigrationError
from migrate.kafka.cluster import Cluster
from migrate.model.reports import Behind
from migrate.spec.spec import Spec

_SECONDS = 2.0
"""A broker that takes no connection within this time does not answer."""


def behind_of(spec: Spec, standing: Standing) -> Behind | None:
    """What a catch-up would read now; None: there is nothing to catch up with. Never fails."""
    topics = ChangelogStanding(standing.rows).topics
    if spec.changelog is None or topics is None or topics.way != "new-topic" or standing.is_live or standing.published:
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
