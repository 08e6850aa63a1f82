"""Verify: the new stores, from disk, against the old ones or the receipts. It gates what follows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from migrate.assembling import in_order
from migrate.errors import VerificationError
from migrate.executor import run_all
from migrate.ledger import Ledger, Step
from migrate.plan_model import Plan
from migrate.receipt import Receipt
from migrate.report import Verification
from migrate.steps.context import Context
from migrate.verification import Verified, VerifyTask, target_ranges

Mode = Literal["full", "digest"]


def verify(
    context: Context, plan: Plan, ledger: Ledger, receipts: list[Receipt], folders: dict[str, Path]
) -> Verification:
    """As [run] verify says; not again where the ledger says that these folders were. Raises VerificationError."""
    mode = context.spec.run.verify
    if mode == "off":
        return Verification(mode="off")
    places = sorted(str(folder) for folder in folders.values())
    for row in ledger.rows:
        if row.step is Step.VERIFIED and row.facts["folders"] == places:
            return Verification.model_validate(row.facts["verification"])
    context.notify("verify.started", mode=mode)
    found = compare(context, plan, receipts, folders, mode)
    step = Step.VERIFIED if found.ok else Step.MISMATCH
    detail: dict[str, object] = {"folders": places, "verification": found.model_dump(mode="json")}
    ledger.commit(ledger.row(step, detail=detail))
    context.notify("verify.committed", verification=found)
    if not found.ok:
        raise mismatch_error(found)
    return found


def compare(
    context: Context, plan: Plan, receipts: list[Receipt], folders: dict[str, Path], mode: Mode
) -> Verification:
    """Compare every chunk, on the executor."""
    started = time.monotonic()
    total = Verification(mode=mode)
    for finished in run_all(context.executor, _tasks(context, plan, receipts, folders, mode), on_start=lambda _: None):
        for _, result in finished:
            assert isinstance(result, Verified)
            total = _add(total, result)
        context.notify("verify.progressed", records=total.records)
    return total.model_copy(update={"seconds": round(time.monotonic() - started, 3)})


def mismatch_error(found: Verification) -> VerificationError:
    """What is wrong, with the first key of each kind."""
    first = "\n".join(f"  - {mismatch}" for mismatch in found.first)
    return VerificationError(
        f"the new store is not what the old one converts to: {found.missing} keys missing, {found.differing} differing, "
        f"{found.extra} extra\n{first}",
        hint="nothing was published and the old store is as it was; keep the work_dir and report this",
    )


def _tasks(
    context: Context, plan: Plan, receipts: list[Receipt], folders: dict[str, Path], mode: Mode
) -> Iterator[VerifyTask]:
    by_database: dict[tuple[str, str], list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        by_database[receipt.partition, receipt.database].append(receipt)
    for (partition, database), mine in by_database.items():
        ordered = in_order(mine)
        for lane in range(len(ordered[0].written)):
            for receipt, keys in zip(ordered, target_ranges(ordered, lane), strict=True):
                yield VerifyTask(
                    mode=mode,
                    source=str(context.snapshot_of(plan, partition, database)),
                    target=str(folders[partition] / database),
                    receipt=receipt,
                    lane=lane,
                    keys=keys,
                    conversion=context.ref,
                )


def _add(total: Verification, result: Verified) -> Verification:
    known = {mismatch.kind for mismatch in total.first}
    return total.model_copy(
        update={
            "records": total.records + result.records,
            "missing": total.missing + result.missing,
            "differing": total.differing + result.differing,
            "extra": total.extra + result.extra,
            "first": (*total.first, *(mismatch for mismatch in result.first if mismatch.kind not in known)),
        }
    )
