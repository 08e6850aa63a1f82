"""`cutover`: the new stores take the old ones' places, all of them."""

from __future__ import annotations

from pathlib import Path

from migrate.errors import RefusedError, StoreLockedError
from migrate.events import Listener, ignore
from migrate.identity import check_identity, directory_state, store_identity
from migrate.ledger import Step
from migrate.positions import Positions
from migrate.progress_state import committed_receipts, pending_chunks
from migrate.report import SwitchReport
from migrate.snapshots import SnapshotSource
from migrate.source import Source, find_source
from migrate.spec import Spec
from migrate.steps.assemble import assembled_folders, assembled_states
from migrate.steps.prepare import check_unchanged, open_source
from migrate.steps.verify import verified_folders
from migrate.stores.files import fsync_tree, own_like
from migrate.stores.layout import rocksdb_identities
from migrate.switching.journal import Exchange, Journal
from migrate.switching.migration import Migration, check_in_place, open_migration, state_of
from migrate.switching.places import Places, sync_names
from migrate.switching.reports import switch_report
from migrate.system_errors import system_errors_explained

_RUN = "stateferry run SPEC"


@system_errors_explained()
def cutover(spec: Spec, *, on_event: Listener = ignore) -> SwitchReport:
    """Exchange the old stores for the verified new ones; a cut-over that was killed is finished.

    Raises RefusedError, and SpecError for a migration that publishes a new directory instead.
    """
    check_in_place(spec, "cutover")
    with open_migration(spec, on_event) as migration:
        step = migration.step
        if step in (Step.CUT_OVER, Step.FINALIZING, Step.FINALIZED):
            return switch_report(migration, migration.journal, step)
        if step is Step.ROLLING_BACK:
            raise RefusedError("a rollback is half done", hint="finish it first: stateferry rollback SPEC")
        if step is Step.CUTTING_OVER:
            journal = migration.journal
            _check_old_unwritten(migration, journal)
        else:
            journal = _intend(migration)
        _carry_out(migration, journal)
        return switch_report(migration, journal, Step.CUT_OVER)


def _intend(migration: Migration) -> Journal:
    """Everything checked, and written to the ledger before anything moves."""
    context = migration.context
    slots = _verified_slots(migration)
    context.notify("cutover.started")
    source = _checked_source(migration)
    exchanges = []
    for partition in migration.plan.store_partitions:
        live, slot = migration.application / partition.path, slots[partition.id]
        own_like(live, slot)
        fsync_tree(slot)
        before = source.system.positions(migration.application, partition)
        exchanges.append(
            Exchange(
                partition=partition,
                live=live,
                slot=slot.relative_to(migration.home),
                old=Path("old", partition.id),
                old_names=tuple(sorted(rocksdb_identities(live))),
                new_names=tuple(sorted(rocksdb_identities(slot))),
                old_state=directory_state(partition.directories(migration.application)),
                new_state=_checked_state(migration, slot, partition.id),
                before=before,
                after=_position_of_new(source, partition.id, before),
            )
        )
    journal = Journal(exchanges=tuple(exchanges))
    context.notify("cutover.checked")
    migration.record(Step.CUTTING_OVER, journal)
    context.notify("cutover.intended")
    return journal


def _verified_slots(migration: Migration) -> dict[str, Path]:
    """The new store partitions, by id. Raises RefusedError unless all of them are there and verified."""
    rows, home, spec = migration.ledger.rows, migration.home, migration.context.spec
    folders = assembled_folders(rows, home)
    is_rewritten = not pending_chunks(migration.plan, committed_receipts(rows, home))
    if not is_rewritten or set(folders) != {partition.id for partition in migration.plan.store_partitions}:
        raise RefusedError(f"the new stores of {spec.name!r} are not complete", hint=f"{_RUN} makes them")
    if spec.run.verify != "off" and verified_folders(rows) != set(folders.values()):
        raise RefusedError(f"the new stores of {spec.name!r} are not verified", hint=f"{_RUN} verifies them")
    return folders


def _checked_source(migration: Migration) -> Source:
    """What was converted, as it was then. Raises RefusedError."""
    context, plan = migration.context, migration.plan
    source = open_source(context.spec)
    if not isinstance(source, SnapshotSource):
        check_unchanged(context, plan)
        return source
    check_identity(plan, store_identity(source))
    live = find_source(context.spec)
    live.check_stopped()
    there, taken = {partition.id for partition in live.partitions}, {partition.id for partition in source.partitions}
    if there != taken:
        raise RefusedError(
            f"the application's tasks have moved since the snapshot: {', '.join(sorted(there ^ taken))} "
            f"{'came' if there - taken else 'went'}",
            hint="begin anew: stateferry abandon SPEC, then stateferry snapshot SPEC",
        )
    return source


def _checked_state(migration: Migration, slot: Path, partition_id: str) -> str:
    partition = next(each for each in migration.plan.store_partitions if each.id == partition_id)
    state = directory_state({database: slot / database for database in partition.databases})
    if state != assembled_states(migration.ledger.rows).get(partition_id, state):
        raise RefusedError(
            f"the new store {slot} was written to since it was assembled",
            hint=f"remove that directory; {_RUN} makes it again",
        )
    return state


def _position_of_new(source: Source, partition_id: str, before: Positions) -> Positions:
    return source.record.positions[partition_id] if isinstance(source, SnapshotSource) else before


def _check_old_unwritten(migration: Migration, journal: Journal) -> None:
    for places in migration.places(journal):
        if state_of(places, places.old_store) != places.entry.old_state:
            raise RefusedError(
                f"the old store of {places.entry.partition.id} was written to since the cut-over began",
                hint="go back to the old stores (stateferry rollback SPEC), then begin anew (stateferry abandon SPEC)",
            )


def _carry_out(migration: Migration, journal: Journal) -> None:
    """From wherever an earlier attempt was killed. Every step finds out for itself whether it is done."""
    notify, every = migration.context.notify, migration.places(journal)
    migration.check_stopped(every)
    _check_stand(every)
    for places in every:  # never a position ahead of the store that is found there
        migration.write_positions(places, migration.between(places.entry.before, places.entry.after))
    notify("cutover.positioned")
    for places in every:
        places.bring_new()
        notify("cutover.exchanged", store_partition=places.entry.partition)
    sync_names(every)
    for places in every:
        places.shelve_old()
    sync_names(every)
    notify("cutover.shelved")
    for places in every:
        migration.write_positions(places, places.entry.after)
    _check_nobody_came(migration, every)
    notify("cutover.done")
    migration.record(Step.CUT_OVER, journal)
    notify("cutover.committed")


def _check_stand(every: list[Places]) -> None:
    for places in every:
        stand = places.at(places.slot), places.at(places.live)
        if stand not in {("new", "old"), ("new", "none"), ("old", "new"), ("none", "new")}:
            raise RefusedError(
                f"{places.live} holds neither the old store nor the new one that the cut-over is about",
                hint="was it restored, or made anew, since? go back (stateferry rollback SPEC), or put it back",
            )


def _check_nobody_came(migration: Migration, every: list[Places]) -> None:
    try:
        migration.check_stopped(every)
    except StoreLockedError as error:
        raise RefusedError(
            f"the application was started during the cut-over: {error.message}",
            hint="stop it, then run the command again, which finishes the cut-over",
        ) from error
