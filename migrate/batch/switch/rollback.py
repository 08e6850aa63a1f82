"""`rollback`: the old stores take their places again, as do old offsets and values at the broker, until `finalize`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from migrate.batch.changelog.application_group import check_group, merged, moved_since, set_back
from migrate.batch.changelog.broker_access import cluster_of, half_done
from migrate.batch.changelog.host_claims import fleet_of
from migrate.batch.changelog.store_changelogs import line_after
from migrate.batch.changelog.topics import check_still_ours
from migrate.batch.changelog.undo import undo
from migrate.batch.context import Context
from migrate.batch.home import is_store_alone, remove_store
from migrate.batch.source.source import source_system
from migrate.batch.switch.locked_migration import (
    LockedMigration,
    check_in_place,
    is_as_it_was,
    open_migration,
    places_of,
    switch_report,
)
from migrate.batch.switch.store_locations import StoreLocations, sync_names
from migrate.errors import RefusedError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.journal import AtCutOver, Journal
from migrate.model.ledger_row import Step
from migrate.model.reports import SwitchReport
from migrate.model.store_partition import ChangelogOffsets, Line, StorePartition
from migrate.spec.spec import Spec
from migrate.stores.files import remove_empty


@system_errors_explained()
def rollback(spec: Spec, *, discard_new_writes: bool = False, on_event: Listener = ignore) -> SwitchReport:
    """Exchange the new stores for the old ones again, also after a cut-over that was killed half-way.

    Args:
        spec: the migration, from `load_spec` or built in code.
        discard_new_writes: go back even if the new stores were written to since the cut-over, which loses that. Where
            changelogs were written for the new stores, otherwise the inputs are read again.
        on_event: called with each `Event`, before the work goes on.

    Raises:
        SpecError: the migration published a new directory.
        RefusedError: nothing was cut over, the migration was finalized, or the new stores were written to since.
        ChangelogFailedError: the broker was lost in the middle; the same command goes on.
    """
    check_in_place(spec, "rollback")
    context = Context(spec, on_event, "switch")
    with open_migration(context) as migration:
        step, journal = context.standing.switch
        if step is Step.ROLLED_BACK:
            return switch_report(context)
        if step is None:
            raise RefusedError(
                f"nothing of {spec.name!r} was cut over: the old stores are where they were",
                hint="stateferry status SPEC shows its state",
            )
        if step in (Step.FINALIZING, Step.FINALIZED):
            raise _finalized(journal)
        every = places_of(context)
        with migration.locking_all(every) as check_unopened:
            _check_old_unwritten(every, discard_new_writes=discard_new_writes)
            if not discard_new_writes:
                _check_new_unwritten(context, every, is_read_again=journal.broker is not None)
            if journal.broker is not None:
                found = _ask_broker(context, journal.broker, leaves_offsets=discard_new_writes)
                journal = journal.model_copy(update={"broker": found})
            _carry_out(migration, every, journal, check_unopened, leaves_offsets=discard_new_writes)
        return switch_report(context)


def _finalized(journal: Journal) -> RefusedError:
    if any(entry.is_moved_in for entry in journal.exchanges):
        return RefusedError(
            "this migration was finalized: the old stores are where they were, without what was processed since",
            hint="restore from a backup, or start the old version on them, if that can be missed",
        )
    return RefusedError("this migration was finalized: the old stores are gone", hint="restore from a backup")


def _check_old_unwritten(every: list[StoreLocations], *, discard_new_writes: bool) -> None:
    for places in every:
        store = places.old_store
        if places.entry.is_moved_in and (discard_new_writes or not store.exists()):
            continue  # its owner goes on with it, or restores it
        if store != places.live and not is_as_it_was(places, store, places.entry.old_state):
            went_on = (
                "; if the old version has gone on with it since, --discard-new-writes leaves it and its group alone"
            )
            raise RefusedError(
                f"the old store {store} is not as it was at the cut-over, or cannot be read",
                hint="restore it there from a backup, then run the command again"
                + (went_on if places.entry.is_moved_in else ""),
            )


def _check_new_unwritten(context: Context, every: list[StoreLocations], *, is_read_again: bool) -> None:
    """`is_read_again`: what was written since comes into the old stores too, as its inputs are read again."""
    has_begun = context.standing.step is Step.ROLLING_BACK  # and may have removed a store that it moved out
    gone = [places for places in every if places.is_lost and not (has_begun and places.entry.is_moved_in)]
    if gone:
        raise RefusedError(
            f"{len(gone)} of {len(every)} new stores are not where the cut-over put them: {gone[0].new_store}",
            hint="if a volume is missing, mount it, and run the command again; if they are lost: stateferry rollback "
            "SPEC --discard-new-writes",
        )
    written = [places for places in every if places.is_switched and _is_written(places)]
    if written and not is_read_again:
        names = ", ".join(places.entry.partition.id for places in written[:3])
        raise RefusedError(
            f"{len(written)} of {len(every)} new stores were written to since the cut-over ({names}"
            f"{', ...' if len(written) > 3 else ''}): going back loses that",
            hint="to discard what was written since: stateferry rollback SPEC --discard-new-writes"
            + _replay(context.spec),
        )


def _replay(spec: Spec) -> str:
    if not spec.source_format.has_changelog:
        return ""
    return f" ({source_system(spec).title} replays it from the changelog where that still fits the old store)"


def _is_written(places: StoreLocations) -> bool:
    """Whether the new store, in whichever place, has changed since the cut-over."""
    return not is_as_it_was(places, places.new_store, places.entry.new_state)


def _carry_out(
    migration: LockedMigration,
    every: list[StoreLocations],
    journal: Journal,
    check_unopened: Callable[[], None],
    *,
    leaves_offsets: bool,
) -> None:
    """Carry out the exchanges, also after a kill: each step checks whether it is done already.

    `leaves_offsets`: what was read since stays read, and the old stores lack it.
    """
    context, notify, at = migration.context, migration.context.notify, journal.broker
    notify("rollback.started")
    context.record(Step.ROLLING_BACK, detail=journal)
    notify("rollback.intended")
    # a position must never be ahead of the store in that place
    switched = [places.entry for places in every if places.is_switched and places.live.is_dir()]
    read = source_system(context.spec).offsets.read
    migration.write_positions(
        migration.between(each, each.before, read(context.application, each.new_partition)) for each in switched
    )
    notify("rollback.positioned")
    # before an old store is live again: its owner would go on behind what only the new one got
    with half_done("the rollback is half done, so start no version of the application"):
        lines = {} if at is None else _carry_out_at_broker(context, every, at, leaves_offsets=leaves_offsets)
    for places in every:
        places.bring_old_back()
    sync_names(every, context.home)
    for places in every:
        context.ledger.check_not_fenced()
        places.make_old_live()
        notify("rollback.exchanged", store_partition=places.entry.partition)
    sync_names(every, context.home)
    migration.write_positions(position for each in every for position in _after(each, lines))
    _drop_discarded(context, every)
    check_unopened()
    for places in every:
        if places.is_switched:
            raise RefusedError(f"{places.live} does not hold the old store", hint="run the command again")
    notify("rollback.done")
    context.record(Step.ROLLED_BACK, detail=journal)
    notify("rollback.committed")


def _after(places: StoreLocations, lines: Mapping[str, Line]) -> Iterator[tuple[StorePartition, ChangelogOffsets]]:
    """The positions of a store partition whose old store is in its place; `lines`: of changelogs that got records."""
    entry, old = places.entry, places.old_store
    if is_as_it_was(places, old, entry.old_state):
        line = lines.get(entry.partition.id)
        yield entry.partition, entry.before if line is None else entry.before.model_copy(update={"lines": (line,)})
    elif entry.is_moved_in and not old.exists():
        yield entry.partition, ChangelogOffsets()  # its owner restores it from its changelog


def _drop_discarded(context: Context, every: list[StoreLocations]) -> None:
    """Remove new stores that were written to, so that a run assembles them again."""
    for places in every:
        if places.staged.exists() and _is_written(places) and is_store_alone(places.staged):
            remove_store(places.staged)
        if places.old in places.ours:
            remove_empty(places.old.parent, below=context.home)


def _ask_broker(context: Context, at: AtCutOver, *, leaves_offsets: bool) -> AtCutOver:
    """The same, with what will be set back. Raises RefusedError where it cannot be, or somebody is at work."""
    topics = at.topics
    with cluster_of(context.spec, "the cut-over has rewritten changelogs") as cluster:
        check_group(cluster, topics.application, context.spec)
        for name in topics.names if topics.way == "append" else ():
            check_still_ours(cluster, topics, name)
        moved = () if leaves_offsets else moved_since(cluster, topics.application, at.offsets)
    return at.model_copy(update={"set_back": merged(at.set_back, moved)})


def _carry_out_at_broker(
    context: Context, every: list[StoreLocations], at: AtCutOver, *, leaves_offsets: bool
) -> dict[str, Line]:
    """Set the group's offsets back, and append the old values again; every attempt does all of it.

    Returns the lines of the old stores, by store partition, where their changelogs have got records.
    """
    topics, lines = at.topics, dict[str, Line]()
    fleet = fleet_of(context.spec, topics)
    with cluster_of(context.spec) as cluster:
        if not leaves_offsets:
            set_back(cluster, topics.application, at.offsets, at.set_back)
        context.notify("rollback.offsets-set-back")
        if topics.way == "append":
            fleet.publish("writing")
            for old in (each for each in every if each.entry.partition.id in topics.claimed):
                name, directories = old.entry.partition.id, old.entry.partition.below(old.old_store)
                changelog, system = topics.of(name), source_system(context.spec)
                last = undo(context, cluster, topics, partition=name, directories=directories)
                if last is not None:
                    lines[name] = line_after(system, changelog.topic, changelog.number, last)
        fleet.release()
    if topics.way == "append":
        context.notify("rollback.undone")
    return lines
