"""Sorting by Spark: a wave of ranges of new keys is one query, which reads by our data source and writes by it.

Spark moves each record to its range and sorts it there, spilling to its local disks. A task that writes leaves files
and a receipt, under names of its own, and says nothing to Spark: `commit` and `abort`, which run in another process,
have nothing to do.
"""

from __future__ import annotations

import base64
import pickle
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from jobs.session import own_session
from jobs.wave_rows import FAMILY_AT, LARGE, NUMBER_AT, SCHEMA, LargeRecordError, SortedBatches, WaveRows, mark_ranges
from migrate.batch.chunk.rewrite_chunk import RewriteTask, chunk_directory
from migrate.batch.chunk.sorted_range import SortTask, write_range, written_by
from migrate.batch.chunk.sorting import SortInput, SortWork
from migrate.batch.ledger.receipts_in_force import has_files
from migrate.batch.stop import never_stop
from migrate.errors import ChunkFailedError, MigrationError, explain_system_error
from migrate.model.receipt import Receipt, attempt_of, read_receipt

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "stateferry-wave"
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # each partition is a range
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
}
LARGEST = 2 << 10
"""The bytes of the largest key or value that is sorted in batches of so many records, however many bytes they have: for
a limit of bytes Spark measures each row, a tenth of all its work."""
_LIMITS = {LARGEST: (1 << 31) - 1, None: 8 << 20}
"""The bytes of a batch, by the largest key or value that there may be; the first number is no limit to Spark."""
_ERROR = re.compile(r"stateferry-error:([A-Za-z0-9+/=]+):")


@contextmanager
def _as_text() -> Iterator[None]:
    """An error of ours reaches the driver in the message of another one, which is all that Spark carries."""
    try:
        yield
    except Exception as failure:
        error = failure if isinstance(failure, MigrationError) else explain_system_error(failure)
        if error is None:
            raise
        raise RuntimeError(f"stateferry-error:{base64.b64encode(pickle.dumps(error)).decode()}:") from failure


def error_in(text: str) -> MigrationError | None:
    """The error of ours in a message of Spark's."""
    found = _ERROR.search(text)
    error = None if found is None else pickle.loads(base64.b64decode(found[1]))
    return error if isinstance(error, MigrationError) else None


@dataclass
class InputOfSpark(InputPartition):
    """What one task of Spark reads."""

    of: SortInput
    is_first: bool


