"""What is done and what is left: the plan against the ledger's intervals."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from migrate.errors import RefusedError
from migrate.model.comparison import Totals
from migrate.model.key_range import KeyRange, subtract
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import Chunk, Plan
from migrate.model.receipt import Receipt

Place = tuple[str, str]
"""(store partition, database)"""


def recorded_receipts(rows: Iterable[Row]) -> list[Receipt]:
    """The receipts that the ledger holds, in the order of commits. Raises RefusedError for those of a newer release."""
    try:
        return [Receipt.model_validate_json(row.detail) for row in rows if row.step is Step.CHUNK]
    except ValidationError as error:
        raise RefusedError(
            f"a receipt in the ledger cannot be understood: {error.errors()[0]['msg']}",
            hint="use the newer Stateferry that wrote it",
        ) from error


def in_force(receipts: list[Receipt]) -> list[Receipt]:
    """A later receipt takes the place of every earlier one that it overlaps: such a chunk was rewritten on purpose."""
    kept: dict[Place, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        _put(kept[receipt.store_partition, receipt.database], receipt)
    return [receipt for receipts in kept.values() for receipt in receipts]


def _put(receipts: list[Receipt], new: Receipt) -> None:
    """Into a list of disjoint receipts, in key order."""
    begin = bisect_left(receipts, new.keys.start or b"", key=lambda receipt: receipt.keys.start or b"")
    if begin > 0 and _reaches_into(receipts[begin - 1], new):
        begin -= 1
    end = begin
    while end < len(receipts) and (new.keys.end is None or (receipts[end].keys.start or b"") < new.keys.end):
        end += 1
    receipts[begin:end] = [new]


def _reaches_into(before: Receipt, new: Receipt) -> bool:
    return before.keys.end is None or before.keys.end > (new.keys.start or b"")


def under_reject_policy(receipts: list[Receipt], on_reject: str) -> list[Receipt]:
    """Without those whose rejects were treated otherwise than the spec now says: such chunks are undone."""
    return [
        receipt
        for receipt in receipts
        if not receipt.rejected
        or on_reject == "skip"
        or (on_reject == "dead-letter" and receipt.rejects_file is not None)
    ]


def has_files(receipt: Receipt, home: Path) -> bool:
    """Whether all that the receipt vouches for is there."""
    if receipt.rejects_file is not None and _size(home, receipt.rejects_file) is None:
        return False
    return all(_size(home, file) == size for file, size in receipt.file_sizes.items())


def _size(home: Path, file: str) -> int | None:
    """None: there is no such file."""
    try:
        status = os.stat(f"{home}/{file}")  # noqa: PTH116 - of thousands of files: a Path costs more than the look
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def pending_chunks(plan: Plan, receipts: list[Receipt]) -> list[Chunk]:
    """The plan's chunks without the intervals that are finished, whatever plan revision they were finished under."""
    done: dict[Place, list[KeyRange]] = defaultdict(list)
    for receipt in sorted(receipts, key=lambda receipt: receipt.keys.start or b""):
        done[receipt.store_partition, receipt.database].append(receipt.keys)
    pending = []
    for chunk in plan.chunks:
        overlapping = _overlapping(done[chunk.store_partition, chunk.database], chunk.keys)
        if any(keys.start == chunk.keys.start and keys.end == chunk.keys.end for keys in overlapping):
            continue  # as it mostly is
        left = subtract(chunk.keys, overlapping)
        pending += [chunk.model_copy(update={"keys": keys}) for keys in left]
    return pending


def _overlapping(ranges: list[KeyRange], keys: KeyRange) -> list[KeyRange]:
    """Those of disjoint, ascending ranges that may share a key with `keys`: with thousands of chunks, not all."""
    begin = bisect_left(ranges, keys.start or b"", key=lambda each: each.start or b"")
    end = len(ranges) if keys.end is None else bisect_left(ranges, keys.end, key=lambda each: each.start or b"")
    return ranges[max(0, begin - 1) : end]


def totals_of(receipts: list[Receipt]) -> Totals:
    """Summed up."""
    return Totals(
        chunks=len(receipts),
        records_in=sum(receipt.records_in for receipt in receipts),
        records_out=sum(receipt.records_out for receipt in receipts),
        dropped=sum(receipt.dropped for receipt in receipts),
        expired=sum(receipt.expired for receipt in receipts),
        shadowed=sum(receipt.shadowed for receipt in receipts),
        rejected=sum(receipt.rejected for receipt in receipts),
        bytes_in=sum(receipt.bytes_in for receipt in receipts),
        bytes_out=sum(receipt.bytes_out for receipt in receipts),
        task_seconds=round(sum(receipt.seconds for receipt in receipts), 3),
    )
