"""`cutover`: all new stores take the places of the old ones."""

from __future__ import annotations

from collections.abc import Callable

from migrate.batch.changelog.broker.claims import fleet_of
from migrate.batch.changelog.broker.connect import half_done
from migrate.batch.ledger.gates import Acceptance
from migrate.batch.run_lock import alone_in_its_folder
from migrate.batch.switch.at_cutover import check_nobody_is_at_work
from migrate.batch.switch.begin import start_journal, verified_stores
from migrate.batch.switch.checksums import check_staged
from migrate.batch.switch.migration import (
    Migration,
    check_in_place,
    is_as_it_was,
    open_migration,
    switch_report,
)
from migrate.batch.switch.places import Places, sync_names
from migrate.errors import RefusedError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.journal import Journal
from migrate.model.ledger_row import Step
from migrate.model.reports import SwitchReport
from migrate.spec.spec import Spec


@system_errors_explained()
@alone_in_its_folder
def cutover(
    spec: Spec,
    *,
    unverified: bool = False,
    accept_rejects: int | None = None,
    fence: bool = False,
    checksums: bool = True,
    on_event: Listener = ignore,
) -> SwitchReport:
    """Exchange the old stores for the verified new ones, or finish a cut-over that was killed.

    New stores with names of their own are moved in beside the old ones.

    The application must be stopped. `rollback` exchanges them again, until `finalize` removes the old ones.

    Args:
        spec: the migration, from `load_spec` or built in code.
        unverified: accept new stores that were not verified.
        accept_rejects: accept new stores that lack up to this many records, which could not be converted.
        fence: end the transactions that dead instances of the application on this host left open.
        checksums: read the tables of the new stores, and compare them with what was verified.
        on_event: called with each `Event`, before the work goes on.

    Raises:
        SpecError: the migration publishes a new directory instead ([target] path).
        RefusedError: the new stores are not complete, not verified or damaged since, or a process has a store open.
        VerificationError: a verification found the new stores wrong.
        RejectedError: the new stores lack records.
        ChangelogFailedError: the broker was lost in the middle; the same command goes on.
    """
    check_in_place(spec, "cutover")
    with open_migration(spec, on_event) as migration:
        step = migration.standing.step
        if step in (Step.CUT_OVER, Step.FINALIZING, Step.FINALIZED):
            migration.check_not_refuted("the stores are cut over already")
            return switch_report(migration, migration.standing.journal, step)
        if step is Step.ROLLING_BACK:
            raise RefusedError("a rollback is half done", hint="finish it first: stateferry rollback SPEC")
        acceptance = Acceptance(unverified, accept_rejects)
        journal = (
            _resume(migration)
            if step is Step.CUTTING_OVER
            else _start(migration, acceptance, fence=fence, checksums=checksums)
        )
        return switch_report(migration, journal, Step.CUT_OVER)


def _start(migration: Migration, acceptance: Acceptance, *, fence: bool, checksums: bool) -> Journal:
    stores = verified_stores(migration, acceptance)
    with migration.locking(stores.plan.store_partitions, stores.staged.values()) as check_unopened:
        migration.notify("cutover.started")
        journal = start_journal(migration, stores, fence=fence)
        if journal.broker is not None:
            migration.notify("cutover.asked")
        if checksums:
            check_staged(migration, stores.staged)
        migration.notify("cutover.checked")
        migration.record(Step.CUTTING_OVER, journal)
        migration.notify("cutover.intended")
        _carry_out(migration, journal, check_unopened)
    return journal


def _resume(migration: Migration) -> Journal:
    journal, every = migration.standing.journal, migration.places(migration.standing.journal)
    with migration.locking_all(every) as check_unopened:
        for places in every:
            if not is_as_it_was(places, places.old_store, places.entry.old_state):
                raise RefusedError(
                    f"the old store of {places.entry.partition.id} was written to since the cut-over began",
                    hint="go back to the old stores (stateferry rollback SPEC), then start over (stateferry abandon "
                    "SPEC, stateferry run SPEC)",
                )
        check_nobody_is_at_work(migration)
        _carry_out(migration, journal, check_unopened)
    return journal


def _carry_out(migration: Migration, journal: Journal, check_unopened: Callable[[], None]) -> None:
    """Carry out the exchanges, also after a kill: each step checks whether it is done already."""
    notify, every = migration.notify, migration.places(journal)
    for places in every:
        _check_places(places, {("new", "old"), ("new", "none"), ("old", "new"), ("none", "new")})
    # a position must never be ahead of the store in that place
    entries = journal.exchanges
    migration.write_positions(migration.between(each, each.before, each.after) for each in entries)
    notify("cutover.positioned")
    for places in every:
        migration.ledger.check_not_fenced()
        places.make_new_live()
        notify("cutover.exchanged", store_partition=places.entry.partition)
    sync_names(every, migration.home)
    for places in every:
        places.shelve_old()
    sync_names(every, migration.home, live=False)  # nothing moved there since
    notify("cutover.shelved")
    migration.write_positions((each.in_use, each.after) for each in entries)
    if journal.broker is not None:
        with half_done("the cut-over is half done, so start no version of the application"):
            fleet_of(migration.spec, journal.broker.topics).mark("in-use")
        notify("cutover.marked")
    check_unopened()
    for places in every:
        _check_places(places, {("none", "new")})
    notify("cutover.done")
    migration.record(Step.CUT_OVER, journal)
    notify("cutover.committed")


def _check_places(places: Places, allowed: set[tuple[str, str]]) -> None:
    if (places.at(places.staged), places.at(places.live)) not in allowed:
        raise RefusedError(
            f"{places.live} and {places.staged} hold other stores than those of the cut-over",
            hint="was one restored or created again since? stateferry rollback SPEC goes back to the old ones",
        )