class WaveSource(DataSource):
    """Reads and writes the wave that the file of the option `wave` describes: a pickled task, on the driver's disk."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> WaveReader:
        """It reads every input."""
        largest = self.options.get("largest")
        return WaveReader(self._wave(), None if largest is None else int(largest))

    def writer(self, schema: StructType, overwrite: bool) -> WaveWriter:
        """It writes every range."""
        wave = self._wave()
        return WaveWriter(wave.ranges, newest_wins=wave.newest_wins)

    def _wave(self) -> SortTask:
        found = pickle.loads(Path(self.options["wave"]).read_bytes())
        assert isinstance(found, SortTask)
        return found


class WaveReader(DataSourceReader):
    """Reads, converts and places records; only the inputs' tasks know the inputs."""

    def __init__(self, wave: SortTask, largest: int | None) -> None:
        self._work: SortWork = wave.work
        self._largest = largest
        self._numbers = wave.numbers
        self._inputs: tuple[SortInput, ...] = wave.inputs

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_inputs": ()}

    def partitions(self) -> list[InputOfSpark]:
        """The inputs."""
        return [InputOfSpark(each, is_first=not number) for number, each in enumerate(self._inputs)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of an input that belong to the wave; those before a large record, where it is not to have any."""
        assert isinstance(partition, InputOfSpark)
        if partition.is_first:
            yield mark_ranges(len(self._numbers))
        with _as_text():
            try:
                yield from self._rows(partition.of)
            except LargeRecordError:
                yield mark_ranges(len(self._numbers), LARGE)

    def _rows(self, of: SortInput) -> Iterator[pa.RecordBatch]:
        of_wave = np.full(len(self._work.targets.chunks), -1)
        of_wave[self._numbers] = np.arange(len(self._numbers))
        rows = WaveRows(of_wave, self._largest)
        for placed in of.placed(self._work, never_stop):
            if (batch := rows.add(placed)) is not None:
                yield batch
            del placed
        if (batch := rows.taken()) is not None:
            yield batch


class WaveWriter(DataSourceArrowWriter):
    """Writes each range; Spark's partition has the number of the range in the wave."""

    def __init__(self, ranges: Sequence[RewriteTask], *, newest_wins: bool) -> None:
        self._ranges = ranges
        self._newest_wins = newest_wins

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the files and the receipt of a range, which are durable then; nothing, where a record was left out."""
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        task = self._ranges[number]
        with _as_text(), suppress(LargeRecordError):
            rows = SortedBatches(iterator, number)
            write_range(task, iter(rows), never_stop, newest_wins=self._newest_wins)
            if not rows.is_marked:
                raise ChunkFailedError(f"{task}: Spark lost rows", hint="run the command again")
        return WriterCommitMessage()


class Waves:
    """Sorts waves, one after the other."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._largest: int | None = LARGEST

    def run(self, task: SortTask) -> tuple[Receipt, ...]:
        """Sort and write the ranges of a wave; their receipts, in the same order.

        Raises what a worker has raised, if it is an error of ours, else Spark's error.
        """
        self._query(task)
        try:
            taken = written_by(_receipts(task), task)
        except ChunkFailedError:
            if self._largest is None:
                raise
            self._largest = None  # there is a larger record
            return self.run(task)
        _remove_others(task, taken)
        return tuple(taken)

    def _query(self, task: SortTask) -> None:
        limit = {"spark.sql.execution.arrow.maxBytesPerBatch": str(_LIMITS[self._largest])}
        session = own_session(self._context, _SETTINGS | limit)
        with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
            file = Path(folder) / "wave"
            file.write_bytes(pickle.dumps(task))
            options = {"wave": str(file)} | ({} if self._largest is None else {"largest": str(self._largest)})
            try:
                _sort(session, task, options)
            except Exception as failure:
                error = error_in(str(failure))
                if error is None:
                    raise
                raise error from failure


def _sort(session: SparkSession, task: SortTask, options: Mapping[str, str]) -> None:
    from pyspark.sql import functions

    session.dataSource.register(WaveSource)
    rows = session.read.format(NAME).options(**options).load()
    rows = rows.repartitionById(len(task.ranges), functions.shiftright("facts", NUMBER_AT).cast("int"))
    has_families = any(len(each.mappings) > 1 for each in task.ranges)
    order = [functions.shiftright("facts", FAMILY_AT)] if has_families else []
    rows = rows.sortWithinPartitions(*order, "key")
    rows.write.format(NAME).mode("append").options(**options).save()


def _receipts(task: SortTask) -> list[Receipt]:
    """Every receipt that this run has left for a range of the wave; of several attempts any serves."""
    found = []
    for each in task.ranges:
        for file in _left_by(each, ".receipt.json"):
            receipt = read_receipt(file)
            if receipt is not None and receipt.revision == each.revision and has_files(receipt, Path(each.home)):
                found.append(receipt)
    return found


def _remove_others(task: SortTask, taken: Sequence[Receipt]) -> None:
    """Remove what other attempts have left: those of executors that were lost."""
    for each, receipt in zip(task.ranges, taken, strict=True):
        for file in _left_by(each):
            if attempt_of(file.name) != receipt.attempt:
                file.unlink(missing_ok=True)


def _left_by(task: RewriteTask, ending: str = "") -> Iterator[Path]:
    """The files of all attempts of this run at a range."""
    chunk = task.chunk
    folder = chunk_directory(Path(task.home), chunk.store_partition, chunk.database)
    return folder.glob(f"*{task.run_id}-{chunk.number:06d}-*{ending}")
