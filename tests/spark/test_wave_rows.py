"""Rows that Spark sorts: what goes into its columns comes out again, each in its range."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from jobs.wave_rows import LARGE, NUMBER_AT, LargeRecordError, SortedBatches, WaveRows, mark_ranges
from migrate.batch.chunk.sorted_range import SortedRows
from migrate.batch.chunk.sorting import Note, PlacedRecords, Unplaced
from migrate.errors import ChunkFailedError
from migrate.stores.batch import Batch
from tests.support import raises

OF_WAVE = np.array([-1, 0, 1])
"""The wave has the second and the third range of the plan."""


def _placed(
    numbers: list[int], keys: list[bytes], values: list[bytes], family: int = 0, notes: list[Note | None] | None = None
) -> PlacedRecords:
    found = Unplaced("", "", "default", family, Batch(keys, values), [40 + each for each in numbers], notes)
    return PlacedRecords(np.array(numbers), found)


def _rows(*placed: PlacedRecords) -> pa.RecordBatch:
    rows = WaveRows(OF_WAVE)
    assert [rows.add(each) for each in placed] == [None] * len(placed)
    batch = rows.taken()
    assert batch is not None
    assert rows.taken() is None
    return batch


def _of_range(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    return batch.filter(pa.array(batch["facts"].to_numpy() >> NUMBER_AT == number))


def _sorted(*batches: pa.RecordBatch, number: int) -> Iterator[SortedRows]:
    found = SortedBatches(iter([_of_range(mark_ranges(2), number), *batches]), number)
    yield from found
    assert found.is_marked


def test_records_of_the_wave_come_out_as_they_went_in() -> None:
    batch = _rows(
        _placed([0, 1, 2, 1], [b"a", b"b", b"", b"d"], [b"A", b"", b"C", b"DD"]), _placed([2], [b"e"], [b"E"], 3)
    )
    (first,) = _sorted(_of_range(batch, 0), number=0)
    assert (first.records.keys, first.records.values) == ([b"b", b"d"], [b"", b"DD"])
    assert (first.families, first.sizes, first.notes) == ([0, 0], [41, 41], None)
    (second,) = _sorted(_of_range(batch, 1), number=1)
    assert (second.records.keys, second.records.values) == ([b"", b"e"], [b"C", b"E"])
    assert (second.families, second.sizes) == ([0, 3], [42, 42])


def test_columns_of_a_part_of_a_batch_are_those_of_its_records() -> None:
    batch = _rows(_placed([1, 1, 1], [b"a", b"bb", b"c"], [b"A", b"BBB", b""]))
    (rows,) = _sorted(batch.slice(1, 2), number=0)
    again = Batch(rows.records.keys, rows.records.values)
    assert rows.records.keys == [b"bb", b"c"]
    assert bytes(rows.records.joined_keys) == again.joined_keys
    assert bytes(rows.records.joined_values) == again.joined_values
    assert rows.records.lengths == again.lengths


def test_records_without_a_byte_and_notes() -> None:
    (empty,) = _sorted(_rows(_placed([1], [b""], [b""])), number=0)
    assert (empty.records.keys, empty.records.values, empty.records.size) == ([b""], [b""], 0)
    rejected = Note("rejected", 0, "no \N{SNOWMAN}", "here")
    notes = [None, rejected, Note("not-carried")]
    (rows,) = _sorted(_rows(_placed([1, 1, 1], [b"a", b"b", b"c"], [b"A", b"B", b""], notes=notes)), number=0)
    assert rows.records.values == [b"A", b"B", b""]
    assert rows.notes is not None
    assert [each and Note.of_text(each) for each in rows.notes] == notes


def test_rows_of_another_range_are_an_error() -> None:
    batch = _rows(_placed([1, 2], [b"a", b"b"], [b"A", b"B"]))
    raises(ChunkFailedError, "rows of another one", list, SortedBatches(iter([batch]), 0))


def test_a_range_without_its_mark_is_noticed() -> None:
    found = SortedBatches(iter([_rows(_placed([1], [b"a"], [b"A"]))]), 0)
    assert len([*found]) == 1
    assert not found.is_marked


@pytest.mark.parametrize(("key", "value"), [(b"a", b"AAAA"), (b"aaaa", b"A")])
def test_a_large_record_is_left_out_where_none_is_wanted(key: bytes, value: bytes) -> None:
    rows = WaveRows(OF_WAVE, largest=3)
    assert rows.add(_placed([1, 0], [b"aaa", key], [b"AAA", value])) is None  # it belongs to another wave
    with pytest.raises(LargeRecordError):
        rows.add(_placed([1], [key], [value]))


def test_a_range_without_a_large_record_is_not_written() -> None:
    mark = _of_range(mark_ranges(2, LARGE), 1)
    batch = _rows(_placed([2], [b"a"], [b"A"]))
    with pytest.raises(LargeRecordError):
        list(SortedBatches(iter([_of_range(mark_ranges(2), 1), batch, mark]), 1))


def test_more_column_families_than_fit_are_refused() -> None:
    rows = WaveRows(OF_WAVE)
    assert rows.add(_placed([1], [b"a"], [b"A"], 1023)) is None
    raises(ChunkFailedError, "1,024 column families", rows.add, _placed([1], [b"a"], [b"A"], 1024))
