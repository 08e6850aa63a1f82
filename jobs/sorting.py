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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from migrate.batch.chunk.rewrite_chunk import RewriteTask, chunk_directory
from migrate.batch.chunk.sorted_range import SortedRows, SortTask, write_range, written_by
from migrate.batch.chunk.sorting import PlacedRecords, SortInput, SortWork
from migrate.batch.ledger.receipts_in_force import has_files
from migrate.batch.stop import never_stop
from migrate.errors import ChunkFailedError, MigrationError, explain_system_error
from migrate.model.receipt import Receipt, attempt_of, read_receipt

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "stateferry-wave"
_SCHEMA = "number int, key binary, value binary, facts bigint, note string"
_COLUMNS = pa.schema(
    [
        pa.field("number", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("facts", pa.int64()),
        pa.field("note", pa.string()),
    ]
)
FAMILY_BITS = 48
"""Facts are the number of the column family, and below it, in so many bits, the bytes that were read."""
_MARK = -1
"""The facts of a row that each range gets, so that an empty one is written too."""
_BATCH_RECORDS, _BATCH_BYTES = 32 << 10, 8 << 20
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # each partition is a range
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
}
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

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: StructType) -> WaveReader:
        """It reads every input."""
        return WaveReader(self._wave())

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

    def __init__(self, wave: SortTask) -> None:
        self._work: SortWork = wave.work
        self._numbers = wave.numbers
        self._inputs: tuple[SortInput, ...] = wave.inputs

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_inputs": ()}

    def partitions(self) -> list[InputOfSpark]:
        """The inputs."""
        return [InputOfSpark(each, is_first=not number) for number, each in enumerate(self._inputs)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of an input that belong to the wave."""
        assert isinstance(partition, InputOfSpark)
        if partition.is_first:
            yield _marks(len(self._numbers))
        of_wave = np.full(len(self._work.targets.chunks), -1)
        of_wave[self._numbers] = np.arange(len(self._numbers))
        with _as_text():
            rows = _Rows(of_wave)
            for placed in partition.of.placed(self._work, never_stop):
                if (batch := rows.add(placed)) is not None:
                    yield batch
                del placed
            if (batch := rows.taken()) is not None:
                yield batch


def _marks(ranges: int) -> pa.RecordBatch:
    columns = [range(ranges), [b""] * ranges, [b""] * ranges, [_MARK] * ranges, [None] * ranges]
    return pa.record_batch(
        [pa.array(each, field.type) for each, field in zip(columns, _COLUMNS, strict=True)], _COLUMNS
    )


class _Rows:
    """Rows of the wave that wait for more: Spark has a cost for each batch."""

    def __init__(self, of_wave: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """`of_wave`: by the number of a range in the plan, that in the wave; -1: it is none of its."""
        self._of_wave = of_wave
        self._clear()

    def _clear(self) -> None:
        self._numbers, self._facts = list[Any](), list[Any]()
        self._keys, self._values, self._notes = list[bytes](), list[bytes](), list[str | None]()
        self._size = 0

    def add(self, placed: PlacedRecords) -> pa.RecordBatch | None:
        """Take records; returns all that wait where they are many."""
        numbers, of = self._of_wave[placed.numbers], placed.of
        keys, values = of.records.keys, of.records.values
        facts = np.asarray(of.sizes, np.int64) | (of.family << FAMILY_BITS)
        notes = [None] * len(keys) if of.notes is None else [each and each.as_text() for each in of.notes]
        if (mine := numbers >= 0).any() and not mine.all():
            mask = mine.tolist()
            keys, values = of.records.where(mask).keys, of.records.where(mask).values
            numbers, facts = numbers[mine], facts[mine]
            notes = [note for note, is_mine in zip(notes, mask, strict=True) if is_mine]
        elif not len(numbers) or numbers[0] < 0:
            return None
        self._numbers.append(numbers)
        self._facts.append(facts)
        self._keys += keys
        self._values += values
        self._notes += notes
        self._size += int(facts.sum()) & ((1 << FAMILY_BITS) - 1)
        return self.taken() if len(self._keys) >= _BATCH_RECORDS or self._size >= _BATCH_BYTES else None

    def taken(self) -> pa.RecordBatch | None:
        """What waits; None: nothing does."""
        if not self._keys:
            return None
        columns = [
            pa.array(np.concatenate(self._numbers), pa.int32()),
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            pa.array(np.concatenate(self._facts), pa.int64()),
            pa.array(self._notes, pa.string()),
        ]
        self._clear()
        return pa.record_batch(columns, _COLUMNS)


class WaveWriter(DataSourceArrowWriter):
    """Writes each range; Spark's partition has the number of the range in the wave."""

    def __init__(self, ranges: Sequence[RewriteTask], *, newest_wins: bool) -> None:
        self._ranges = ranges
        self._newest_wins = newest_wins

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the files and the receipt of a range, which are durable then."""
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        task = self._ranges[number]
        with _as_text():
            rows = _SortedBatches(iterator, number)
            write_range(task, iter(rows), never_stop, newest_wins=self._newest_wins)
            if not rows.is_marked:
                raise ChunkFailedError(f"{task}: Spark lost rows", hint="run the command again")
        return WriterCommitMessage()


class _SortedBatches:
    """The sorted rows of a range, without the mark."""

    def __init__(self, batches: Iterator[pa.RecordBatch], number: int) -> None:
        self.is_marked = False
        self._batches, self._number = batches, number

    def __iter__(self) -> Iterator[SortedRows]:
        for batch in self._batches:
            numbers, facts = batch["number"].to_numpy(), batch["facts"].to_numpy()
            if (numbers != self._number).any():
                raise ChunkFailedError("Spark gave a range rows of another one", hint="run the command again")
            keys, values, notes = (batch[name].to_pylist() for name in ("key", "value", "note"))
            if len(marks := np.flatnonzero(facts == _MARK)):
                self.is_marked = True
                (at,) = marks.tolist()
                facts = np.delete(facts, at)
                del keys[at], values[at], notes[at]
            if keys:
                sizes = facts & ((1 << FAMILY_BITS) - 1)
                yield SortedRows(keys, values, (facts >> FAMILY_BITS).tolist(), sizes.tolist(), notes)
            del batch, keys, values


def run_wave(context: SparkContext, task: SortTask) -> tuple[Receipt, ...]:
    """Sort and write the ranges of a wave; their receipts, in the same order.

    Raises what a worker has raised, if it is an error of ours, else Spark's error.
    """
    session = own_session(context, _SETTINGS)
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        file = Path(folder) / "wave"
        file.write_bytes(pickle.dumps(task))
        try:
            _sort(session, task, str(file))
        except Exception as failure:
            error = error_in(str(failure))
            if error is None:
                raise
            raise error from failure
    taken = written_by(_receipts(task), task)
    _remove_others(task, taken)
    return tuple(taken)


def _sort(session: SparkSession, task: SortTask, wave: str) -> None:
    from pyspark.sql import functions

    session.dataSource.register(WaveSource)
    rows = session.read.format(NAME).option("wave", wave).load()
    rows = rows.repartitionById(len(task.ranges), functions.col("number"))
    has_families = any(len(each.mappings) > 1 for each in task.ranges)
    order = [functions.shiftright("facts", FAMILY_BITS)] if has_families else []
    rows = rows.sortWithinPartitions(*order, "key")
    rows.write.format(NAME).mode("append").option("wave", wave).save()


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
