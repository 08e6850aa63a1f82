"""Rows that Spark sorts, as few columns of Arrow: what is read, and what comes back sorted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from migrate.batch.chunk.sorted_range import SortedRows
from migrate.batch.chunk.sorting import PlacedRecords, Sizes, Unplaced
from migrate.engine.rows.arrays import of_numpy
from migrate.errors import ChunkFailedError
from migrate.stores.batch import Batch, joined

_COLUMNS = pa.schema(
    [
        pa.field("facts", pa.int64(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
"""Spark has a cost for each column of each record, and for each that may be null: hence so few."""
SCHEMA = from_arrow_schema(_COLUMNS)
FAMILY_AT, NUMBER_AT = 36, 46
"""Facts are the number of the range in the wave; below it, that of the column family; below it, three flags and, in 33
bits, the bytes that were read."""
_SIZES = (1 << 33) - 1
_NOTED = 1 << 33
"""Behind the value stands a note, and behind it its size."""
MARK, LARGE = 1 << 34, 1 << 35
"""Rows that each range gets: one, so that an empty range is written too; and one where a record is left out for its
size, so that no range is written."""
_NOTE_SIZE = 4
_BATCH_RECORDS, _BATCH_BYTES = 32 << 10, 8 << 20


class LargeRecordError(Exception):
    """A record has more bytes than one of a wave may have."""


def mark_ranges(ranges: int, mark: int = MARK) -> pa.RecordBatch:
    """The marks of so many ranges."""
    facts = np.arange(ranges, dtype=np.int64) << NUMBER_AT | mark
    return _row_batch(facts, Batch([b""] * ranges, [b""] * ranges, (0, 0)))


def _row_batch(facts: Sizes, records: Batch) -> pa.RecordBatch:
    lengths = np.frombuffer(records.lengths, "<u4").reshape(-1, 2)
    columns = [(records.joined_keys, lengths[:, 0]), (records.joined_values, lengths[:, 1])]
    if max(len(data) for data, _ in columns) >= 1 << 31:
        raise ChunkFailedError(
            "a record, or a few of them, have 2 GiB of keys or values, which Spark cannot sort",
            hint="leave it out by a conversion function, and write it to the new store yourself",
        )
    arrays = [of_numpy(facts)]
    for data, sizes in columns:
        ends = np.append(np.zeros(1, np.int32), np.cumsum(sizes, dtype=np.int32))
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        arrays.append(pa.Array.from_buffers(pa.binary(), len(facts), buffers))
    return pa.RecordBatch.from_arrays(arrays, schema=_COLUMNS)


def _with_notes(found: Unplaced, facts: Sizes) -> Batch:
    """The records, with each note behind its value; the facts say so then."""
    values = list(found.records.values)
    for at, note in enumerate(found.notes or ()):
        if note is not None:
            text = note.as_text().encode()
            values[at] += text + len(text).to_bytes(_NOTE_SIZE, "big")
            facts[at] |= _NOTED
    return Batch(found.records.keys, values)


class WaveRows:
    """Rows of the wave that wait for more: Spark has a cost for each batch."""

    def __init__(self, of_wave: Sizes, largest: int | None = None) -> None:
        """`of_wave`: by the number of a range in the plan, that in the wave; -1: it is none of its.

        `largest`: how many bytes a key or a value may have; None: any.
        """
        self._of_wave = of_wave
        self._largest = largest
        self._facts, self._records = list[Sizes](), list[Batch]()
        self._count = self._size = 0

    def add(self, placed: PlacedRecords) -> pa.RecordBatch | None:
        """Take records; returns all that wait where they are many. Raises LargeRecordError."""
        numbers, of = self._of_wave[placed.numbers], placed.of
        if not (mine := numbers >= 0).any():
            return None
        if of.family >> (NUMBER_AT - FAMILY_AT):
            raise ChunkFailedError(
                f"{of.family:,} column families in one RocksDB directory are more than Spark can sort",
                hint="leave the order of keys as it is, or name fewer column families",
            )
        facts = numbers << NUMBER_AT | of.family << FAMILY_AT | np.asarray(of.sizes, np.int64)
        records = of.records if of.notes is None else _with_notes(of, facts)
        if not mine.all():
            facts, records = facts[mine], records.where(mine.tolist())
        if self._largest is not None and np.frombuffer(records.lengths, "<u4").max() > self._largest:
            raise LargeRecordError
        self._facts.append(facts)
        self._records.append(records)
        self._count += len(records)
        self._size += int((facts & _SIZES).sum())
        return self.taken() if self._count >= _BATCH_RECORDS or self._size >= _BATCH_BYTES else None

    def taken(self) -> pa.RecordBatch | None:
        """What waits; None: nothing does."""
        if not self._records:
            return None
        facts, records = np.concatenate(self._facts), joined(self._records, columns_too=True)
        self._facts, self._records, self._count, self._size = [], [], 0, 0
        return _row_batch(facts, records)


class SortedBatches:
    """The sorted rows of a range, without the mark. Raises LargeRecordError where some were left out."""

    def __init__(self, batches: Iterator[pa.RecordBatch], number: int) -> None:
        self.is_marked = False
        self._batches, self._number = batches, number

    def __iter__(self) -> Iterator[SortedRows]:
        for rows in self._batches:
            batch, facts = rows, rows["facts"].to_numpy()
            if (facts >> NUMBER_AT != self._number).any():
                raise ChunkFailedError("Spark gave a range rows of another one", hint="run the command again")
            if (facts & LARGE).any():
                raise LargeRecordError
            if (is_mark := facts & MARK != 0).any():
                self.is_marked = True
                facts, batch = facts[~is_mark], batch.filter(of_numpy(~is_mark, pa.bool_()))
            if len(facts):
                families = facts >> FAMILY_AT & ((1 << NUMBER_AT - FAMILY_AT) - 1)
                yield SortedRows(*_records_and_notes(batch, facts), families.tolist(), (facts & _SIZES).tolist())
            del rows, batch


def _records_and_notes(batch: pa.RecordBatch, facts: Sizes) -> tuple[Batch, list[str | None] | None]:
    keys, values = batch["key"].to_pylist(), batch["value"].to_pylist()
    noted = np.flatnonzero(facts & _NOTED).tolist()
    if not noted:
        return _with_columns(keys, values, batch), None
    notes: list[str | None] = [None] * len(keys)
    for at in noted:
        end = len(values[at]) - _NOTE_SIZE
        start = end - int.from_bytes(values[at][end:], "big")
        values[at], notes[at] = values[at][:start], values[at][start:end].decode()
    return Batch(keys, values), notes


def _with_columns(keys: list[bytes], values: list[bytes], batch: pa.RecordBatch) -> Batch:
    """The same records with the columns of Arrow: nothing is measured or joined again."""
    lengths, columns = np.empty((len(keys), 2), "<u4"), list[memoryview]()
    for number, name in enumerate(("key", "value")):
        array = batch[name]
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, "<i4", len(keys) + 1, 4 * array.offset)
        lengths[:, number] = np.diff(ends)
        columns.append(memoryview(data or b"")[ends[0] : ends[-1]])
    return Batch(keys, values, joined_keys=columns[0], joined_values=columns[1], lengths=lengths.tobytes())
