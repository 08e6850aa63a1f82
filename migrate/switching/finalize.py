"""`finalize`: the way back is given up, and its space freed. The ledger stays (I10)."""

from __future__ import annotations

from migrate.errors import RefusedError
from migrate.events import Listener, ignore
from migrate.gates import signed
from migrate.ledger import Step
from migrate.ledger_facts import published_path
from migrate.preflight import check_home
from migrate.report_model import SwitchReport
from migrate.spec import Spec
from migrate.stores.files import fsync_directory, remove_tree
from migrate.switching.migration import Migration, open_migration
from migrate.switching.reports import switch_report
from migrate.system_errors import system_errors_explained

FREED = ("old", "new", "chunks", "snapshot")
"""What lies in the migration's folder and is needed no more."""


@system_errors_explained()
def finalize(spec: Spec, *, accept_mismatch: bool = False, on_event: Listener = ignore) -> SwitchReport:
    """Remove the old stores that were cut over, and all that the migration was made from.

    Of a migration that published a new directory the old one is the application's, and stays. Raises RefusedError
    before the switch is done, and VerificationError where a verification found the new stores wrong, unless
    `accept_mismatch`.
    """
    check_home(spec)
    with open_migration(spec, on_event) as migration:
        step, journal = migration.step, migration.journal
        if step is Step.FINALIZED:
            return switch_report(migration, journal, step)
        if step not in (Step.CUT_OVER, Step.FINALIZING) and published_path(migration.rows) is None:
            raise RefusedError(f"{spec.name!r} is not cut over yet", hint="stateferry status SPEC says where it stands")
        _check_new_is_in_use(migration)
        if accept_mismatch:
            accepted = signed(each.model_copy(update={"accepted": "--accept-mismatch"}) for each in migration.mismatch)
            journal = journal.model_copy(update={"accepted": (*journal.accepted, *accepted)})
        else:
            migration.check_not_refuted("nothing is given up without --accept-mismatch")
        migration.notify("finalize.started")
        migration.record(Step.FINALIZING, journal)
        migration.notify("finalize.intended")
        for name in FREED:
            remove_tree(migration.home / name)
            migration.notify("finalize.removed", folder=name)
        fsync_directory(migration.home)
        migration.record(Step.FINALIZED, journal)
        migration.notify("finalize.committed")
        return switch_report(migration, journal, Step.FINALIZED)


def _check_new_is_in_use(migration: Migration) -> None:
    """Not of every task: Kafka Streams removes those that moved elsewhere."""
    published = published_path(migration.rows)
    directory = published or migration.application
    if not directory.is_dir():
        raise RefusedError(
            f"{directory} is not there, so that nothing shows that the new stores are in use",
            hint="is its volume mounted? then run the command again",
        )
    for places in migration.places(migration.journal):
        if places.at(places.live) == "old":
            raise RefusedError(
                f"{places.live} holds the old store: somebody has put it back",
                hint="is the cut-over still wanted? stateferry rollback SPEC settles that it is not",
            )
