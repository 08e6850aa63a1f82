"""The history of a migration as text."""

from __future__ import annotations

from migrate.batch.status.history import RunHistory
from migrate.model.units import duration, moment, plural
from migrate.show.output import Output
from migrate.show.plain import ATTENTION, Layout
from migrate.show.text.reports import concerns_in_words, dead_letters_in_words, facts_of_totals, verification_in_words

_MOST_STEPS = 12


def show_history(history: RunHistory, output: Output) -> list[str]:
    """What a migration has done, its state, and a table of its runs."""
    facts = {
        "migration": f"{history.name}: {history.source_format} -> {history.target_format}",
        "source": str(history.source),
        "state": history.state,
    }
    if history.migration_id is not None:
        facts |= {
            "chunks": f"{history.chunks_planned - history.chunks_left} of {history.chunks_planned}",
            **facts_of_totals(history.totals),
            "slowest": _slowest(history),
            "verification": "not yet" if history.verification is None else verification_in_words(history.verification),
            ATTENTION: concerns_in_words(history.concerns),
            "published": "" if history.published is None else str(history.published),
            "new stores": "\n".join(map(str, history.new_stores)),
            "steps": _steps(history),
            "rejects": "\n".join(f"{reason.records:,}: {reason.reason}" for reason in history.rejects),
            "dead letters": dead_letters_in_words(history.dead_letters, history.dead_letter_columns),
        }
    changelog = history.changelog if history.migration_id is not None else ""
    rest = {"changelog": changelog, "warnings": "\n".join(history.warnings), "next": history.next_step}
    runs = ["", *_runs(history, output.layout)] if history.runs else []
    return output.layout.facts(facts | rest) + runs


def _runs(history: RunHistory, layout: Layout) -> list[str]:
    numbers = ("took", "chunks", "records read", "task time")
    rows = [
        (
            run.run_id,
            moment(run.first_commit_ms),
            duration((run.last_commit_ms - run.first_commit_ms) / 1000),
            f"{run.chunks:,}",
            f"{run.records_in:,}",
            duration(run.seconds),
        )
        for run in history.runs
    ]
    return layout.table(("run", "started", *numbers), rows, right=numbers)


def _slowest(history: RunHistory) -> str:
    if not history.chunks:
        return ""
    chunk = max(history.chunks, key=lambda each: each.seconds)
    return f"{duration(chunk.seconds)}: {chunk.store_partition} chunk {chunk.number}, on {chunk.host}"


def _steps(history: RunHistory) -> str:
    """The latest steps, with the number of store partitions that took them together."""
    return "\n".join(
        f"{moment(steps[-1].committed_at_ms)} {steps[0].step}"
        + (f" ({plural(len(steps), 'store partition')})" if len(steps) > 1 else "")
        for steps in history.milestones()[-_MOST_STEPS:]
    )
