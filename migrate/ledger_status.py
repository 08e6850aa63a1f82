"""`status`: what the plan and the ledger say. No store is opened, and no JVM is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.errors import RefusedError
from migrate.gates import concerns_of, is_verified, not_accepted, unresolved_mismatch
from migrate.ledger_facts import assembled_folders, last_verification, published_path
from migrate.ledger_log import LedgerLog
from migrate.ledger_rows import Row, Step
from migrate.marker import check_ours, is_given_up
from migrate.plan_model import Chunk, Plan, load_plan, newest_plan
from migrate.progress_state import pending_chunks, receipts_of, totals_of
from migrate.receipt import Receipt
from migrate.report_model import Concern, State, StatusReport
from migrate.spec import Spec
from migrate.switching.journal import last_switch
from migrate.switching.states import NEXT, STATES
from migrate.system_errors import system_errors_explained


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a migration stands, and what says so."""

    report: StatusReport
    plan: Plan | None
    """None: not started."""
    rows: list[Row]
    receipts: list[Receipt]
    """Of the chunks that are done."""
    left: list[Chunk]


class Lookout:
    """Looks at one migration, again and again, at the cost of what is new; takes no lock and writes nothing."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._log = LedgerLog(spec.home)
        self._plan: Plan | None = None
        self._plan_stamp: tuple[str, int, int] | None = None

    def look(self) -> Standing:
        """Where it stands now. Raises RefusedError for a plan or a ledger of a newer schema, or a folder not ours."""
        check_ours(self._spec.home)
        spec, plan = self._spec, self._newest_plan()
        if plan is None:
            is_early = not is_given_up(spec.home) and (spec.home / "snapshot").is_dir()
            early: State = "snapshot taken" if is_early else "not started"
            return Standing(
                StatusReport(name=spec.name, state=early, next_step=_next_step(spec, early)), None, [], [], []
            )
        rows = self._log.rows()
        if any(row.migration_id != plan.migration_id for row in rows if row.step is not Step.RUN):
            raise RefusedError(
                f"plan and ledger in {spec.home} belong to different migrations", hint="restore the folder"
            )
        receipts = receipts_of(rows, spec.home)
        left = pending_chunks(plan, receipts)
        return Standing(_report(spec, plan, rows, receipts, left), plan, rows, receipts, left)

    def _newest_plan(self) -> Plan | None:
        """A plan revision never changes; but a migration may be given up, and begun anew under its name."""
        file = None if is_given_up(self._spec.home) else newest_plan(self._spec.home)
        if file is None:
            return None
        stamp = (file.name, file.stat().st_ino, file.stat().st_mtime_ns)
        if stamp != self._plan_stamp:
            self._plan, self._plan_stamp = load_plan(self._spec.home), stamp
        return self._plan


@system_errors_explained()
def status(spec: Spec) -> StatusReport:
    """Where the migration stands. Raises RefusedError for a plan or a ledger of a newer schema."""
    return Lookout(spec).look().report


def _report(spec: Spec, plan: Plan, rows: list[Row], receipts: list[Receipt], left: list[Chunk]) -> StatusReport:
    state = state_of(plan, rows, spec.home, is_rewritten=not left)
    size_left = sum(chunk.estimated_bytes for chunk in left)
    size = sum(chunk.estimated_bytes for chunk in plan.chunks)
    totals = totals_of(receipts)
    concerns = concerns_of(spec, rows, totals)
    return StatusReport(
        name=spec.name,
        migration_id=plan.migration_id,
        state=state,
        plan_revision=plan.revision,
        chunks_planned=len(plan.chunks),
        chunks_left=len(left),
        share_done=1.0 if not left else round(max(0.0, 1 - size_left / max(size, 1)), 4),
        totals=totals,
        runs=sum(row.step is Step.RUN for row in rows),
        last_commit_ms=max((row.committed_at_ms for row in rows), default=None),
        verification=last_verification(rows),
        concerns=concerns,
        published=published_path(rows),
        next_step=_next_step(spec, state, not_accepted(concerns)),
    )


_NEXT: dict[State, str] = {
    "not started": "stateferry run SPEC",
    "snapshot taken": "start the application again; stateferry run SPEC converts the snapshot",
    "rewriting": "stateferry run SPEC (resumes)",
    "published": "point the application at the new state directory; when sure, stateferry finalize SPEC",
    **NEXT,
}


_MAY_GO_LIVE: tuple[State, ...] = ("assembled", "verified", "rolled back")


def _next_step(spec: Spec, state: State, held: tuple[Concern, ...] = ()) -> str:
    if any(concern.kind == "mismatch" for concern in held) or (held and state in _MAY_GO_LIVE):
        return "; ".join(concern.fix for concern in held)
    if state in _NEXT:
        return _NEXT[state]
    if spec.target_path is not None:
        return "stateferry run SPEC (verifies and publishes)"
    return "stop the application; stateferry cutover SPEC puts the new stores in the old ones' places"


def state_of(plan: Plan, rows: list[Row], home: Path, *, is_rewritten: bool) -> State:
    """Where a migration stands, from its plan and its ledger; `is_rewritten`: no chunk is left."""
    step, _ = last_switch(rows)
    if step is not None and not (step is Step.ROLLED_BACK and _was_compared_since(rows)):
        return STATES[step]
    if published_path(rows) is not None:
        return "published"
    if unresolved_mismatch(rows) is not None:
        return "mismatch"
    if is_verified(rows):
        return "verified"
    folders = assembled_folders(rows, home)
    return "assembled" if is_rewritten and len(folders) == len(plan.store_partitions) else "rewriting"


def _was_compared_since(rows: list[Row]) -> bool:
    """After a rollback: whether a run has taken the migration up again."""
    told = [row.step for row in rows if row.step in (Step.ROLLED_BACK, Step.VERIFIED, Step.MISMATCH)]
    return told[-1] is not Step.ROLLED_BACK
