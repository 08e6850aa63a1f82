"""`abandon`: a migration is given up. Our files go, the application's never."""

from __future__ import annotations

from migrate.errors import DamagedLedgerError, RefusedError
from migrate.events import Event, Listener, ignore
from migrate.ledger import Step, read_ledger
from migrate.ledger_facts import published_path
from migrate.preflight import check_home
from migrate.report_model import AbandonReport
from migrate.spec import Spec
from migrate.steps.publish import temporary_directories
from migrate.stores.files import fsync_directory, remove_tree
from migrate.stores.layout import rocksdb_identities
from migrate.stores.lock import one_run_at_a_time
from migrate.switching.journal import last_switch
from migrate.system_errors import system_errors_explained


@system_errors_explained()
def abandon(spec: Spec, *, on_event: Listener = ignore) -> AbandonReport:
    """Remove the migration's folder, so that another one may begin under the same name.

    Raises RefusedError once it was switched over: then `rollback` or `finalize` is what ends it.
    """
    check_home(spec)
    home = spec.home
    doomed = home.with_name(f"{home.name}.abandoned")
    was_there = home.exists() or doomed.exists()
    if home.exists():
        with one_run_at_a_time(home):
            _check_nothing_was_switched(spec)
            on_event(Event("abandon.started"))
            for temporary in temporary_directories(spec.target_path):
                remove_tree(temporary)
            remove_tree(doomed)  # of an earlier one that was killed here
            home.rename(doomed)
            fsync_directory(home.parent)
            on_event(Event("abandon.renamed"))
    remove_tree(doomed)
    on_event(Event("abandon.removed"))
    return AbandonReport(name=spec.name, removed=home if was_there else None, source=spec.source_path)


def _check_nothing_was_switched(spec: Spec) -> None:
    home = spec.home
    if _holds_old_stores(spec):
        raise RefusedError(
            f"{home} holds old stores, which are the application's",
            hint="stateferry rollback SPEC puts them back; stateferry finalize SPEC gives them up",
        )
    try:
        rows = read_ledger(home)
    except DamagedLedgerError:
        return  # a damaged ledger is a reason to give up, and no old store is here
    step, _ = last_switch(rows)
    if step not in (None, Step.ROLLED_BACK) or published_path(rows) is not None:
        raise RefusedError(
            f"the migration {spec.name!r} is not one to give up: the new stores are in use",
            hint="stateferry status SPEC says what to do next",
        )


def _holds_old_stores(spec: Spec) -> bool:
    """Told by RocksDB's own identities, whatever the ledger says or does not say."""
    kept = any(path.is_file() for path in (spec.home / "old").rglob("*"))
    snapshot, new = rocksdb_identities(spec.home / "snapshot"), rocksdb_identities(spec.home / "new")
    return kept or not snapshot.isdisjoint(new)
