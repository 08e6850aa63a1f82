"""Rows of every format, against its own decoder."""

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import EntryError, Format, History, StateRecord, Version, Window
from formats.faust import OFFSET_KEY
from formats.registry import FORMATS, get_format
from formats.wide_columns import NOT_A_PAIR, wide_columns
from migrate.engine.rows.row_reader import RowReader
from migrate.errors import ConversionError, SpecError
from migrate.stores.batch import Batch
from tests.engine.rows.reference import MOST, batch_of, expected, is_readable, plain, rows_of
from tests.formats.entries import entries

FORMAT = pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
PLACE: dict[str, Any] = {"task": "0_1", "partition": 1}


def _without_place(batch: pa.RecordBatch) -> list[dict[str, object]]:
    return [
        {name: each for name, each in row.items() if name not in ("task", "partition", "family")}
        for row in plain(batch)
    ]


@FORMAT
@settings(max_examples=25)
@given(data=st.data())
def test_rows_are_what_the_format_decodes(known: Format, data: st.DataObject) -> None:
    size = data.draw(st.none() | st.integers(1, 1 << 40)) if known.kind == "window" else None
    found = data.draw(st.lists(entries(known).filter(lambda entry: is_readable(known, *entry)), max_size=8))
    batch = batch_of(found)
    reader = pickle.loads(pickle.dumps(RowReader(known, window_size_ms=size)))
    try:
        wanted = [*expected(known, batch, size)]
    except OverflowError:  # the end of a window
        with pytest.raises(ConversionError, match="out of the range"):
            reader.rows(batch, **PLACE)
        return
    rows = reader.rows(batch, **PLACE)
    assert rows.schema == reader.schema
    rows.validate(full=True)
    assert _without_place(rows) == wanted
    assert not any(rows[name].null_count for name in reader.filled)
    assert all((row["task"], row["partition"]) == ("0_1", 1) for row in plain(rows))


def _is_partly_readable(known: Format, key: bytes, value: bytes) -> bool:
    """Whether it is the history of a key, some of whose times no column holds."""
    try:
        rows_of(known, key, value)
    except OverflowError:
        return known.kind == "versioned"
    except EntryError:
        pass
    return False


@FORMAT
@settings(max_examples=25)
@given(data=st.data())
def test_a_record_that_cannot_be_decoded(known: Format, data: st.DataObject) -> None:
    batch = batch_of(
        data.draw(st.lists(entries(known).filter(lambda entry: not _is_partly_readable(known, *entry)), max_size=8))
    )
    pairs = [*zip(batch.keys, batch.values, strict=True)]
    wrong = [pair for pair in pairs if not is_readable(known, *pair)]
    rows = RowReader(known, permissive=True).rows(batch, **PLACE)
    rows.validate(full=True)
    assert len([row for row in plain(rows) if row["_error"] is not None]) >= len(wrong)
    readable = expected(known, batch_of([pair for pair in pairs if pair not in wrong]))
    assert [row for row in _without_place(rows) if row["_error"] is None] == [
        {**row, "_error": None} for row in readable
    ]
    if wrong:
        with pytest.raises(ConversionError) as caught:
            RowReader(known).rows(batch, **PLACE)
        assert caught.value.key in [key for key, _ in wrong]
        assert caught.value.hint
    else:
        RowReader(known).rows(batch, **PLACE)


def test_columns_are_chosen_in_their_order() -> None:
    known = get_format("kafka-streams.timestamped-window")
    reader = RowReader(known, columns=["window_end", "task"], window_size_ms=10)
    batch = batch_of([known.encode(StateRecord(b"a", b"no time is read", 3, window=Window(5)))])
    assert plain(reader.rows(batch, **PLACE)) == [{"window_end": 15_000, "task": "0_1"}]
    damaged = batch_of([(batch.keys[0], b"")])
    assert plain(reader.rows(damaged, **PLACE)) == [{"window_end": 15_000, "task": "0_1"}]
    with pytest.raises(ConversionError, match="task 0_1 cannot be read: timestamped value has 0 bytes"):
        RowReader(known).rows(damaged, **PLACE)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"columns": ["keys"]}, "did you mean 'key'"),
        ({"columns": ["key", "value", "key"]}, "chosen twice"),
        ({"window_size_ms": 10}, "no windows"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        RowReader(get_format("kafka-streams.key-value"), **options)


def test_a_record_with_columns_of_rocksdb_is_not_a_row() -> None:
    batch = Batch([b"a", b"b"], [b"1", wide_columns(b"b", [(b"", b"2")])])
    rows = RowReader(get_format("rocksdb.raw"), permissive=True).rows(batch, **PLACE, family="default")
    assert [(row["family"], row["value"], row["_error"]) for row in plain(rows)] == [
        ("default", b"1", None),
        ("default", None, NOT_A_PAIR),
    ]


def test_the_owners_own_keys_are_not_rows() -> None:
    batch = batch_of([(OFFSET_KEY, b"17"), (b'"a"', b"1"), (b'"b"', b"2")])
    rows = RowReader(get_format("faust.table"), columns=["key"]).rows(batch, **PLACE)
    assert plain(rows) == [{"key": b'"a"'}, {"key": b'"b"'}]


def test_versions_of_a_key() -> None:
    known = get_format("kafka-streams.versioned")
    history = History(0, 40, (Version(30, b"c"), Version(20, None), Version(10, b"a")))
    batch = batch_of(
        [known.encode(StateRecord(b"k", None, history=history)), known.encode(StateRecord(b"k", b"d", 50))]
    )
    rows = RowReader(known, columns=["key", "value", "valid_from", "valid_to"]).rows(batch, **PLACE)
    assert [tuple(row.values()) for row in plain(rows)] == [
        (b"k", b"a", 10_000, 20_000),
        (b"k", None, 20_000, 30_000),
        (b"k", b"c", 30_000, 40_000),
        (b"k", b"d", 50_000, None),
    ]


def test_an_unknown_time_is_null() -> None:
    known = get_format("kafka-streams.timestamped-key-value")
    batch = batch_of([known.encode(StateRecord(key, b"v", time)) for key, time in ((b"a", -1), (b"b", -2), (b"c", 0))])
    rows = RowReader(known, columns=["timestamp"]).rows(batch, **PLACE)
    assert [row["timestamp"] for row in plain(rows)] == [None, -2_000, 0]


def test_a_time_that_microseconds_do_not_hold_is_an_error() -> None:
    known = get_format("kafka-streams.session")
    times = (1 << 63) - 1, -(1 << 63), MOST
    batch = batch_of([known.encode(StateRecord(b"k", b"v", window=Window(start, 5))) for start in times])
    rows = plain(RowReader(known, columns=["window_start"], permissive=True).rows(batch, **PLACE))
    assert sorted((row["window_start"] or 0, row["_error"]) for row in rows if not row["_error"]) == [
        (MOST * 1000, None)
    ]
    assert [row["_error"] for row in rows if row["_error"]] == [
        f"the time {time} ms is out of the range of a timestamp in microseconds" for time in times[:2]
    ]
