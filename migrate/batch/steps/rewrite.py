"""Rewrite: every unfinished chunk is rewritten; those that end within a short time share a commit.

A chunk that ended is durable, with its receipt beside it. What a kill leaves uncommitted, `reconcile` commits.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from math import inf
from typing import Any

from migrate.batch.chunk.executor import Executor, Finished, run_all
from migrate.batch.chunk.rewrite_chunk import MOST_PARTS, RewriteTask, SplitTask
from migrate.batch.chunk.sorted_range import CollisionError
from migrate.batch.context import Context
from migrate.batch.ledger.receipts_in_force import has_files, pending_chunks, totals_of
from migrate.batch.ledger.table import SharedCommits
from migrate.batch.steps.sort import collision_error, waves
from migrate.batch.stop import RERUN
from migrate.engine.chunk_source import Inputs, inputs_of
from migrate.engine.left_out import WAY_ON
from migrate.engine.rejects import RecordRejectedError, way_past_the_cap
from migrate.errors import (
    ChunkFailedError,
    DroppedError,
    InterruptedMigrationError,
    MigrationError,
    RejectedError,
)
from migrate.model.comparison import Totals
from migrate.model.display import plural
from migrate.model.ledger_row import Step, StoppedRun, chunk_row
from migrate.model.plan import Chunk
from migrate.model.receipt import Receipt


def rewrite(context: Context, executor: Executor) -> None:
    """Rewrite the pending chunks.

    Raises ChunkFailedError, RejectedError, DroppedError, or InterruptedMigrationError at the end of the time budget.
    """
    budget = context.spec.run.time_budget
    deadline = inf if budget is None else time.monotonic() + budget.total_seconds()
    before = context.receipts
    pending = pending_chunks(context.plan, before)
    started = lambda task: context.notify("chunk.started", task=task)  # noqa: E731 - one line, used once
    start = partial(run_all, executor, on_start=started, name=context.spec.name, deadline=deadline, stop=context.stop)
    if context.plan.is_sorted:
        every = waves(context, pending, executor.slots, partial(_range_task, context))
        running = chain.from_iterable(start([wave]) for wave in every)  # one after the other: each takes all slots
    else:
        running = chain(start(_tasks(context, pending)))
    rewritten = _Rewritten(context, before)
    for finished in _reporting_failures(context, rewritten, _naming_collisions(context, executor, running)):
        made = (result if isinstance(result, tuple) else (result,) for _, result in finished)
        rewritten.add([each for results in made for each in results if isinstance(each, Receipt)])
    rewritten.commit()
    if left := len(pending) - rewritten.count:
        why = "interrupted" if context.stop.is_requested else "the time budget is used up"
        whole = plural(len(context.plan.chunks), "chunk")
        raise InterruptedMigrationError(f"{why} with {left} of {whole} left", hint=RERUN)
    check_left_out(context, totals_of(context.standing.receipts))


def commit_chunks(context: Context, *receipts: Receipt) -> None:
    """Record chunks as done, in the order that no kill and no power cut undoes (I1).

    1. Their workers have synced the SST files and the reject files, and then the receipts and the folders that name
       them all (`rewrite_chunk`). Here the files are checked: present, and of the stated size.
    2. The ledger's next entry is synced under a temporary name, and linked under its number; where that is taken,
       another run is at work (`Ledger.commit`).
    3. The directory with the entry is synced: only now the chunks are done.

    Raises ChunkFailedError for a file that is not there, FencedError.
    """
    for receipt in receipts:
        if not has_files(receipt, context.home):
            raise ChunkFailedError(
                f"chunk {receipt.number} of {receipt.store_partition} was rewritten on {receipt.host}, and its files "
                f"are not in {context.home}",
                hint="is the work_dir one directory, mounted here and on every worker? then run the command again",
            )
    context.commit(*map(chunk_row, receipts))


class _Rewritten:
    """Commits of the chunks that ended since the last one, and the number of all records that are left out."""

    def __init__(self, context: Context, before: list[Receipt]) -> None:
        self.count = 0
        self._context = context
        self._commits = SharedCommits[Receipt](self._record)
        self.commit = self._commits.commit
        self._rejected = sum(receipt.rejected for receipt in before)
        self._dropped = sum(receipt.dropped for receipt in before)

    def add(self, fresh: list[Receipt]) -> None:
        """Commit these with the next ones; at once on a stop.

        Raises RejectedError or DroppedError if more records are left out than [run] allows.
        """
        if fresh:
            self._context.notify("chunk.finished", receipts=fresh)
        self.count += len(fresh)
        self._rejected += sum(receipt.rejected for receipt in fresh)
        self._dropped += sum(receipt.dropped for receipt in fresh)
        self._commits.add(*fresh)
        excess = self._excess
        if self._context.stop.is_requested or excess is not None:
            self.commit()
        else:
            self._commits.commit_due()
        if excess is not None:
            raise excess

    def _record(self, *receipts: Receipt) -> None:
        commit_chunks(self._context, *receipts)
        self._context.notify("chunk.committed", receipts=list(receipts))

    @property
    def _excess(self) -> ChunkFailedError | None:
        """The error for more rejected or dropped records than a number in the spec allows; None: there are not."""
        spec = self._context.spec
        rejects, drops = spec.run.max_rejects, spec.most_dropped
        if rejects is not None and self._rejected > rejects:
            return _more_than_allowed(self._context, self._rejected)
        if drops is not None and self._dropped > drops:
            return _dropped(self._dropped, spec.dropped_too_many(self._dropped, self._dropped))
        return None


def _naming_collisions(context: Context, executor: Executor, finished: Iterator[Finished]) -> Iterator[Finished]:
    try:
        yield from finished
    except CollisionError as error:
        raise collision_error(context, executor, error) from error


def _reporting_failures(context: Context, rewritten: _Rewritten, finished: Iterator[Finished]) -> Iterator[Finished]:
    try:
        yield from finished
    except MigrationError as error:
        rewritten.commit()
        if isinstance(error, RecordRejectedError) and error.chunk is not None:
            stopped = StoppedRun(revision=context.standing.revision_id, chunk=error.chunk, reason=error.reason)
            context.record(Step.FAILED, store_partition=error.chunk.store_partition, detail=stopped)
        context.notify("chunk.failed", error=error)
        raise


def _tasks(context: Context, pending: Iterable[Chunk]) -> Iterator[RewriteTask]:
    plan = context.plan
    sources: dict[tuple[str, str], Inputs] = {}
    together: defaultdict[object, list[Chunk]] = defaultdict(list)
    for chunk in pending:
        place = (chunk.store_partition, chunk.database)
        database = plan.database(*place)
        if place not in sources:
            sources[place] = inputs_of(
                database, context.snapshots_of(chunk.store_partition), context.times_of(chunk.store_partition)
            )
        if database.share is None:
            yield RewriteTask(**_of_chunk(context, chunk, sources[place]))
        else:
            together[chunk.database, database.inputs, chunk.keys.start, chunk.keys.end].append(chunk)
    for chunks in together.values():
        for some in (chunks[at : at + MOST_PARTS] for at in range(0, len(chunks), MOST_PARTS)):
            first = some[0]
            shares = [plan.database(each.store_partition, each.database).share for each in some]
            parts = tuple((chunk, share) for chunk, share in zip(some, shares, strict=True) if share is not None)
            of_first = _of_chunk(context, first, sources[first.store_partition, first.database])
            yield SplitTask(**of_first, parts=parts)


def _range_task(context: Context, chunk: Chunk) -> RewriteTask:
    """What a range of new keys is written by; what is read for it, its wave says."""
    return RewriteTask(**_of_chunk(context, chunk, Inputs(directories=())))


def _of_chunk(context: Context, chunk: Chunk, source: Inputs) -> dict[str, Any]:
    """What a task for a chunk carries."""
    plan, run = context.plan, context.spec.run
    database = plan.database(chunk.store_partition, chunk.database)
    return {
        "home": str(context.home),
        "source": source,
        "migration_id": plan.migration_id,
        "run_id": context.run_id,
        "chunk": chunk,
        "mappings": database.mappings,
        "conversion": context.ref_of(chunk.store_partition),
        "partitioner": context.partitioner,
        "key_place": plan.key_place(chunk.store_partition),
        "revision": context.standing.revision_id,
        "is_kept": database.is_kept,
        "engine": context.engine.setting,
        "on_reject": run.on_reject,
        "max_rejects": run.max_rejects,
        "max_dropped": context.spec.most_dropped,
    }


def check_left_out(context: Context, totals: Totals) -> None:
    """Raises RejectedError or DroppedError where more records were rejected or dropped than the spec allows."""
    run = context.spec.run
    if excess := context.spec.dropped_too_many(totals.dropped, totals.records_in):
        raise _dropped(totals.dropped, excess)
    if run.max_rejects is not None and totals.rejected > run.max_rejects:
        raise _more_than_allowed(context, totals.rejected)
    limit = run.max_reject_share
    if limit is not None and totals.rejected > limit * totals.records_in:
        found = f"{totals.rejected} of {totals.records_in} records cannot be converted"
        share = f"({totals.rejected / totals.records_in:.2%}), max_reject_share allows {limit:.2%}"
        raise _too_many(context, f"{found} {share}")


def _dropped(count: int, excess: str) -> DroppedError:
    return DroppedError(f"records that the function drops (it returns None): {count:,}, {excess}", hint=WAY_ON)


def _more_than_allowed(context: Context, count: int) -> RejectedError:
    limit = context.spec.run.max_rejects
    return _too_many(context, f"records that cannot be converted: {count}, max_rejects allows {limit}")


def _too_many(context: Context, message: str) -> RejectedError:
    return RejectedError(message, hint=way_past_the_cap(has_function=context.ref.function is not None))
