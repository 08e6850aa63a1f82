"""The way back of changelogs to which converted records were appended: the old store's records are appended again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from formats import get_format
from migrate.batch.changelog.broker.ownership import check_still_ours
from migrate.batch.changelog.broker.records import settled
from migrate.batch.changelog.write import transactional_id
from migrate.batch.chunk.changelog_entries import OldEntries
from migrate.batch.chunk.reader import Inputs
from migrate.batch.home import CHANGELOG
from migrate.batch.ledger.standing import Standing
from migrate.batch.stop import never_stop
from migrate.kafka.cluster import Cluster
from migrate.kafka.latest import Latest
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.model.changelog.taken import recorded_times
from migrate.model.changelog.written import Part, Topics
from migrate.model.plan import Plan
from migrate.spec.spec import Spec
from migrate.stores.changelog_batch import ChangelogBatch
from migrate.stores.files import remove_tree


def undo(
    cluster: Cluster,
    spec: Spec,
    standing: Standing,
    topics: Topics,
    *,
    partition: str,
    directories: Mapping[str, Path],
) -> int | None:
    """Append the old store's records, and a tombstone of each other key that has got a record since the first of ours.

    Returns the offset of the last record; None: there was nothing to append. Repeating it does no harm. `directories`:
    of the old store partition, wherever it is. Raises RefusedError where the topic is another one by now.
    """
    plan, changelog = standing.plan, topics.of(partition)
    assert plan is not None
    check_still_ours(cluster, topics, changelog.new_topic)
    folder = spec.home / CHANGELOG / partition / "undo"
    remove_tree(folder)
    place = (cluster.connection, changelog.new_topic, changelog.number)
    old = old_store(spec, standing, plan, partition, directories)
    ident = transactional_id(standing.rows[-1].migration_id, Part(store_partition=partition, database="undo"))
    with Writer(*place, ident) as writer:
        # From here on no transaction is open that an attempt which was killed has left.
        since = read(*place, topics.starts[partition], settled(cluster, changelog).stable)
        with Latest.build(chain(map(_tombstones, since), old.records(never_stop)), folder) as latest:
            for batch in latest.scan():
                writer.write(batch)
            return writer.finish()


def old_store(
    spec: Spec, standing: Standing, plan: Plan, partition: str, directories: Mapping[str, Path]
) -> OldEntries:
    """The entries of an old store partition, with the times that records had."""
    databases = [each for each in plan.databases if each.store_partition == partition]
    mappings = list(dict.fromkeys(mapping for each in databases for mapping in each.mappings))
    inputs = ((Inputs((str(folder),)), mapping) for folder in directories.values() for mapping in mappings)
    has_timestamp = get_format(spec.source.format).changelog_form.has_timestamp
    times = None if has_timestamp else recorded_times(standing.rows).get(partition)
    return OldEntries(
        format=spec.source.format,
        inputs=tuple(inputs),
        times=None if times is None else str(spec.home / times.folder),
        newest_ms=-1 if times is None or times.newest_ms is None else times.newest_ms,
    )


def _tombstones(batch: ChangelogBatch) -> ChangelogBatch:
    return ChangelogBatch(batch.keys, [None] * len(batch), [-1] * len(batch))
