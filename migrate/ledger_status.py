"""`status`: what the plan and the ledger say. No store is opened, and no JVM is started."""

from __future__ import annotations

from pathlib import Path

from migrate.errors import RefusedError
from migrate.ledger import Row, Step, read_ledger
from migrate.plan_model import Plan, load_plan
from migrate.progress_state import pending_chunks, receipts_of, totals_of
from migrate.report import State, StatusReport
from migrate.spec import Spec
from migrate.steps.assemble import assembled_folders
from migrate.steps.publish import published_path
from migrate.steps.verify import last_verification
from migrate.switching.journal import last_switch
from migrate.switching.states import NEXT, STATES
from migrate.system_errors import system_errors_explained


@system_errors_explained()
def status(spec: Spec) -> StatusReport:
    """Where the migration stands. Raises RefusedError for a plan or a ledger of a newer schema."""
    plan = load_plan(spec.home)
    if plan is None:
        early: State = "snapshot taken" if (spec.home / "snapshot").is_dir() else "not started"
        return StatusReport(name=spec.name, state=early, next_step=_next_step(spec, early))
    rows = read_ledger(spec.home)
    if any(row.migration_id != plan.migration_id for row in rows if row.step is not Step.RUN):
        raise RefusedError(f"plan and ledger in {spec.home} belong to different migrations", hint="restore the folder")
    receipts = receipts_of(rows, spec.home)
    left = pending_chunks(plan, receipts)
    state = state_of(plan, rows, spec.home, is_rewritten=not left)
    size_left = sum(chunk.estimated_bytes for chunk in left)
    size = sum(chunk.estimated_bytes for chunk in plan.chunks)
    return StatusReport(
        name=spec.name,
        migration_id=plan.migration_id,
        state=state,
        plan_revision=plan.revision,
        chunks_planned=len(plan.chunks),
        chunks_left=len(left),
        share_done=1.0 if not left else round(max(0.0, 1 - size_left / max(size, 1)), 4),
        totals=totals_of(receipts),
        runs=sum(row.step is Step.RUN for row in rows),
        last_commit_ms=max((row.committed_at_ms for row in rows), default=None),
        verification=last_verification(rows),
        published=published_path(rows),
        next_step=_next_step(spec, state),
    )


_NEXT: dict[State, str] = {
    "not started": "stateferry run SPEC",
    "snapshot taken": "start the application again; stateferry run SPEC converts the snapshot",
    "rewriting": "stateferry run SPEC (resumes)",
    "mismatch": "stateferry run SPEC assembles the new stores again from their chunks, and compares them",
    "published": "point the application at the new state directory; when sure, stateferry finalize SPEC",
    **NEXT,
}


def _next_step(spec: Spec, state: State) -> str:
    if state in _NEXT:
        return _NEXT[state]
    if spec.target_path is not None:
        return "stateferry run SPEC (verifies and publishes)"
    if state == "assembled" and spec.run.verify != "off":
        return "stateferry run SPEC (verifies)"
    return "stop the application; stateferry cutover SPEC puts the new stores in the old ones' places"


def state_of(plan: Plan, rows: list[Row], home: Path, *, is_rewritten: bool) -> State:
    """Where a migration stands, from its plan and its ledger; `is_rewritten`: no chunk is left."""
    step, _ = last_switch(rows)
    if step is not None and not (step is Step.ROLLED_BACK and _was_compared_since(rows)):
        return STATES[step]
    if published_path(rows) is not None:
        return "published"
    verified = last_verification(rows)
    if verified is not None:
        return "verified" if verified.ok else "mismatch"
    folders = assembled_folders(rows, home)
    return "assembled" if is_rewritten and len(folders) == len(plan.store_partitions) else "rewriting"


def _was_compared_since(rows: list[Row]) -> bool:
    """After a rollback: whether a run has taken the migration up again."""
    told = [row.step for row in rows if row.step in (Step.ROLLED_BACK, Step.VERIFIED, Step.MISMATCH)]
    return told[-1] is not Step.ROLLED_BACK
