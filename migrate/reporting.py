"""`report`: what was done for a migration, run by run and chunk by chunk, from its ledger. No store is opened."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable

from formats import Conversion, StateRecord
from migrate.dead_letters import dead_letter_columns, dead_letter_folder
from migrate.history import ChunkDone, RunHistory, RunOfIt, StepDone
from migrate.kept_rejects import reject_reasons
from migrate.ledger_rows import Row, Step
from migrate.ledger_status import status_of
from migrate.preflight import changelog_note
from migrate.report_model import Concern
from migrate.spec import Spec
from migrate.standing import Standing, read_standing
from migrate.switching.states import STATES
from migrate.system_errors import system_errors_explained


@system_errors_explained()
def report(spec: Spec) -> RunHistory:
    """What was done so far; of a migration that has not begun, that. Takes no lock and writes nothing.

    Raises RefusedError for a plan or a ledger of a newer schema.
    """
    standing = read_standing(spec.home)
    told, plan, rows = status_of(spec, standing), standing.plan, standing.rows
    letters = dead_letter_folder(spec.home)
    return RunHistory(
        name=spec.name,
        migration_id=told.migration_id,
        state=told.state,
        source_format=spec.source.format,
        target_format=spec.target.format,
        source=spec.source_path,
        new_stores=tuple(standing.new_stores(spec.source_path).values()),
        published=told.published,
        made_at_ms=int(time.time() * 1000),
        totals=told.totals,
        verification=told.verification,
        runs=_runs(rows),
        chunks=_chunks(standing),
        chunks_planned=told.chunks_planned,
        chunks_left=told.chunks_left,
        rejects=reject_reasons(spec.home, standing.receipts),
        dead_letters=letters if letters.is_dir() else None,
        dead_letter_columns=dead_letter_columns() if letters.is_dir() else (),
        concerns=told.concerns,
        steps=tuple(_step(row) for row in rows if row.step not in (Step.RUN, Step.CHUNK)),
        changelog=_changelog(spec, standing),
        warnings=plan.warnings if plan is not None else (),
        next_step=told.next_step,
    )


def _step(row: Row) -> StepDone:
    goes_live = row.step in (Step.PUBLISHING, Step.CUTTING_OVER, Step.FINALIZING)
    accepted = row.facts.get("accepted", []) if goes_live else []
    return StepDone(
        step=str(row.step),
        committed_at_ms=row.committed_at_ms,
        store_partition=row.store_partition,
        accepted=tuple(map(Concern.model_validate, accepted)),
    )


def _runs(rows: Iterable[Row]) -> tuple[RunOfIt, ...]:
    """Those of `run`; the verbs of a switch open the ledger too."""
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_run[row.run_id].append(row)
    return tuple(_run(run_id, mine) for run_id, mine in by_run.items() if not any(row.step in STATES for row in mine))


def _run(run_id: str, rows: list[Row]) -> RunOfIt:
    chunks = [row for row in rows if row.step is Step.CHUNK]
    return RunOfIt(
        run_id=run_id,
        first_commit_ms=rows[0].committed_at_ms,
        last_commit_ms=rows[-1].committed_at_ms,
        chunks=len(chunks),
        records_in=sum(row.records_in or 0 for row in chunks),
        seconds=round(sum(row.seconds or 0.0 for row in chunks), 3),
    )


def _chunks(standing: Standing) -> tuple[ChunkDone, ...]:
    """In the order of their commits. A receipt tells how long its chunk took, the ledger when that was over."""
    committed = {row.facts["attempt"]: row.committed_at_ms for row in standing.rows if row.step is Step.CHUNK}
    chunks = [
        ChunkDone(
            store_partition=receipt.store_partition,
            database=receipt.database,
            number=receipt.number,
            keys=receipt.keys,
            records_in=receipt.records_in,
            records_out=receipt.records_out,
            bytes_in=receipt.bytes_in,
            bytes_out=receipt.bytes_out,
            dropped=receipt.dropped,
            rejected=receipt.rejected,
            seconds=receipt.seconds,
            started_at_ms=committed[receipt.attempt] - round(receipt.seconds * 1000),
            committed_at_ms=committed[receipt.attempt],
            host=receipt.host,
            engine=receipt.engine,
        )
        for receipt in standing.receipts
    ]
    return tuple(sorted(chunks, key=lambda chunk: (chunk.committed_at_ms, chunk.store_partition, chunk.number)))


def _changelog(spec: Spec, standing: Standing) -> str:
    """As it was said when the stores were switched; else what the formats, and there being a function, mean for it."""
    if standing.journal.changelog:
        return standing.journal.changelog
    function = _as_it_is if spec.conversion.function is not None else None  # the spec's own may be gone by now
    section = spec.conversion
    return changelog_note(
        Conversion(spec.source_format, spec.target_format, section.default_timestamp_ms, function=function)
    )


def _as_it_is(record: StateRecord) -> StateRecord:
    return record
