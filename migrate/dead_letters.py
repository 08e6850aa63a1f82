"""Dead letters: rejected records as a Delta table in the work_dir, appended once per chunk attempt."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from migrate.receipt import Receipt
from migrate.rejects import REJECT_SCHEMA
from migrate.stores.files import delta_uri, fsync_tree

_COLUMNS = pa.schema([pa.field("attempt", pa.string()), pa.field("chunk", pa.int64()), *REJECT_SCHEMA])


def dead_letter_folder(home: Path) -> Path:
    """Where the table lies."""
    return home / "dead-letters"


def write_dead_letters(home: Path, receipts: Iterable[Receipt]) -> Path | None:
    """Append the rejects of these receipts that the table does not have yet; None: there are none.

    Each attempt is an application transaction of its own, so that repeating this adds nothing.
    """
    kept = [receipt for receipt in receipts if receipt.rejects_file is not None]
    if not kept:
        return None
    folder = dead_letter_folder(home)
    table = _open_or_create(folder)
    for receipt in kept:
        if table.transaction_version(receipt.attempt) is None:
            _append(table, receipt, home / str(receipt.rejects_file))
    fsync_tree(folder)
    return folder


def _append(table: DeltaTable, receipt: Receipt, file: Path) -> None:
    rejects = pq.ParquetFile(file)
    batches = (
        pa.RecordBatch.from_arrays(
            [
                pa.array([receipt.attempt] * batch.num_rows),
                pa.array([receipt.number] * batch.num_rows, pa.int64()),
                *batch.columns,
            ],
            schema=_COLUMNS,
        )
        for batch in rejects.iter_batches(batch_size=1000)
    )
    reader = pa.RecordBatchReader.from_batches(_COLUMNS, batches)
    once = CommitProperties(app_transactions=[Transaction(receipt.attempt, 1)])
    write_deltalake(table, reader, mode="append", commit_properties=once)


def _open_or_create(folder: Path) -> DeltaTable:
    try:
        return DeltaTable(delta_uri(folder))
    except TableNotFoundError:
        return DeltaTable.create(delta_uri(folder), Schema.from_arrow(_COLUMNS), name="stateferry dead letters")
