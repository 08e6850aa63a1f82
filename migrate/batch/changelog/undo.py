"""The way back of changelogs: old records are appended again; topics of a migration that is given up are removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from formats import get_format
from migrate.batch.changelog.application_group import check_group
from migrate.batch.changelog.broker_access import cluster_of, settled
from migrate.batch.changelog.host_claims import fleet_of
from migrate.batch.changelog.topics import check_still_ours, is_of_others, made_topics
from migrate.batch.changelog.write_topics import end_writing, ended_in_record, transactional_id
from migrate.batch.chunk.write_changelog import OldEntries
from migrate.batch.context import Context
from migrate.batch.home import CHANGELOG
from migrate.batch.identity import planned_state, store_state
from migrate.batch.ledger.changelog_standing import ChangelogStanding
from migrate.batch.source.source import source_system
from migrate.batch.stop import never_stop
from migrate.engine.changelog_codec import addressed, family_prefix, placed, tombstones
from migrate.engine.chunk_source import Inputs
from migrate.errors import RefusedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.latest import Latest
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.model.changelogs import TopicPart, Topics
from migrate.model.ledger_row import Step
from migrate.model.store_partition import StorePartition
from migrate.stores.files import remove_tree
from migrate.stores.lock import holding_locks


def undo(
    context: Context, cluster: Cluster, topics: Topics, *, partition: str, directories: Mapping[str, Path]
) -> int | None:
    """Append the old store's records, and a tombstone of each other key that has got a record since the first of ours.

    Returns the offset of the last record; None: there was nothing to append. Repeating it does no harm. `directories`:
    of the old store partition, wherever it is. Raises RefusedError where the topic is another one by now.
    """
    changelog = topics.of(partition)
    check_still_ours(cluster, topics, changelog.new_topic)
    folder = context.home / CHANGELOG / partition / "undo"
    remove_tree(folder)
    place = (cluster.connection, changelog.new_topic, changelog.number)
    form, old = context.spec.source_format.changelog_form, _old_store(context, partition, directories)
    own = tuple(family_prefix(form, mapping.source) for _, mapping in old.inputs)  # others may be in the topic, too
    ident = transactional_id(context.standing.migration_id, TopicPart(store_partition=partition, database="undo"))
    with Writer(*place, ident) as writer:
        # From here on no transaction is open that an attempt which was killed has left.
        since = placed(form, read(*place, topics.starts[partition], settled(cluster, changelog).stable))
        gone = (tombstones(form, [key for key in each.keys if key.startswith(own)]) for each in since)
        with Latest.build(chain(gone, old.records(never_stop)), folder) as latest:
            for batch in addressed(form, latest.scan()):
                writer.write(batch)
            last = writer.finish()
    return ended_in_record(context, cluster, changelog, last)


def _old_store(context: Context, partition: str, directories: Mapping[str, Path]) -> OldEntries:
    """The entries of an old store partition, with the times that records had."""
    spec = context.spec
    databases = [each for each in context.plan.databases if each.store_partition == partition]
    mappings = list(dict.fromkeys(mapping for each in databases for mapping in each.mappings))
    inputs = ((Inputs((str(folder),)), mapping) for folder in directories.values() for mapping in mappings)
    has_timestamp = get_format(spec.source.format).changelog_form.has_timestamp
    times = None if has_timestamp else context.standing.times.get(partition)
    return OldEntries(
        format=spec.source.format,
        inputs=tuple(inputs),
        times=None if times is None else str(context.home / times.folder),
        newest_ms=-1 if times is None or times.newest_ms is None else times.newest_ms,
    )


@dataclass(frozen=True, slots=True)
class ReleasedTopics:
    """What was done at the broker."""

    removed: tuple[str, ...] = ()
    """The topics that were removed."""
    kept: tuple[str, ...] = ()
    """The topics that it has made, or filled, and that other hosts use, or may use."""
    undone: tuple[str, ...] = ()
    """The topics to which old values were appended again."""


NO_TOPICS = ReleasedTopics()


def appended_topics(standing: ChangelogStanding) -> Topics | None:
    """The topics that have converted records beside the old ones, and no rollback since."""
    topics = standing.topics
    return topics if topics is not None and topics.way == "append" else None


def give_up_changelogs(context: Context) -> ReleasedTopics:
    """Undo at the broker what the migration has done there; again, it does what is left.

    Raises RefusedError where the application is at work, or has been since, or the spec does not name the broker.
    """
    spec, written = context.spec, context.standing.changelogs
    if not written.opened:
        return NO_TOPICS
    with cluster_of(spec, "the migration has written changelogs") as cluster:
        end_writing(cluster, context.home)
        appended = appended_topics(written)
        if appended is not None:
            _append_old(context, cluster, appended)
        fleet = fleet_of(spec, written.opened[-1])
        claims = fleet.release()
        topics = made_topics(cluster, written)
        kept = [each for each in topics if is_of_others(cluster, fleet, written, claims, each)]
        removed = [each for each in topics if each not in kept]
        for topic in removed:
            cluster.delete_topic(topic)
    return ReleasedTopics(
        removed=tuple(topic.name for topic in removed),
        kept=tuple(topic.name for topic in kept),
        undone=() if appended is None else tuple(appended.names),
    )


def _append_old(context: Context, cluster: Cluster, topics: Topics) -> None:
    """The old stores' values, which are where the application has them."""
    spec, plan = context.spec, context.standing.plan
    if plan is None:
        raise RefusedError("the plan is gone, without which the changelog cannot be restored", hint="restore work_dir")
    check_group(cluster, topics.application, spec)
    partitions = [each for each in plan.store_partitions if each.id in topics.claimed]
    with holding_locks(source_system(spec).layout.lock_files(context.application, partitions)):
        for partition in partitions if spec.run.source == "live" else ():
            _check_as_planned(context, partition)
        for partition in partitions:  # the application's position stays: it replays what ends with its own values
            directories = partition.directories(context.application)
            undo(context, cluster, topics, partition=partition.id, directories=directories)
        context.record(Step.CHANGELOG, detail=topics.model_copy(update={"ids": {}}))


def _check_as_planned(context: Context, partition: StorePartition) -> None:
    then = planned_state(context.plan, partition, context.home)
    if store_state(partition.directories(context.application), then).content != then.content:
        raise RefusedError(
            f"{partition.id} was written to since it was converted, and its changelog has converted records: nothing "
            "shows which of its values the application made of them",
            hint="restore the store and its .checkpoint from a backup, then run the command again",
        )
