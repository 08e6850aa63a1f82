"""Putting a run's report together."""

from __future__ import annotations

from pathlib import Path

from migrate.dead_letters import dead_letter_columns
from migrate.gates import not_accepted
from migrate.plan_model import Plan
from migrate.preflight import changelog_note
from migrate.progress_state import totals_of
from migrate.receipt import Receipt
from migrate.report_model import Concern, RunReport, State, Verification
from migrate.steps.context import Context


def report_of(
    context: Context,
    plan: Plan,
    receipts: list[Receipt],
    *,
    done_before: list[Receipt],
    seconds: dict[str, float],
    verification: Verification,
    new_stores: dict[str, Path],
    published: Path | None,
    dead_letters: Path | None,
    concerns: tuple[Concern, ...],
) -> RunReport:
    """What a run did. No `seconds`: the migration was finished before, and this run did nothing."""
    totals = totals_of(receipts)
    fresh = totals.records_in - totals_of(done_before).records_in
    return RunReport(
        name=context.spec.name,
        migration_id=plan.migration_id,
        run_id=context.run_id,
        state=_state(verification, published),
        source_format=context.spec.source.format,
        target_format=context.spec.target.format,
        source=context.spec.source_path,
        store_partitions=len(plan.store_partitions),
        totals=totals,
        chunks_planned=len(plan.chunks),
        chunks_done_before=len(done_before),
        seconds=seconds,
        records_per_second=round(fresh / seconds["rewrite"]) if seconds.get("rewrite") else 0,
        verification=verification,
        new_stores=tuple(new_stores.values()),
        published=published,
        dead_letters=dead_letters,
        dead_letter_columns=() if dead_letters is None else dead_letter_columns(),
        concerns=concerns,
        changelog=changelog_note(context.conversion),
        warnings=(*plan.warnings, *context.warnings),
        next_step=_next_step(context, published, not_accepted(concerns), is_old_news=not seconds),
    )


def _state(verification: Verification, published: Path | None) -> State:
    if published is not None:
        return "published"
    return "assembled" if verification.mode == "off" else "verified"


def _next_step(context: Context, published: Path | None, held: tuple[Concern, ...], *, is_old_news: bool) -> str:
    if published is None:
        stand = f"the new stores stand in {context.home / 'new'}, the old ones are as they were"
        return "; ".join((stand, *([each.fix for each in held] or ["stateferry cutover SPEC exchanges them"])))
    if is_old_news:
        return f"already migrated: the new state directory was published at {published}"
    return f"point the application at {published}; the old state directory is as it was"
