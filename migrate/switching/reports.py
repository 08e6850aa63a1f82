"""What a switch tells when it is done."""

from __future__ import annotations

from migrate.ledger import Step
from migrate.preflight import changelog_note
from migrate.report import SwitchReport
from migrate.switching.journal import Journal
from migrate.switching.migration import Migration
from migrate.switching.states import NEXT, STATES


def switch_report(migration: Migration, journal: Journal, step: Step) -> SwitchReport:
    """Of a verb that ended at this step, now or earlier."""
    state = STATES[step]
    is_over = step is Step.CUT_OVER
    return SwitchReport(
        name=migration.context.spec.name,
        migration_id=migration.plan.migration_id,
        state=state,
        stores=tuple(entry.live for entry in journal.exchanges),
        old_stores=migration.home / "old" if is_over else None,
        changelog=changelog_note(migration.context.conversion),
        warnings=migration.plan.warnings,
        next_step=NEXT[state],
    )
