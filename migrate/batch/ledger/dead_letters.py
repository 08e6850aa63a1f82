"""Dead letters: rejected records as a Delta table in the work_dir, made from the files that chunk attempts wrote.

delta-rs does not sync: the table is written under another name, synced, and renamed, so that it is never torn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from migrate.batch.home import DEAD_LETTERS, UNFINISHED_DEAD_LETTERS, remove_table
from migrate.engine.rejects import reject_schema
from migrate.errors import CorruptionError
from migrate.model.changelogs import Tail
from migrate.model.receipt import Receipt
from migrate.model.reports import Column
from migrate.model.values import with_seal, without_seal
from migrate.stores.files import content_digest, delta_uri, fsync_directory, fsync_tree, remove_tree

_COLUMNS = pa.schema([pa.field("attempt", pa.string()), pa.field("chunk", pa.int64()), *reject_schema()])
_DIGESTS = "_digests.json"
"""The digests of the table's files when it was written; a name that readers of Delta ignore."""


def dead_letter_columns() -> tuple[Column, ...]:
    """The columns of the table."""
    return tuple(Column(name=field.name, type=str(field.type)) for field in _COLUMNS)


def write_dead_letters(home: Path, receipts: Iterable[Receipt | Tail]) -> Path | None:
    """Write the table of the rejects of these chunks and tails, unless it exists already; None: there are no rejects.

    A table that has those of other attempts, too, is replaced: their chunks were rewritten since.
    """
    kept = [receipt for receipt in receipts if receipt.rejects_file is not None]
    folder = home / DEAD_LETTERS
    if not kept:
        remove_table(folder)
        return None
    if _is_of(folder, kept):
        return folder
    temporary = home / UNFINISHED_DEAD_LETTERS
    remove_tree(temporary)
    table = DeltaTable.create(delta_uri(temporary), Schema.from_arrow(_COLUMNS), name="stateferry dead letters")
    for receipt in kept:
        _append(table, receipt, home / str(receipt.rejects_file))
    (temporary / _DIGESTS).write_text(with_seal(json.dumps(_digests(temporary))), encoding="utf-8")
    fsync_tree(temporary)
    remove_tree(folder)
    temporary.rename(folder)
    fsync_directory(home)
    return folder


def _is_of(folder: Path, receipts: list[Receipt | Tail]) -> bool:
    """Whether the table has the rejects of these attempts alone: each is an application transaction of its own."""
    try:
        if not _is_intact(folder):
            return False
        table = DeltaTable(delta_uri(folder))
        is_exact = table.version() == len(receipts)
        return is_exact and all(table.transaction_version(receipt.attempt) is not None for receipt in receipts)
    except DeltaError:  # it is missing or damaged
        return False


def _is_intact(folder: Path) -> bool:
    file = folder / _DIGESTS
    content = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    text, fits = without_seal(content)
    return fits and json.loads(text) == _digests(folder)


def _digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != _DIGESTS)
    return {str(path.relative_to(folder)): content_digest(path) for path in files}


def _append(table: DeltaTable, receipt: Receipt | Tail, file: Path) -> None:
    if not file.is_file() or receipt.rejects_digest not in (None, content_digest(file)):
        raise CorruptionError(
            f"{file} has gone, or was damaged, since it was written",
            hint="stateferry run SPEC rewrites that chunk, stateferry catch-up SPEC makes that tail again",
            place=file,
        )
    rejects = pq.ParquetFile(file)
    chunk = receipt.number if isinstance(receipt, Receipt) else None
    batches = (
        pa.RecordBatch.from_arrays(
            [
                pa.array([receipt.attempt] * batch.num_rows),
                pa.array([chunk] * batch.num_rows, pa.int64()),
                *batch.columns,
            ],
            schema=_COLUMNS,
        )
        for batch in rejects.iter_batches(batch_size=1000)
    )
    reader = pa.RecordBatchReader.from_batches(_COLUMNS, batches)
    once = CommitProperties(app_transactions=[Transaction(receipt.attempt, 1)])
    write_deltalake(table, reader, mode="append", commit_properties=once)
