"""`rejects`: the records that could not be converted, by reason, counted, with a few examples."""

from __future__ import annotations

from migrate.batch.home import DEAD_LETTERS
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.batch.status.next_step import files_gone
from migrate.engine.rejects import OTHER, RejectsByReason
from migrate.errors import system_errors_explained
from migrate.model.changelogs import Tail
from migrate.model.key_range import subtract
from migrate.model.ledger_row import Step, StoppedRun, read_detail
from migrate.model.preview import RejectReason
from migrate.model.receipt import Receipt
from migrate.model.reports import RejectsReport
from migrate.spec.spec import Spec


@system_errors_explained()
def rejects(spec: Spec) -> RejectsReport:
    """The records that the migration could not convert so far, by reason. Takes no lock and writes nothing.

    Args:
        spec: the migration, from `load_spec` or built in code.

    Raises:
        RefusedError: the plan or the ledger is of a newer release, or damaged.
    """
    standing = read_standing(spec.home)
    letters = spec.home / DEAD_LETTERS
    reasons = reject_reasons(standing)
    return RejectsReport(
        name=spec.name,
        migration_id=None if standing.plan is None else standing.plan.migration_id,
        state=standing.state,
        records_in=standing.totals.records_in,
        rejected=standing.totals.rejected,
        rejects=reasons,
        dead_letters=letters if letters.is_dir() and standing.totals.rejected else None,
        next_step=files_gone(standing)
        or (_next_step(spec, standing) if reasons else "nothing: no record was rejected"),
    )


def _next_step(spec: Spec, standing: Standing) -> str:
    if standing.is_live:
        return f"the new stores are in use ({standing.state}) without these records, which the old ones still hold"
    if standing.every_tail:
        return "fix the function, and start again under another `name`; or go live without these records"
    if spec.conversion.function is None:
        return "correct [source] format, or the serdes of [conversion], and start again under another `name`"
    return "fix the function; then stateferry replay SPEC rewrites only the chunks that lack these records"


def reject_reasons(standing: Standing) -> tuple[RejectReason, ...]:
    """The reasons, the most frequent first, by the receipts; that of a record at which the last run stopped leads."""
    merged = RejectsByReason()
    for receipt in standing.every_receipt:
        for each in receipt.reasons:
            found = tuple(example.model_copy(update=_place_of(receipt)) for example in each.examples)
            merged.take(each.reason, each.place, each.records, lambda found=found: found)  # type: ignore[misc]
        if rest := receipt.rejected - sum(each.records for each in receipt.reasons):
            merged.take(OTHER, "", rest, tuple)
    stopped = stopped_at(standing)
    return (*(() if stopped is None else (stopped,)), *merged.reasons)


def stopped_at(standing: Standing) -> RejectReason | None:
    """The record at which the last run stopped, unless its chunk is rewritten or the function replaced since."""
    last = next((row for row in reversed(standing.rows) if row.step is Step.FAILED), None)
    stopped = None if last is None else read_detail(last, StoppedRun, "a rejected record")
    if stopped is None or stopped.revision != standing.revision_id:
        return None
    chunk = stopped.chunk
    where = (chunk.store_partition, chunk.database)
    left = [each.keys for each in standing.pending if (each.store_partition, each.database) == where]
    if subtract(chunk.keys, left) == [chunk.keys]:
        return None
    place = {"store_partition": chunk.store_partition, "chunk": chunk.number}
    examples = tuple(example.model_copy(update=place) for example in stopped.reason.examples)
    return stopped.reason.model_copy(update={"examples": examples})


def _place_of(receipt: Receipt | Tail) -> dict[str, object]:
    chunk = receipt.number if isinstance(receipt, Receipt) else None
    return {"store_partition": receipt.store_partition, "chunk": chunk}
