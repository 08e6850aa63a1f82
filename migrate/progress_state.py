"""What is done and what is left: the plan against the ledger's intervals."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from migrate.keyrange import KeyRange, subtract
from migrate.ledger import Row, Step
from migrate.plan_model import Chunk, Plan
from migrate.receipt import Receipt
from migrate.report import Totals

Place = tuple[str, str]
"""(store partition, database)"""


def committed_receipts(rows: list[Row], home: Path) -> list[Receipt]:
    """The receipts of committed chunks whose files are still there; a missing file makes its chunk undone (I1)."""
    receipts = [Receipt.model_validate_json(row.detail) for row in rows if row.step is Step.CHUNK]
    return [receipt for receipt in receipts if _has_files(receipt, home)]


def _has_files(receipt: Receipt, home: Path) -> bool:
    files = [written.file for written in receipt.written] + [receipt.rejects_file]
    return all((home / file).is_file() for file in files if file is not None)


def pending_chunks(plan: Plan, receipts: list[Receipt]) -> list[Chunk]:
    """The plan's chunks without the intervals that are finished, whatever plan revision they were finished under."""
    done: dict[Place, list[KeyRange]] = defaultdict(list)
    for receipt in receipts:
        done[receipt.partition, receipt.database].append(receipt.keys)
    pending = []
    for chunk in plan.chunks:
        left = subtract(chunk.keys, done[chunk.partition, chunk.database])
        pending += [chunk.model_copy(update={"keys": keys}) for keys in left]
    return pending


def totals_of(receipts: list[Receipt]) -> Totals:
    """Summed up."""
    return Totals(
        chunks=len(receipts),
        records_in=sum(receipt.records_in for receipt in receipts),
        records_out=sum(receipt.records_out for receipt in receipts),
        dropped=sum(receipt.dropped for receipt in receipts),
        rejected=sum(receipt.rejected for receipt in receipts),
        bytes_in=sum(receipt.bytes_in for receipt in receipts),
        bytes_out=sum(receipt.bytes_out for receipt in receipts),
        task_seconds=round(sum(receipt.seconds for receipt in receipts), 3),
    )
