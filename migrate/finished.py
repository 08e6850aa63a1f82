"""A migration that is over, or between two states: `run` begins neither of them again (I10)."""

from __future__ import annotations

from migrate.errors import RefusedError
from migrate.gates import concerns_of, hold_back
from migrate.identity import check_identity, spec_identity
from migrate.ledger_rows import Step
from migrate.plan_model import Plan
from migrate.report_model import RunReport, Verification
from migrate.run_report import report_of
from migrate.standing import Standing
from migrate.steps.context import Context
from migrate.switching.states import HALF_DONE, NEXT, STATES


def report_of_finished(context: Context, standing: Standing) -> RunReport | None:
    """What an earlier run did, where nothing is left to do.

    Raises RefusedError where a switch is half done, VerificationError where the new stores were found wrong since.
    """
    plan, step, path = standing.plan, standing.step, standing.published
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
    return _report(context, plan, standing)


def _report(context: Context, plan: Plan, standing: Standing) -> RunReport:
    step, path = standing.step, standing.published
    concerns = concerns_of(context.spec, standing, standing.totals)
    if step is not Step.FINALIZED:
        hold_back((concern for concern in concerns if concern.kind == "mismatch"), "already migrated")
    report = report_of(
        context,
        plan,
        standing.receipts,
        done_before=standing.receipts,
        seconds={},
        verification=standing.verification or Verification(mode="off"),
        new_stores={},
        published=path,
        dead_letters=None,
        concerns=concerns,
    )
    if step is None:
        return report
    said = "already migrated: the new stores are where the application looks"
    return report.model_copy(
        update={
            "state": STATES[step],
            "new_stores": tuple(standing.new_stores(context.spec.source_path).values()) if path is None else (),
            "next_step": f"already migrated; {NEXT[STATES[step]]}" if path is not None else said,
        }
    )
