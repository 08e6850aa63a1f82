"""Verify: the new stores, from disk, against the old ones or the receipts. It gates what follows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from migrate.coverage import Coverage
from migrate.errors import VerificationError
from migrate.executor import Executor, run_all
from migrate.family_check import compare_directories, compare_families, left_over
from migrate.ledger import Ledger, Step
from migrate.mismatch import Mismatch
from migrate.plan_model import DatabasePlan, Plan
from migrate.receipt import Receipt
from migrate.report_model import Verification
from migrate.rewriting import RewriteTask
from migrate.source_count import SourceCount, uncovered
from migrate.standing import Standing
from migrate.steps.context import Context
from migrate.verification import Verified, as_verified
from migrate.verify_tasks import Subject, expected_databases, range_bytes

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
    folders = Standing(context.home, ledger.rows).newest.values()
    detail: dict[str, object] = {
        "folders": sorted(str(folder.relative_to(context.home)) for folder in folders),
        "verification": found.model_dump(mode="json"),
    }
    ledger.commit(ledger.row(Step.VERIFIED if found.ok else Step.MISMATCH, detail=detail))
    context.notify("verify.committed", verification=found)


def compare(context: Context, executor: Executor, plan: Plan, stores: NewStores, mode: Mode) -> Verification:
    """Compare what there is with what there should be, which the snapshot says, and not the plan.

    The records on the executor; RocksDB directories, column families and whether all was read, here.
    """
    started = time.monotonic()
    databases = expected_databases(context, plan)
    total = _total(mode, _around(context, plan, stores, databases, mode))
    if not total.ok:  # the families that the records belong to may not be there
        return total
    size = range_bytes(databases, executor.slots, context.spec.run.chunk_size)
    subject = Subject(context, plan, databases, stores.folders, stores.receipts, size)
    comparison = Coverage(subject) if mode == "full" else SourceCount(subject)
    name, tasks = context.spec.name, comparison.tasks()
    for finished in run_all(executor, tasks, on_start=lambda _: None, name=name, stop=context.stop):
        for task, result in finished:
            assert isinstance(result, Verified)
            assert not isinstance(task, RewriteTask)
            comparison.add(task, result)
            total = _add(total, result)
        context.notify("verify.progressed", records=total.records)
    context.stop.check()  # or what is missing here would be what nobody has looked at
    for result in comparison.end():
        total = _add(total, result)
    return total.model_copy(update={"seconds": round(time.monotonic() - started, 3)})


def _around(
    context: Context, plan: Plan, stores: NewStores, databases: tuple[DatabasePlan, ...], mode: Mode
) -> Iterator[Mismatch]:
    yield from left_over(plan, databases, context.home / "snapshot", context.conversion.source)
    if mode == "digest":
        yield from uncovered(databases, stores.receipts)
    misplaced = [*compare_directories(databases, stores.folders)]
    yield from misplaced
    for database in databases:
        if database.is_kept and not misplaced:
            snapshots = context.snapshots_of(plan, database.store_partition)
            target = stores.folders[database.store_partition] / database.database
            if (found := compare_families(database, snapshots, target)) is not None:
                yield found


def mismatch_error(found: Verification, *, hint: str) -> VerificationError:
    """What is wrong, with the first key of each kind."""
    first = "\n".join(f"  - {mismatch}" for mismatch in found.first)
    return VerificationError(
        f"the new store is not what the old one converts to: {found.missing} keys missing, "
        f"{found.differing} differing, {found.extra} extra\n{first}",
        hint=hint,
    )


def _total(mode: Mode, found: Iterator[Mismatch]) -> Verification:
    total = Verification(mode=mode)
    for mismatch in found:
        total = _add(total, as_verified(mismatch))
    return total


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
