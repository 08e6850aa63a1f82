"""The ledger's table: its columns, rows in data files, and the actions that add these to its log.

Source of the actions: the Delta protocol, "Actions" (`commitInfo`, `add`, `txn`).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from migrate.batch.ledger.commit_log import Action, commit_metadata
from migrate.model.ledger_row import Row
from migrate.stores.files import delta_uri, fsync_directory, fsync_file

APPLICATION = "stateferry"
SETTINGS = {"delta.appendOnly": "true", "delta.enableExpiredLogCleanup": "false"}
COLUMNS = pa.schema(
    [
        pa.field("schema_version", pa.int32()),
        pa.field("sequence", pa.int64()),
        pa.field("migration_id", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("step", pa.string()),
        pa.field("store_partition", pa.string()),
        pa.field("database", pa.string()),
        pa.field("start_key", pa.binary()),
        pa.field("end_key", pa.binary()),
        pa.field("records_in", pa.int64()),
        pa.field("records_out", pa.int64()),
        pa.field("rejected", pa.int64()),
        pa.field("dropped", pa.int64()),
        pa.field("bytes_in", pa.int64()),
        pa.field("seconds", pa.float64()),
        pa.field("committed_at_ms", pa.int64()),
        pa.field("detail", pa.string()),
    ]
)


def create_table(folder: Path) -> DeltaTable:
    """Create an empty table."""
    return DeltaTable.create(
        delta_uri(folder), Schema.from_arrow(COLUMNS), name="stateferry ledger", configuration=SETTINGS
    )


def to_arrow(rows: Sequence[Row]) -> pa.Table:
    """The rows as an Arrow table."""
    content = [row.model_dump(mode="python") for row in rows]
    return pa.Table.from_pylist([{**row, "step": str(row["step"])} for row in content], schema=COLUMNS)


def write_rows(folder: Path, rows: Sequence[Row]) -> list[Action]:
    """Write rows, which have their digests, into a new data file, durably; returns the actions that add it."""
    file = folder / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    with file.open("wb") as stream:  # an error of pyarrow would not say which file is gone
        pq.write_table(to_arrow(rows), stream)
    fsync_file(file)
    fsync_directory(folder)
    now = int(time.time() * 1000)
    added = {
        "path": file.name,
        "partitionValues": {},
        "size": file.stat().st_size,
        "modificationTime": now,
        "dataChange": True,
    }
    return [{"commitInfo": {"timestamp": now, "operation": "WRITE", **commit_metadata(rows)}}, {"add": added}]


def transaction(number: int) -> Action:
    """The action that gives a commit its number."""
    return {"txn": {"appId": APPLICATION, "version": number}}


def as_entry(actions: Sequence[Action]) -> bytes:
    """The content of a log entry."""
    return "\n".join(json.dumps(action) for action in actions).encode()


def rows_in_file(file: Path) -> list[dict[str, Any]]:
    """The rows of a data file. Raises OSError, and pyarrow's errors for a damaged file.

    delta-rs's own way to pyarrow ended one process in ten with an abort at exit: its threads outlive the interpreter.
    """
    return list(pq.ParquetFile(file).read(use_threads=False).to_pylist())
