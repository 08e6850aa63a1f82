"""`finalize`: the old stores are removed, so that their space is free. The ledger stays (I10)."""

from __future__ import annotations

from pathlib import Path

from migrate.batch.changelog.broker_access import cluster_of, half_done
from migrate.batch.changelog.held_topics import in_words, missing_partitions
from migrate.batch.changelog.host_claims import fleet_of
from migrate.batch.changelog.topics import old_topics
from migrate.batch.context import Context
from migrate.batch.home import (
    CHANGELOG,
    CHUNKS,
    DAMAGED_CHUNKS,
    NEW,
    OLD,
    SNAPSHOT,
    foreign_in,
    remove_folder,
    remove_store,
)
from migrate.batch.ledger.gates import signed_off
from migrate.batch.switch.checksums import check_in_use
from migrate.batch.switch.locked_migration import (
    check_not_refuted,
    mismatch_of,
    open_migration,
    places_of,
    switch_report,
)
from migrate.batch.switch.store_locations import is_seen
from migrate.errors import RefusedError, system_errors_explained
from migrate.model.changelogs import Topics
from migrate.model.events import Listener, ignore
from migrate.model.ledger_row import Step
from migrate.model.reports import Held, SwitchReport
from migrate.spec.changelog_source import RESTORED
from migrate.spec.spec import Spec
from migrate.stores.files import fsync_directory
from migrate.stores.rocksdb.layout import rocksdb_identities

FREED = (OLD, NEW, CHUNKS, DAMAGED_CHUNKS, CHANGELOG, SNAPSHOT, RESTORED)
"""The folders in the migration's folder that are no longer needed."""


@system_errors_explained()
def finalize(
    spec: Spec,
    *,
    accept_mismatch: bool = False,
    moved_away: bool = False,
    delete_topic: bool = False,
    on_event: Listener = ignore,
) -> SwitchReport:
    """Remove the old stores after a cut-over, and all files that the migration was made from.

    After a publication the old directory is the application's, and stays. So does an old store beside which the new
    one has a name of its own, and its changelog.

    Args:
        spec: the migration, from `load_spec` or built in code.
        accept_mismatch: also where a verification found the new stores wrong.
        moved_away: also where some new stores are no longer there, since their tasks run on other instances.
        delete_topic: remove the old stores' changelogs too, where the new stores have topics of their own.
        on_event: called with each `Event`, before the work goes on.

    Raises:
        RefusedError: the switch is not done yet, or no new store is found, or one is damaged; or there is no topic to
            remove.
        VerificationError: a verification found the new stores wrong.
        ChangelogFailedError: the broker was lost in the middle; the same command goes on.
    """
    context = Context(spec, on_event, "switch")
    with open_migration(context):
        step, journal = context.standing.switch
        if step is Step.FINALIZED:
            if delete_topic:
                _check_old_topics(context)
            removed = _delete_old_topics(context) if delete_topic else ()
            return switch_report(context).model_copy(update={"removed_topics": removed})
        if step not in (Step.CUT_OVER, Step.FINALIZING) and context.standing.published is None:
            raise RefusedError(f"{spec.name!r} is not cut over yet", hint="stateferry status SPEC shows its state")
        unseen = _check_new_is_in_use(context, moved_away=moved_away)
        if accept_mismatch:
            accepted = signed_off(
                each.model_copy(update={"accepted": "--accept-mismatch"}) for each in mismatch_of(context)
            )
            journal = journal.model_copy(update={"accepted": (*journal.accepted, *accepted)})
        else:
            check_not_refuted(context, "nothing is given up without --accept-mismatch")
        if delete_topic:
            _check_old_topics(context)
        if step is not Step.FINALIZING:  # else the way back is closed already
            check_in_use(context)
        context.notify("finalize.started")
        context.record(Step.FINALIZING, detail=journal)
        context.notify("finalize.intended")
        _free(context)
        with half_done("the old stores are removed, their changelogs are not"):
            removed = _delete_old_topics(context) if delete_topic else ()
        context.record(Step.FINALIZED, detail=journal)
        context.notify("finalize.committed")
        found = {"moved_away": unseen, "left_over": foreign_in(context.home), "removed_topics": removed}
        return switch_report(context).model_copy(update=found)


