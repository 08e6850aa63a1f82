"""`status`: the state of a migration by its plan and ledger. No store is opened, and no JVM is started."""

from __future__ import annotations

from migrate.batch.changelog.concerns import every_concern
from migrate.batch.changelog.standing import changelog_reports
from migrate.batch.ledger.gates import not_accepted
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.batch.status.next_step import following, next_step
from migrate.batch.status.reject_reasons import reject_reasons
from migrate.batch.status.throughput import throughput_of
from migrate.errors import system_errors_explained
from migrate.model.reports import Behind, Held, StatusReport, Verifying
from migrate.spec.spec import Spec


@system_errors_explained()
def status(spec: Spec) -> StatusReport:
    """The state of the migration and its next step, also while a run is at work.

    Args:
        spec: the migration, from `load_spec` or built in code.

    Raises:
        RefusedError: the plan or the ledger is of a newer release, or damaged.
    """
    standing = read_standing(spec.home)
    report = status_of(spec, standing, *asked(spec, standing))
    return report.model_copy(update={"next_step": following(spec.home) or report.next_step})


def asked(spec: Spec, standing: Standing) -> tuple[Behind | None, tuple[Held, ...]]:
    """What the broker says: only a spec with changelogs needs the packages that ask one."""
    if spec.changelog is None:
        return None, ()
    try:
        from migrate.batch.status.behind import ask_broker
    except ModuleNotFoundError as error:
        return Behind(unknown=f"the package {error.name} is not installed"), ()
    return ask_broker(spec, standing)


def status_of(
    spec: Spec, standing: Standing, behind: Behind | None = None, held: tuple[Held, ...] = ()
) -> StatusReport:
    """The report of `status`; `behind`, `held`: what the new stores lack, where the broker was asked."""
    plan, state, left = standing.plan, standing.state, standing.pending
    if plan is None:
        return StatusReport(name=spec.name, state=state, next_step=next_step(spec, standing, state))
    size_left = sum(chunk.estimated_bytes for chunk in left)
    size = sum(chunk.estimated_bytes for chunk in plan.chunks)
    concerns = every_concern(spec, standing)
    rejects = reject_reasons(standing)
    has_stopped = bool(rejects) and rejects[0].ended_run and spec.conversion.function is not None
    following = next_step(
        spec, standing, state, not_accepted(concerns), has_stopped=has_stopped, behind=behind, partitions=held
    )
    return StatusReport(
        name=spec.name,
        migration_id=plan.migration_id,
        state=state,
        plan_revision=plan.revision,
        chunks_planned=len(plan.chunks),
        chunks_left=len(left),
        share_done=1.0 if not left else round(max(0.0, 1 - size_left / max(size, 1)), 4),
        totals=standing.totals,
        throughput=throughput_of(standing),
        runs=len(standing.runs),
        last_commit_ms=standing.last_commit_ms,
        changelogs=changelog_reports(standing.rows),
        held=held,
        behind=behind,
        verification=standing.verification,
        verifying=None if left else _verifying(standing),
        concerns=concerns,
        rejects=rejects,
        revision=len(standing.revisions),
        published=standing.published,
        next_step=following,
    )


def _verifying(standing: Standing) -> Verifying | None:
    """The progress by the rows of ranges; those of store partitions that have changed since do not count."""
    rows = [(row, row.facts) for row in standing.compared_so_far]
    if not rows:
        return None
    newest = {row.store_partition: facts["subject"] for row, facts in rows}
    records = sum(row.records_out or 0 for row, facts in rows if facts["subject"] == newest[row.store_partition])
    expected = max(records, standing.totals.records_out)
    last, facts = rows[-1]
    fresh = sum(row.records_out or 0 for row, _ in rows if row.run_id == last.run_id)
    seconds = max(1, last.committed_at_ms - facts["began_at_ms"]) / 1000
    return Verifying(
        records=records,
        records_expected=expected,
        share_done=round(records / max(1, expected), 4),
        records_per_second=round(fresh / seconds, 1) if fresh else None,
        seconds_left=round((expected - records) * seconds / fresh, 1) if fresh else None,
    )
