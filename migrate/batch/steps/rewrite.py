"""Rewrite: every unfinished chunk is rewritten, and committed when its task ends."""

from __future__ import annotations

import time
from collections.abc import Iterator

from migrate.batch.chunk.executor import Executor, Finished, run_all
from migrate.batch.chunk.reader import inputs_of
from migrate.batch.chunk.rewrite import RewriteTask
from migrate.batch.context import Context
from migrate.batch.ledger.intervals import pending_chunks, totals_of
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger
from migrate.batch.stop import RERUN
from migrate.engine.rejects import RecordRejectedError, way_past_the_cap
from migrate.errors import InterruptedMigrationError, MigrationError, RejectedError
from migrate.model.ledger_row import Step, StoppedRun, chunk_row
from migrate.model.plan import Chunk, Plan
from migrate.model.receipt import Receipt


def rewrite(
    context: Context, executor: Executor, plan: Plan, ledger: Ledger, *, before: list[Receipt]
) -> list[Receipt]:
    """Rewrite the pending chunks, and return all receipts, including those of earlier runs (`before`).

    Raises ChunkFailedError, RejectedError, or InterruptedMigrationError at the end of the time budget.
    """
    budget = context.spec.run.time_budget
    deadline = None if budget is None else time.monotonic() + budget.total_seconds()
    pending = pending_chunks(plan, before)
    receipts = list(before)
    revision = Standing(context.home, ledger.rows).revision_id
    tasks = (_task(context, plan, chunk, revision) for chunk in pending)
    started = lambda task: context.notify("chunk.started", task=task)  # noqa: E731 - one line, used once
    name = context.spec.name
    running = run_all(executor, tasks, on_start=started, name=name, deadline=deadline, stop=context.stop)
    for finished in _reporting_failures(context, ledger, revision, running):
        fresh = [result for _, result in finished if isinstance(result, Receipt)]
        context.notify("chunk.finished", receipts=fresh)
        ledger.commit(*(chunk_row(receipt) for receipt in fresh))
        receipts += fresh
        context.notify("chunk.committed", receipts=fresh)
        _check_reject_count(context, receipts)
    if left := len(pending) - (len(receipts) - len(before)):
        why = "interrupted" if context.stop.is_requested else "the time budget is used up"
        raise InterruptedMigrationError(f"{why} with {left} of {len(plan.chunks)} chunks left", hint=RERUN)
    _check_reject_count(context, receipts)
    _check_reject_share(context, receipts)
    return receipts


def _reporting_failures(
    context: Context, ledger: Ledger, revision: str, finished: Iterator[Finished]
) -> Iterator[Finished]:
    try:
        yield from finished
    except MigrationError as error:
        if isinstance(error, RecordRejectedError) and error.chunk is not None:
            stopped = StoppedRun(revision=revision, chunk=error.chunk, reason=error.reason)
            where = error.chunk.store_partition
            ledger.commit(ledger.row(Step.FAILED, store_partition=where, detail=stopped.model_dump(mode="json")))
        context.notify("chunk.failed", error=error)
        raise


def _task(context: Context, plan: Plan, chunk: Chunk, revision: str) -> RewriteTask:
    database = plan.database(chunk.store_partition, chunk.database)
    return RewriteTask(
        home=str(context.home),
        source=inputs_of(database, context.snapshots_of(plan, chunk.store_partition)),
        migration_id=plan.migration_id,
        run_id=context.run_id,
        chunk=chunk,
        mappings=database.mappings,
        conversion=context.ref,
        revision=revision,
        is_kept=database.is_kept,
        on_reject=context.spec.run.on_reject,
        max_rejects=context.spec.run.max_rejects,
    )


def _check_reject_count(context: Context, receipts: list[Receipt]) -> None:
    limit = context.spec.run.max_rejects
    if limit is not None and (count := sum(receipt.rejected for receipt in receipts)) > limit:
        raise _too_many(context, f"records that cannot be converted: {count}, max_rejects allows {limit}")


def _check_reject_share(context: Context, receipts: list[Receipt]) -> None:
    limit = context.spec.run.max_reject_share
    totals = totals_of(receipts)
    if limit is not None and totals.rejected > limit * totals.records_in:
        found = f"{totals.rejected} of {totals.records_in} records cannot be converted"
        share = f"({totals.rejected / totals.records_in:.2%}), max_reject_share allows {limit:.2%}"
        raise _too_many(context, f"{found} {share}")


def _too_many(context: Context, message: str) -> RejectedError:
    return RejectedError(message, hint=way_past_the_cap(has_function=context.ref.function is not None))