def _check_old_topics(context: Context) -> None:
    """Raises RefusedError where no old topic can be removed."""
    topics = _topics(context)
    with cluster_of(context.spec) as cluster:
        old_topics(cluster, topics)
        if missing := _left_behind(context) or missing_partitions(cluster, context.spec, topics):
            raise RefusedError(
                f"--delete-topic: {in_words(missing)}: the topic is their only copy",
                hint="run the command without --delete-topic; if nobody needs these keys, delete the topic yourself",
            )
        fleet = fleet_of(context.spec, topics)
        if waiting := [each.host for each in fleet.others(fleet.read()) if each.state != "in-use"]:
            raise RefusedError(
                f"--delete-topic: on {waiting[0]} the stores are not cut over yet, and the old ones need the topic",
                hint="stateferry cutover SPEC there, or run the command without --delete-topic",
            )


def _left_behind(context: Context) -> tuple[Held, ...]:
    """The partitions that no host had written when the new stores went live."""
    broker, intents = context.standing.journal.broker, context.standing.publications
    if broker is not None:
        return broker.missing
    return tuple(Held.model_validate(each) for intent in intents[-1:] for each in intent.get("missing", ()))


def _delete_old_topics(context: Context) -> tuple[str, ...]:
    with cluster_of(context.spec) as cluster:
        found = old_topics(cluster, _topics(context))
        for topic in found:
            cluster.delete_topic(topic)
    context.notify("finalize.topics-removed")
    return tuple(topic.name for topic in found)


def _topics(context: Context) -> Topics:
    topics = context.standing.changelogs.topics
    if topics is None or topics.way != "new-topic":
        raise RefusedError(
            "--delete-topic: the new stores have no changelogs of their own, and use the old ones",
            hint="run the command without it",
        )
    return topics


def _free(context: Context) -> None:
    for places in places_of(context):
        is_ours = places.old in places.ours  # else the application's: nothing took its place
        if is_ours and rocksdb_identities(places.old) <= {*places.entry.old_names}:  # fewer: killed here before
            remove_store(places.old)
    for name in FREED:
        remove_folder(context.home, name)
        context.notify("finalize.removed", folder=name)
    fsync_directory(context.home)


def _check_new_is_in_use(context: Context, *, moved_away: bool) -> tuple[str, ...]:
    """The store partitions that are not found: Kafka Streams removes the stores of tasks that moved elsewhere."""
    published = context.standing.published
    directory = published or context.application
    if not directory.is_dir():
        raise RefusedError(
            f"{directory} is not there, so that nothing shows that the new stores are in use",
            hint="mount its volume, then run the command again",
        )
    every = places_of(context)
    for places in every:
        if places.at(places.live) == "old":
            raise RefusedError(
                f"{places.live} holds the old store: it was put back",
                hint="stateferry rollback SPEC completes the way back; to keep the new store, move it there again",
            )
    if published is None:
        seen = {each.entry.partition.id: each.is_in_use for each in every}
    else:
        seen = _published(context, published)
    unseen = tuple(name for name, is_there in seen.items() if not is_there)
    if unseen and len(unseen) == len(seen):
        raise RefusedError(
            f"no new store is seen in {directory}, so that nothing shows that they are in use",
            hint="mount its volume, then run the command again; if the application has created all of its stores "
            f"again, you may remove {context.home}",
        )
    if unseen and not moved_away:
        raise RefusedError(
            f"{len(unseen)} of {len(seen)} new stores are not seen in {directory}: {', '.join(unseen)}",
            hint="if a volume is missing, mount it; if their tasks have moved to other instances, or the application "
            "has created these stores again: stateferry finalize SPEC --moved-away",
        )
    return unseen


def _published(context: Context, published: Path) -> dict[str, bool]:
    """Whether each store partition is found in the published directory, by id."""
    plan = context.standing.plan
    names = frozenset(name for intent in context.standing.publications for name in intent["stores"])
    partitions = () if plan is None else map(plan.new_partition, plan.store_partitions)
    return {each.id: is_seen(published / each.path, each, names) for each in partitions if each.databases}
