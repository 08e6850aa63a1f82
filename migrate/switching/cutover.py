"""`cutover`: the new stores take the old ones' places, all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from migrate.errors import RefusedError
from migrate.events import Listener, ignore
from migrate.identity import check_identity, directory_state, store_identity
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
    own_like(live, slot)
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
        old_state=directory_state(partition.directories(migration.application)),
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
    check_identity(migration.plan, store_identity(source))
    if isinstance(source, SnapshotSource):
        there = {partition.id for partition in find_source(migration.context.spec).partitions}
        taken = {partition.id for partition in source.partitions}
        if moved := ", ".join(sorted(there ^ taken)):
            raise RefusedError(
                f"the application's tasks have moved since the snapshot was taken: {moved}",
                hint="begin anew: stateferry abandon SPEC, then stateferry snapshot SPEC",
            )
    return source


def _checked_state(migration: Migration, slot: Path, partition: StorePartition) -> str:
    state = directory_state({database: slot / database for database in partition.databases})
    if state != assembled_states(migration.ledger.rows).get(partition.id, state):
        raise RefusedError(
            f"the new store {slot} was written to since it was assembled",
            hint=f"remove that directory; {_RUN} makes it again",
        )
    return state


def _check_old_unwritten(migration: Migration) -> None:
    for places in migration.places(migration.journal):
        if state_of(places, places.old_store) != places.entry.old_state:
            raise RefusedError(
                f"the old store of {places.entry.partition.id} was written to since the cut-over began",
                hint="go back to the old stores (stateferry rollback SPEC), then begin anew (stateferry abandon SPEC)",
            )


def _carry_out(migration: Migration, journal: Journal, check_nobody_came: Callable[[], None]) -> None:
    """From wherever an earlier attempt was killed. Every step finds out for itself whether it is done."""
    notify, every = migration.context.notify, migration.places(journal)
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
