"""The way back of changelogs to which converted records were appended: the old store's records are appended again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from formats import get_format
from migrate.batch.changelog.times import recorded_times
from migrate.batch.changelog.verify import settled
from migrate.batch.changelog.write import transactional_id
from migrate.batch.chunk.changelog_entries import OldEntries
from migrate.batch.chunk.reader import Inputs
from migrate.batch.ledger.standing import Standing
from migrate.batch.stop import never_stop
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.latest import Latest
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.model.changelog.written import Changelog, Part, Topics
from migrate.model.plan import Plan
from migrate.model.store_partition import StorePartition
from migrate.spec.spec import Spec
from migrate.stores.changelog_batch import ChangelogBatch
from migrate.stores.files import remove_tree


def old_store(
    spec: Spec, standing: Standing, plan: Plan, partition: StorePartition, directories: Mapping[str, Path]
) -> OldEntries:
    """The entries of an old store partition, whose `directories` may be anywhere; with the times that records had."""
    databases = [each for each in plan.databases if each.store_partition == partition.id]
    mappings = list(dict.fromkeys(mapping for each in databases for mapping in each.mappings))
    inputs = ((Inputs((str(folder),)), mapping) for folder in directories.values() for mapping in mappings)
    has_timestamp = get_format(spec.source.format).changelog_form.has_timestamp
    times = None if has_timestamp else recorded_times(standing.rows).get(partition.id)
    return OldEntries(
        format=spec.source.format,
        inputs=tuple(inputs),
        times=None if times is None else str(spec.home / times.folder),
        newest_ms=-1 if times is None or times.newest_ms is None else times.newest_ms,
    )


def undo(
    cluster: Cluster,
    connection: Connection,
    migration_id: str,
    *,
    topics: Topics,
    changelog: Changelog,
    old: OldEntries,
    folder: Path,
) -> int | None:
    """Append the old store's records, and a tombstone of each other key that has got a record since the first of ours.

    Returns the offset of the last record; None: there was nothing to append. Repeating it does no harm. `folder`: for
    what does not fit in memory. Raises RefusedError where the topic is another one by now.
    """
    check_is_ours(cluster, topics, changelog.new_topic)
    remove_tree(folder)
    start = topics.starts[changelog.store_partition]
    ident = transactional_id(migration_id, Part(store_partition=changelog.store_partition, database="undo"))
    with Writer(connection, changelog.new_topic, changelog.number, ident) as writer:
        # From here on no transaction is open that an attempt which was killed has left.
        since = read(connection, changelog.new_topic, changelog.number, start, settled(cluster, changelog).stable)
        with Latest.build(chain(map(_tombstones, since), old.records(never_stop)), folder) as latest:
            for batch in latest.scan():
                writer.write(batch)
            return writer.finish()


def check_is_ours(cluster: Cluster, topics: Topics, name: str) -> None:
    """Raises RefusedError where the topic is not the one that the ledger has."""
    topic = cluster.topic(name)
    if topic is None or topic.id != topics.ids[name]:
        raise RefusedError(
            f"the changelog {name} {'is gone' if topic is None else 'was made again'} since this migration wrote to it",
            hint="check [changelog] bootstrap; if somebody deleted the topic, its content is in the stores alone",
        )


def _tombstones(batch: ChangelogBatch) -> ChangelogBatch:
    return ChangelogBatch(batch.keys, [None] * len(batch), [-1] * len(batch))
