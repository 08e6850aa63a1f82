"""The report of `run`, also for a migration that is over already: `run` does not start it again (I10)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.batch.changelog.concerns import note_of, retention_concerns
from migrate.batch.changelog.standing import changelog_reports
from migrate.batch.context import Context
from migrate.batch.identity import check_spec
from migrate.batch.ledger.dead_letters import dead_letter_columns
from migrate.batch.ledger.gates import concerns_of, not_accepted, require_acceptance
from migrate.batch.ledger.intervals import totals_of
from migrate.batch.ledger.standing import Standing
from migrate.batch.status.behind import ask_broker
from migrate.batch.status.next_step import next_step
from migrate.batch.status.throughput import rewriting_of, throughput_of
from migrate.errors import RefusedError
from migrate.model.comparison import Verification
from migrate.model.journal import HALF_DONE, NEXT, STATES
from migrate.model.ledger_row import Step
from migrate.model.plan import Plan
from migrate.model.receipt import Receipt
from migrate.model.reports import Concern, RunReport, State


def already_migrated(context: Context, standing: Standing) -> RunReport | None:
    """The report of a migration with nothing left to do; None: there is something.

    Raises RefusedError where a switch is half done, VerificationError where a later comparison found a mismatch.
    """
    plan, step, path = standing.plan, standing.step, standing.published
    if plan is None or (path is None and step in (None, Step.ROLLED_BACK)):
        return None
    if step in HALF_DONE:
        raise RefusedError(f"the migration {context.spec.name!r} is half way: {STATES[step]}", hint=NEXT[STATES[step]])
    check_spec(context.spec, context.ref, standing)
    if path is not None and step is not Step.FINALIZED and not path.is_dir():
        raise RefusedError(
            f"this migration was published at {path}, and that directory does not exist any more",
            hint="the result is where it was moved to; to migrate once more, start again under another `name`",
        )
    return _report(context, plan, standing)


def _report(context: Context, plan: Plan, standing: Standing) -> RunReport:
    step, path = standing.step, standing.published
    concerns = concerns_of(context.spec, standing, standing.totals)
    if step is not Step.FINALIZED:
        require_acceptance((concern for concern in concerns if concern.kind == "mismatch"), "already migrated")
    outcome = Outcome(standing.receipts, {}, standing.verification or Verification(mode="off"))
    report = run_report(
        context, plan, outcome, standing, done_before=standing.receipts, published=path, concerns=concerns, seconds={}
    )
    state = "published" if step is None else STATES[step]
    place = "the new stores are where the application looks; " if path is None else ""
    new_stores = standing.new_stores(context.spec.source_path).values() if path is None else ()
    return report.model_copy(
        update={
            "state": state,
            "new_stores": tuple(new_stores),
            "next_step": f"already migrated: {place}{next_step(context.spec, standing, state)}",
        }
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The new stores, and how they were made and compared."""

    receipts: list[Receipt]
    folders: dict[str, Path]
    """Each new store partition that this run assembled or found, by id."""
    verification: Verification
    dead_letters: Path | None = None


def run_report(
    context: Context,
    plan: Plan,
    outcome: Outcome,
    standing: Standing,
    *,
    done_before: list[Receipt],
    published: Path | None,
    concerns: tuple[Concern, ...],
    seconds: dict[str, float],
) -> RunReport:
    """The report of one run. No `seconds`: the migration was finished before, and this run did nothing."""
    behind, held = ask_broker(context.spec, standing)
    dead_letters, before = outcome.dead_letters, {receipt.attempt for receipt in done_before}
    own = rewriting_of(standing, (receipt for receipt in outcome.receipts if receipt.attempt not in before))
    state = _state(outcome.verification, published)
    place = f"the new stores are in {context.home / 'new'}, the old ones are unchanged; " if published is None else ""
    return RunReport(
        name=context.spec.name,
        migration_id=plan.migration_id,
        run_id=context.run_id,
        state=state,
        source_format=context.spec.source.format,
        target_format=context.spec.target.format,
        source=context.spec.source_path,
        store_partitions=len(plan.store_partitions),
        totals=totals_of(outcome.receipts, standing.every_tail),
        throughput=throughput_of(standing),
        chunks_planned=len(plan.chunks),
        chunks_done_before=len(done_before),
        seconds=seconds,
        records_per_second=0 if own is None else own.records_per_second,
        verification=outcome.verification,
        new_stores=tuple(outcome.folders.values()),
        published=published,
        dead_letters=dead_letters,
        dead_letter_columns=() if dead_letters is None else dead_letter_columns(),
        concerns=(*concerns, *retention_concerns(standing)),
        changelog=note_of(context.spec, context.conversion, standing),
        changelogs=changelog_reports(standing.rows),
        held=held,
        warnings=(*plan.warnings, *context.warnings),
        next_step=place
        + next_step(context.spec, standing, state, not_accepted(concerns), behind=behind, partitions=held),
    )


def _state(verification: Verification, published: Path | None) -> State:
    if published is not None:
        return "published"
    return "assembled" if verification.mode == "off" else "verified"
