"""Assemble: each store partition's chunks become its new RocksDB directories."""

from __future__ import annotations

from pathlib import Path

from migrate.assembling import assemble_partition
from migrate.gates import compared
from migrate.identity import store_state
from migrate.ledger import Ledger, Row, Step
from migrate.ledger_facts import assembled_folders
from migrate.plan_model import Plan
from migrate.receipt import Receipt
from migrate.steps.context import Context
from migrate.store_state import StoreState


def assemble(context: Context, plan: Plan, ledger: Ledger, receipts: list[Receipt]) -> dict[str, Path]:
    """The new store partitions by id.

    Those that an earlier run assembled are used as they are, unless a verification has refuted them.
    """
    refuted = refuted_folders(ledger.rows, context.home)
    known = assembled_folders(ledger.rows, context.home)
    folders = {partition: folder for partition, folder in known.items() if folder not in refuted}
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


def assembled_states(rows: list[Row]) -> dict[str, StoreState]:
    """The state of each new store partition when it was assembled, by id."""
    rows = [row for row in rows if row.step is Step.ASSEMBLED]
    return {str(row.store_partition): StoreState.model_validate(row.facts["state"]) for row in rows}


def refuted_folders(rows: list[Row], home: Path) -> set[Path]:
    """The new stores that a comparison found wrong."""
    return {home / folder for row in rows if row.step is Step.MISMATCH for folder in compared(row)}
