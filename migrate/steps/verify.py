"""Verify: the new stores, from disk, against the old ones or the receipts. It gates what follows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from migrate.assembling import in_order
from migrate.errors import VerificationError
from migrate.executor import Executor, run_all
from migrate.family_check import compare_families
from migrate.inputs import inputs_of
from migrate.ledger import Ledger, Step
from migrate.plan_model import Plan
from migrate.receipt import Receipt
from migrate.report_model import Verification
from migrate.steps.context import Context
from migrate.verification import Verified, VerifyTask, target_ranges

Mode = Literal["full", "digest"]
_KEEP = (
    "nothing was published and the old store is as it was; a rerun assembles the new store again from its chunks; if "
    "it ends here once more: is the function pure, if there is one? else keep the work_dir and report this"
)


@dataclass(frozen=True, slots=True)
class NewStores:
    """The stores to look at, and the receipts of the chunks that they were made of."""

    folders: dict[str, Path]
    """By store partition."""
    receipts: list[Receipt]


def verify(context: Context, executor: Executor, ledger: Ledger, plan: Plan, stores: NewStores) -> Verification:
    """As [run] verify says, and in every run: what stood on disk then need not stand there now.

    Raises VerificationError.
    """
    mode = context.spec.run.verify
    if mode == "off":
        return Verification(mode="off")
    context.notify("verify.started", mode=mode, records=sum(receipt.records_out for receipt in stores.receipts))
    found = compare(context, executor, plan, stores, mode)
    record(context, ledger, found)
    if not found.ok:
        raise mismatch_error(found, hint=_KEEP)
    return found


def record(context: Context, ledger: Ledger, found: Verification) -> None:
    """Commit what a comparison found: of the stores that were assembled last, wherever they are by now."""
    folders = {row.store_partition: str(row.facts["folder"]) for row in ledger.rows if row.step is Step.ASSEMBLED}
    detail: dict[str, object] = {
        "folders": sorted(folders.values()),
        "verification": found.model_dump(mode="json"),
    }
    ledger.commit(ledger.row(Step.VERIFIED if found.ok else Step.MISMATCH, detail=detail))
    context.notify("verify.committed", verification=found)


def compare(context: Context, executor: Executor, plan: Plan, stores: NewStores, mode: Mode) -> Verification:
    """Compare every chunk, on the executor, and the column families, here."""
    started = time.monotonic()
    total = Verification(mode=mode)
    for database in plan.databases:
        if not database.is_kept:
            continue
        snapshots = context.snapshots_of(plan, database.store_partition)
        mismatch = compare_families(database, snapshots, stores.folders[database.store_partition] / database.database)
        if mismatch is not None:
            total = _add(total, Verified(records=0, differing=1, first=(mismatch,)))
    if not total.ok:  # the families that the chunks belong to may not be there
        return total
    tasks = _tasks(context, plan, stores, mode)
    for finished in run_all(executor, tasks, on_start=lambda _: None, stop=context.stop):
        for _, result in finished:
            assert isinstance(result, Verified)
            total = _add(total, result)
        context.notify("verify.progressed", records=total.records)
    context.stop.check()  # or what is missing here would be what nobody has looked at
    return total.model_copy(update={"seconds": round(time.monotonic() - started, 3)})


def mismatch_error(found: Verification, *, hint: str) -> VerificationError:
    """What is wrong, with the first key of each kind."""
    first = "\n".join(f"  - {mismatch}" for mismatch in found.first)
    return VerificationError(
        f"the new store is not what the old one converts to: {found.missing} keys missing, "
        f"{found.differing} differing, {found.extra} extra\n{first}",
        hint=hint,
    )


def _tasks(context: Context, plan: Plan, stores: NewStores, mode: Mode) -> Iterator[VerifyTask]:
    by_database: dict[tuple[str, str], list[Receipt]] = defaultdict(list)
    for receipt in stores.receipts:
        by_database[receipt.store_partition, receipt.database].append(receipt)
    for (partition, database), mine in by_database.items():
        planned = plan.database(partition, database)
        if not planned.is_kept:
            continue
        inputs = inputs_of(planned, context.snapshots_of(plan, partition))
        ordered = in_order(mine)
        for lane in range(len(ordered[0].written)):
            for receipt, keys in zip(ordered, target_ranges(ordered, lane), strict=True):
                yield VerifyTask(
                    mode=mode,
                    source=inputs,
                    target=str(stores.folders[partition] / database),
                    receipt=receipt,
                    lane=lane,
                    reads=planned.lanes[lane],
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
