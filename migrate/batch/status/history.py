"""`report`: the history of a migration, run by run and chunk by chunk, from its ledger. No store is opened."""

from __future__ import annotations

import time
from operator import attrgetter

from formats import Conversion
from migrate.batch.changelog.concerns import note_of
from migrate.batch.chunk.native_trace import deaths_in_words
from migrate.batch.home import DEAD_LETTERS
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.batch.status.next_step import following
from migrate.batch.status.status import asked, status_of
from migrate.errors import system_errors_explained
from migrate.model.ledger_row import Row, Step
from migrate.model.reports import Column, Concern, StatusReport
from migrate.model.run_history import ChunkDone, RunHistory, RunSummary, StepDone
from migrate.model.values import of_valid
from migrate.spec.spec import Spec


@system_errors_explained()
def report(spec: Spec) -> RunHistory:
    """The history so far, which is empty for a migration that was not started. Takes no lock and writes nothing.

    Args:
        spec: the migration, from `load_spec` or built in code.

    Raises:
        RefusedError: the plan or the ledger is of a newer release, or damaged.
    """
    standing = read_standing(spec.home)
    status, plan, rows = status_of(spec, standing, *asked(spec, standing)), standing.plan, standing.rows
    status = status.model_copy(update={"next_step": following(spec.home) or status.next_step})
    letters = spec.home / DEAD_LETTERS
    shared = RunHistory.model_fields.keys() & StatusReport.model_fields.keys() - {"runs"}
    return RunHistory(
        **{name: getattr(status, name) for name in shared},
        source_format=spec.source.format,
        target_format=spec.target.format,
        source=spec.source_path,
        new_stores=tuple(standing.new_stores(spec.source_path).values()),
        made_at_ms=int(time.time() * 1000),
        runs=_runs(standing),
        chunks=_chunks(standing),
        dead_letters=letters if letters.is_dir() else None,
        dead_letter_columns=_columns() if letters.is_dir() else (),
        steps=tuple(_step(row) for row in rows if row.step not in (Step.RUN, Step.CHUNK, Step.COMPARED)),
        changelog=_changelog(spec, standing),
        warnings=(
            *(plan.warnings if plan is not None else ()),
            *deaths_in_words(standing.receipts, standing.verification),
        ),
    )


def _columns() -> tuple[Column, ...]:
    from migrate.batch.ledger.dead_letters import dead_letter_columns  # loads delta-rs

    return dead_letter_columns()


def _step(row: Row) -> StepDone:
    goes_live = row.step in (Step.PUBLISHING, Step.CUTTING_OVER, Step.FINALIZING)
    accepted = row.facts.get("accepted", []) if goes_live else []
    return StepDone(
        step=str(row.step),
        committed_at_ms=row.committed_at_ms,
        store_partition=row.store_partition,
        accepted=tuple(map(Concern.model_validate, accepted)),
    )


def _runs(standing: Standing) -> tuple[RunSummary, ...]:
    by_run: dict[str, list[Row]] = {run_id: [] for run_id in standing.runs}
    for row in standing.rows:
        by_run.get(row.run_id, []).append(row)
    return tuple(_run(run_id, mine) for run_id, mine in by_run.items())


def _run(run_id: str, rows: list[Row]) -> RunSummary:
    chunks = [row for row in rows if row.step is Step.CHUNK]
    return RunSummary(
        run_id=run_id,
        first_commit_ms=rows[0].committed_at_ms,
        last_commit_ms=rows[-1].committed_at_ms,
        chunks=len(chunks),
        records_in=sum(row.records_in or 0 for row in chunks),
        seconds=round(sum(row.seconds or 0.0 for row in chunks), 3),
        kind="replay" if any(row.step is Step.REVISED for row in rows) else "run",
    )


def _chunks(standing: Standing) -> tuple[ChunkDone, ...]:
    """The chunks in the order of their commits. The receipt has the chunk's duration, the ledger the time it ended."""
    committed = standing.committed_ms
    of_receipt = [name for name in ChunkDone.model_fields if name not in {"started_at_ms", "committed_at_ms"}]
    values_of = attrgetter(*of_receipt)
    chunks = []
    for receipt in standing.receipts:
        ended = committed[receipt.attempt]
        times = {"started_at_ms": ended - round(receipt.seconds * 1000), "committed_at_ms": ended}
        chunks.append(of_valid(ChunkDone, {**dict(zip(of_receipt, values_of(receipt), strict=True)), **times}))
    return tuple(sorted(chunks, key=lambda chunk: (chunk.committed_at_ms, chunk.store_partition, chunk.number)))


def _changelog(spec: Spec, standing: Standing) -> str:
    """The note in the journal of the switch, else one by the formats and by whether payloads change."""
    if standing.is_live and standing.journal.changelog:
        return standing.journal.changelog
    section = spec.conversion
    is_plain = section.function is None and section.key is None and section.value is None
    function = None if is_plain else lambda record: record  # the spec's own may be gone by now
    conversion = Conversion(spec.source_format, spec.target_format, section.default_timestamp_ms, function=function)
    return note_of(spec, conversion, standing)
