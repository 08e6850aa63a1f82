"""What a switch tells when it is done."""

from __future__ import annotations

from migrate.ledger import Step
from migrate.report_model import SwitchReport
from migrate.switching.journal import Journal
from migrate.switching.migration import Migration
from migrate.switching.states import NEXT, STATES


def switch_report(migration: Migration, journal: Journal, step: Step) -> SwitchReport:
    """Of a verb that ended at this step, now or earlier."""
    state = STATES[step]
    return SwitchReport(
        name=migration.spec.name,
        migration_id=migration.migration_id,
        state=state,
        stores=tuple(places.live for places in migration.places(journal)),
        old_stores=migration.home / "old" if step is Step.CUT_OVER else None,
        concerns=journal.accepted if step is not Step.ROLLED_BACK else (),
        changelog=journal.changelog if step is not Step.ROLLED_BACK else "",
        warnings=(*migration.warnings, *journal.warnings),
        next_step=NEXT[state],
    )
