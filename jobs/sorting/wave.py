"""Running a wave as one query of Spark."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.sorting.data_source import FAMILY_BITS, NAME, WaveSource, error_in
from migrate.batch.chunk.rewrite_chunk import chunk_directory
from migrate.batch.chunk.sorted_range import SortTask, written_by
from migrate.batch.ledger.receipts_in_force import has_files
from migrate.model.receipt import Receipt, read_receipt

if TYPE_CHECKING:
    from pyspark import SparkContext

_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # each partition is a range
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
}


def run_wave(context: SparkContext, task: SortTask) -> tuple[Receipt, ...]:
    """Sort and write the ranges of a wave; their receipts, in the same order.

    Raises what a worker has raised, if it is an error of ours, else Spark's error.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    session = SparkSession(context).newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    session.dataSource.register(WaveSource)
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        file = Path(folder) / "wave"
        file.write_bytes(pickle.dumps(task))
        rows = session.read.format(NAME).option("wave", str(file)).load()
        rows = rows.repartitionById(len(task.ranges), F.col("number"))
        by_family = [F.shiftright("facts", FAMILY_BITS)] if any(len(each.mappings) > 1 for each in task.ranges) else []
        try:
            rows.sortWithinPartitions(*by_family, "key").write.format(NAME).mode("append").option(
                "wave", str(file)
            ).save()
        except Exception as failure:
            error = error_in(str(failure))
            if error is None:
                raise
            raise error from failure
    return tuple(written_by(_receipts(task), task))


def _receipts(task: SortTask) -> list[Receipt]:
    """Every receipt that this run has left for a range of the wave; of several attempts any serves."""
    found = []
    for each in task.ranges:
        chunk, home = each.chunk, Path(each.home)
        folder = chunk_directory(home, chunk.store_partition, chunk.database)
        for file in folder.glob(f"{each.run_id}-{chunk.number:06d}-*.receipt.json"):
            receipt = read_receipt(file)
            if receipt is not None and receipt.revision == each.revision and has_files(receipt, home):
                found.append(receipt)
    return found
