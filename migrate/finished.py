"""A migration that is over, or between two states: `run` begins neither of them again (I10)."""

from __future__ import annotations

from pathlib import Path

from migrate.errors import RefusedError
from migrate.gates import concerns_of, hold_back
from migrate.identity import check_identity, spec_identity
from migrate.ledger import Row, Step
from migrate.ledger_facts import last_verification, published_path
from migrate.plan_model import Plan, load_plan
from migrate.progress_state import receipts_of, totals_of
from migrate.report_model import RunReport, Verification
from migrate.run_report import report_of
from migrate.steps.context import Context
from migrate.switching.journal import last_switch
from migrate.switching.states import HALF_DONE, NEXT, STATES


def report_of_finished(context: Context, rows: list[Row]) -> RunReport | None:
    """What an earlier run did, where nothing is left to do.

    Raises RefusedError where a switch is half done, VerificationError where the new stores were found wrong since.
    """
    plan = load_plan(context.home)
    step, _ = last_switch(rows)
    path = published_path(rows)
    if plan is None or (path is None and step in (None, Step.ROLLED_BACK)):
        return None
    check_identity(plan, spec_identity(context.spec, context.ref, plan))
    if step in HALF_DONE:
        raise RefusedError(f"the migration {context.spec.name!r} is half way: {STATES[step]}", hint=NEXT[STATES[step]])
    if path is not None and step is not Step.FINALIZED and not path.is_dir():
        raise RefusedError(
            f"this migration was published at {path}, and that directory is not there any more",
            hint="where it was moved to is the result; to migrate once more, begin anew by another `name`",
        )
    return _report(context, plan, rows, step, path)


def _report(context: Context, plan: Plan, rows: list[Row], step: Step | None, path: Path | None) -> RunReport:
    receipts = receipts_of(rows, context.home)
    concerns = concerns_of(context.spec, rows, totals_of(receipts))
    if step is not Step.FINALIZED:
        hold_back((concern for concern in concerns if concern.kind == "mismatch"), "already migrated")
    report = report_of(
        context,
        plan,
        receipts,
        done_before=receipts,
        seconds={},
        verification=last_verification(rows) or Verification(mode="off"),
        new_stores={},
        published=path,
        dead_letters=None,
        concerns=concerns,
    )
    if step is None:
        return report
    stores = tuple(context.spec.source_path / partition.path for partition in plan.store_partitions)
    said = "already migrated: the new stores are where the application looks"
    return report.model_copy(
        update={
            "state": STATES[step],
            "new_stores": stores if path is None else (),
            "next_step": f"already migrated; {NEXT[STATES[step]]}" if path is not None else said,
        }
    )
