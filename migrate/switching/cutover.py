"""`cutover`: the new stores take the old ones' places, all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from migrate.errors import RefusedError, SourceChangedError
from migrate.events import Listener, ignore
from migrate.identity import StoreState, check_identity, planned_state, store_identity, store_state
from migrate.ledger import Step
from migrate.progress_state import committed_receipts, pending_chunks
from migrate.report import SwitchReport
from migrate.snapshots import SnapshotSource
from migrate.source import Source, find_source
from migrate.spec import Spec
from migrate.steps.assemble import assembled_folders, assembled_states
from migrate.steps.prepare import open_source
from migrate.steps.verify import verified_folders
from migrate.store_partition import StorePartition
from migrate.stores.files import fsync_tree, own_like
from migrate.stores.layout import rocksdb_identities
from migrate.switching.journal import Exchange, Journal
from migrate.switching.migration import Migration, check_in_place, is_as_it_was, open_migration
from migrate.switching.places import Places, sync_names
from migrate.switching.reports import switch_report
from migrate.system_errors import system_errors_explained

_RUN = "stateferry run SPEC"
_ANEW = "the new stores are of another past: begin anew (stateferry abandon SPEC, then stateferry run SPEC)"


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
        is_resumed = step is Step.CUTTING_OVER
        slots = {} if is_resumed else _verified_slots(migration)
        with migration.keeping_out(slots.values()) as check_nobody_came:
            if is_resumed:
                _check_old_unwritten(migration)
                journal = migration.journal
            else:
                journal = _intend(migration, slots)
            _carry_out(migration, journal, check_nobody_came)
        return switch_report(migration, journal, Step.CUT_OVER)


def _intend(migration: Migration, slots: dict[str, Path]) -> Journal:
    """Everything checked, and written to the ledger before anything moves."""
    notify = migration.context.notify
    notify("cutover.started")
    source = _checked_source(migration)
    exchanges = (_exchange(migration, source, each, slots[each.id]) for each in migration.plan.store_partitions)
    journal = Journal(exchanges=tuple(exchanges))
    notify("cutover.checked")
    migration.record(Step.CUTTING_OVER, journal)
    notify("cutover.intended")
    return journal


def _exchange(migration: Migration, source: Source, partition: StorePartition, slot: Path) -> Exchange:
    live = migration.application / partition.path
    if own_like(live, slot):
        fsync_tree(slot)
    before = source.system.positions(migration.application, partition)
    after = source.record.positions[partition.id] if isinstance(source, SnapshotSource) else before
    return Exchange(
        partition=partition,
        live=live,
        slot=slot.relative_to(migration.home),
        old=Path("old", partition.id),
        old_names=tuple(sorted(rocksdb_identities(live))),
        new_names=tuple(sorted(rocksdb_identities(slot))),
        old_state=_checked_old_state(migration, source, partition),
        new_state=_checked_state(migration, slot, partition),
        before=before,
        after=after,
    )


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
    source = open_source(migration.context.spec)
    if isinstance(source, SnapshotSource):
        check_identity(migration.plan, store_identity(source))
    there = {partition.id for partition in find_source(migration.context.spec).partitions}
    if moved := ", ".join(sorted(there ^ {partition.id for partition in migration.plan.store_partitions})):
        raise SourceChangedError(f"the application's tasks have come or gone since: {moved}", hint=_ANEW)
    return source


def _checked_old_state(migration: Migration, source: Source, partition: StorePartition) -> StoreState:
    then = planned_state(migration.plan, partition, migration.home)
    state = store_state(partition.directories(migration.application), then)
    if state.content != then.content and not isinstance(source, SnapshotSource):
        raise SourceChangedError(f"{partition.id} was written to since it was converted", hint=_ANEW)
    return state


def _checked_state(migration: Migration, slot: Path, partition: StorePartition) -> StoreState:
    then = assembled_states(migration.ledger.rows)[partition.id]
    state = store_state(partition.below(slot), then)
    if state.content != then.content:
        raise RefusedError(
            f"the new store {slot} was written to since it was assembled",
            hint=f"remove that directory; {_RUN} makes it again",
        )
    return state


def _check_old_unwritten(migration: Migration) -> None:
    for places in migration.places(migration.journal):
        if not is_as_it_was(places, places.old_store, places.entry.old_state):
            raise RefusedError(
                f"the old store of {places.entry.partition.id} was written to since the cut-over began",
                hint="go back to the old stores (stateferry rollback SPEC), then begin anew (stateferry abandon SPEC)",
            )


def _carry_out(migration: Migration, journal: Journal, check_nobody_came: Callable[[], None]) -> None:
    """From wherever an earlier attempt was killed. Every step finds out for itself whether it is done."""
    notify, every = migration.context.notify, migration.places(journal)
    _check_stand(every)
    # never a position ahead of the store that is found there
    migration.write_positions((each, migration.between(each.entry.before, each.entry.after)) for each in every)
    notify("cutover.positioned")
    for places in every:
        places.bring_new()
        notify("cutover.exchanged", store_partition=places.entry.partition)
    sync_names(every, migration.home)
    for places in every:
        places.shelve_old()
    sync_names(every, migration.home)
    notify("cutover.shelved")
    migration.write_positions((each, each.entry.after) for each in every)
    check_nobody_came()
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
