"""`status`: the state of a migration by its plan and ledger. No store is opened, and no JVM is started."""

from __future__ import annotations

from migrate.batch.ledger.gates import concerns_of, not_accepted
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.batch.status.next_step import following, next_step
from migrate.errors import system_errors_explained
from migrate.model.reports import StatusReport
from migrate.spec.spec import Spec


@system_errors_explained()
def status(spec: Spec) -> StatusReport:
    """The state of the migration. Raises RefusedError for a plan or a ledger of a newer schema."""
    report = status_of(spec, read_standing(spec.home))
    return report.model_copy(update={"next_step": following(spec.home) or report.next_step})


def status_of(spec: Spec, standing: Standing) -> StatusReport:
    """The report of `status`."""
    plan, state, left = standing.plan, standing.state, standing.pending
    if plan is None:
        return StatusReport(name=spec.name, state=state, next_step=next_step(spec, standing, state))
    size_left = sum(chunk.estimated_bytes for chunk in left)
    size = sum(chunk.estimated_bytes for chunk in plan.chunks)
    concerns = concerns_of(spec, standing, standing.totals)
    return StatusReport(
        name=spec.name,
        migration_id=plan.migration_id,
        state=state,
        plan_revision=plan.revision,
        chunks_planned=len(plan.chunks),
        chunks_left=len(left),
        share_done=1.0 if not left else round(max(0.0, 1 - size_left / max(size, 1)), 4),
        totals=standing.totals,
        runs=len(standing.runs),
        last_commit_ms=standing.last_commit_ms,
        verification=standing.verification,
        concerns=concerns,
        published=standing.published,
        next_step=next_step(spec, standing, state, not_accepted(concerns)),
    )
