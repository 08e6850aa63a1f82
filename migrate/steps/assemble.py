"""Assemble: each store partition's chunks become its new RocksDB directories."""

from __future__ import annotations

from pathlib import Path

from migrate.assembling import assemble_partition
from migrate.identity import store_state
from migrate.ledger import Ledger, Step
from migrate.plan_model import Plan
from migrate.receipt import Receipt
from migrate.standing import Standing
from migrate.steps.context import Context


def assemble(context: Context, plan: Plan, ledger: Ledger, receipts: list[Receipt]) -> dict[str, Path]:
    """The new store partitions by id.

    Those that an earlier run assembled are used as they are, unless a verification has refuted them.
    """
    standing = Standing(context.home, ledger.rows)
    folders = {each: folder for each, folder in standing.assembled.items() if folder not in standing.refuted}
    for partition in plan.store_partitions:
        if partition.id in folders:
            continue
        context.stop.check()
        context.notify("assemble.started", store_partition=partition)
        mine = [receipt for receipt in receipts if receipt.store_partition == partition.id]
        folder = assemble_partition(context.home, plan, partition, mine, attempt=context.run_id)
        context.notify("assemble.ingested", store_partition=partition, folder=folder)
        state = store_state(plan.new_partition(partition).below(folder))
        relative = str(folder.relative_to(context.home))
        detail: dict[str, object] = {"folder": relative, "state": state.model_dump()}
        ledger.commit(ledger.row(Step.ASSEMBLED, store_partition=partition.id, detail=detail))
        context.notify("assemble.committed", store_partition=partition, folder=folder)
        folders[partition.id] = folder
    return folders
