"""Rows to records: what was read of a store is written as it was, and what is none of its format is named."""

import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import Format, StateRecord, Window
from formats.avro.schema import AvroSchema
from formats.registry import FORMATS, get_format
from formats.serde import Serde
from formats.serdes.avro_frame import Frame, SchemaId
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.json_text import JsonSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import UuidSerde
from migrate.engine.rows.row_encoder import RowEncoder
from migrate.engine.rows.row_reader import RowReader
from migrate.errors import ChunkFailedError, SpecError
from migrate.stores.batch import Batch
from tests.engine.rows.reference import batch_of, is_readable
from tests.engine.rows.test_avro_as_rows import CASES, ORDER, ORDERS
from tests.engine.rows.test_payloads_as_rows import SERDES, _objects
from tests.formats.entries import records

MADE_OF_ROWS = [
    known for known in FORMATS if known.kind != "versioned" and known.system in ("kafka-streams", "streamiz")
]
PLAIN = get_format("kafka-streams.key-value")
TIMESTAMPED = get_format("kafka-streams.timestamped-key-value")


def _again(known: Format, batch: Batch, key: Serde | None = None, value: Serde | None = None) -> Batch:
    """The records of the rows of a batch."""
    rows = RowReader(known, key=key, value=value).rows(batch, "0_1", 1)
    encoder: RowEncoder = pickle.loads(pickle.dumps(RowEncoder(known, key=key, value=value)))
    encoder.check(rows.schema)
    encoded = encoder.encode(rows.slice(0), "the table")
    assert not encoded.is_absent.any()
    return encoded.records


def _of_rows(known: Format) -> st.SearchStrategy[tuple[bytes, bytes]]:
    """Entries whose times a column holds, and whose sessions do not end before they begin."""

    def entry(record: StateRecord) -> tuple[bytes, bytes]:
        window = record.window
        if window is not None and window.end_ms is not None:
            window = Window(*sorted((window.start_ms, window.end_ms)))
        return known.encode(replace(record, window=window))

    return records(known).map(entry).filter(lambda each: is_readable(known, *each))


def _pairs(batch: Batch) -> list[tuple[bytes, bytes]]:
    return [*zip(batch.keys, batch.values, strict=True)]


@pytest.mark.parametrize("known", MADE_OF_ROWS, ids=lambda known: known.id)
@settings(max_examples=20)
@given(data=st.data())
def test_rows_become_the_records_that_they_were(known: Format, data: st.DataObject) -> None:
    batch = batch_of(data.draw(st.lists(_of_rows(known), max_size=8)))
    assert _pairs(_again(known, batch)) == _pairs(batch)


@pytest.mark.parametrize("serde", [each for each in SERDES if each.name != "uuid"], ids=str)
@settings(max_examples=20)
@given(data=st.data())
def test_payloads_of_each_serde(serde: Serde, data: st.DataObject) -> None:
    payloads = [serde.encode(each) for each in data.draw(st.lists(_objects(serde), max_size=8))]
    batch = Batch(payloads, payloads[::-1])
    assert _pairs(_again(PLAIN, batch, key=serde, value=serde)) == _pairs(batch)


@pytest.mark.parametrize(
    "serde, payloads",
    [
        (UuidSerde(), [str(UUID(int=number)).encode() for number in (0, 1 << 127)]),
        (JsonSerde(), [b'{"a": 1.0}', '["\u00e4"]'.encode()]),
        (NumberSerde("float"), [b"\x7f\xc0\0\1", b"\x80\0\0\0"]),
    ],
    ids=str,
)
def test_payloads_stay_as_they_are(serde: Serde, payloads: list[bytes]) -> None:
    batch = Batch(payloads, payloads)
    assert _pairs(_again(PLAIN, batch, key=serde, value=serde)) == _pairs(batch)


def _avro(schema: object, frame: Frame = "none", name: SchemaId = None) -> AvroSerde:
    return AvroSerde(((name, AvroSchema(json.dumps(schema))),), frame)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: str(CASES[n][1]))
@settings(max_examples=15)
@given(data=st.data())
def test_avro_of_each_type(number: int, data: st.DataObject) -> None:
    of, _, objects = CASES[number]
    serde = _avro({"type": "record", "name": "Row", "fields": [{"name": "f", "type": of}]}, "confluent", 7)
    _check_avro(serde, [{"f": each} for each in data.draw(st.lists(objects, max_size=5))])


@settings(max_examples=20)
@given(found=st.lists(ORDERS, max_size=4))
def test_avro_records(found: list[Any]) -> None:
    _check_avro(_avro(ORDER), found)


def _check_avro(serde: AvroSerde, objects: list[Any]) -> None:
    """Rows of what is written are the same again; so are the bytes, where they are the shortest of their meaning."""
    payloads = [serde.encode(each) for each in objects]
    batch = Batch([str(number).encode() for number in range(len(payloads))], payloads)
    reader = RowReader(PLAIN, value=serde, permissive=True)
    rows = reader.rows(batch, "0_0", 0)
    kept = [error is None for error in rows["_error"].to_pylist()]
    batch, rows = batch.where(kept), rows.filter(pa.array(kept, pa.bool_())).drop_columns(["_error"])
    again = RowEncoder(PLAIN, value=serde).encode(rows, "the table").records
    assert again.keys == batch.keys
    assert reader.rows(again, "0_0", 0).drop_columns(["_error"]).equals(rows, check_metadata=True) or _has_nan(rows)


def _has_nan(rows: pa.RecordBatch) -> bool:
    return "nan" in str(rows.to_pylist())


TIME = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _rows(known: Format, **columns: list[Any]) -> pa.RecordBatch:
    schema = RowEncoder(known).schema
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[name], schema.field(name).type) for name in schema.names], schema.names
    )


def test_columns_that_say_where_a_record_belongs_are_not_read() -> None:
    assert RowEncoder(TIMESTAMPED).schema.names == ["key", "value", "timestamp"]
    assert RowEncoder(get_format("kafka-streams.window")).schema.names == ["key", "value", "window_start", "sequence"]
    assert RowEncoder(get_format("kafka-streams.session")).schema.names == [
        "key",
        "value",
        "window_start",
        "window_end",
    ]


def test_a_null_value_is_no_record_and_a_null_time_is_unknown() -> None:
    rows = _rows(TIMESTAMPED, key=[b"a", b"b"], value=[None, b"1"], timestamp=[None, None])
    encoded = RowEncoder(TIMESTAMPED).encode(rows, "the table")
    assert encoded.is_absent.tolist() == [True, False]
    assert encoded.records.keys == [b"a", b"b"]
    assert TIMESTAMPED.decode(b"b", encoded.records.values[1]).timestamp_ms == -1


def test_a_part_of_a_batch() -> None:
    known = get_format("streamiz.timestamped-key-value")
    serde = NumberSerde("int64")
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 6)]
    rows = _rows(
        known,
        key=[bytes([number]) for number in range(5)],
        value=[b"x" * number for number in range(5)],
        timestamp=times,
    )
    whole, part = (RowEncoder(known).encode(each, "the table").records for each in (rows, rows.slice(2, 2)))
    assert _pairs(part) == _pairs(whole)[2:4]
    numbers = pa.RecordBatch.from_pydict({"key": [1, 2, 3], "value": [4, None, 6]}).slice(1)
    encoded = RowEncoder(PLAIN, key=serde, value=serde).encode(numbers, "the table")
    assert encoded.records.keys == [serde.encode(2), serde.encode(3)]
    assert (encoded.is_absent.tolist(), encoded.records.values[1]) == ([True, False], serde.encode(6))


@pytest.mark.parametrize(
    "known, changed, message",
    [
        ("timestamped-key-value", {"key": [b"a", None]}, "row 11 of part-1 is no record .*: its key is null"),
        ("timestamped-key-value", {"timestamp": [1000, 1001]}, "row 11 .* its timestamp has a part of a millisecond"),
        ("window", {"window_start": [None, 0]}, "row 10 .* its window_start is null"),
        ("window", {"sequence": [0, None]}, "row 11 .* its sequence is null"),
        ("session", {"window_end": [1, 0]}, "row 10 .* its window_end has a part"),
        ("session", {"window_end": [0, -1000]}, "row 11 .* its window_end is before its window_start"),
        ("headers-key-value", {"headers": [[], [{"key": None, "value": b""}]]}, "row 11 .* a header has no name"),
    ],
)
def test_a_row_that_is_no_record_is_named(known: str, changed: dict[str, list[Any]], message: str) -> None:
    of = get_format(f"kafka-streams.{known}")
    whole: dict[str, list[Any]] = {name: [0, 0] for name in RowEncoder(of).schema.names}
    whole |= {"key": [b"a", b"b"], "value": [b"1", b"2"]} | changed
    with pytest.raises(ChunkFailedError, match=message) as caught:
        RowEncoder(of).encode(_rows(of, **whole), "part-1", 10)
    assert "import its new version" in caught.value.hint


RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


@pytest.mark.parametrize(
    "serde, value, message",
    [
        (UuidSerde(), "2F3C", "2F3C is not the text of a UUID in lower case"),
        (JsonSerde(), "{", "not JSON"),
        (ListSerde(UuidSerde()), ["x"], "'x' is not the text of a UUID"),
        (
            _avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}),
            {"a": None},
            "value.a is null, and its schema says int",
        ),
        (_avro({"type": "enum", "name": "E", "symbols": ["A"]}), "B", "value is 'B', which is no value of enum E"),
        (_avro({"type": "fixed", "name": "F", "size": 2}), b"abc", "which is no value of fixed F"),
        (_avro({"type": "long", "logicalType": "timestamp-millis"}), 1001, "a time with 1 microseconds"),
        (_avro({"type": "array", "items": "int"}), [1, None], r"value\[1\] is null"),
        (_avro(["string", "int"]), {"member0": "a", "member1": 1}, "one member has a value, and here 2 have"),
        (_avro(["string", "int"]), {"member0": None, "member1": None}, "here 0 have"),
    ],
    ids=str,
)
def test_a_value_that_its_serde_cannot_write_is_named(serde: Serde, value: object, message: str) -> None:
    encoder = RowEncoder(PLAIN, value=serde)
    rows = pa.RecordBatch.from_arrays(
        [pa.array([b"k"], pa.binary()), pa.array([value], encoder.schema.field("value").type)], ["key", "value"]
    )
    with pytest.raises(ChunkFailedError, match=message):
        encoder.encode(rows, "the table")


@pytest.mark.parametrize(
    "changed, message, hint",
    [
        ({"timestamp": None}, "no column 'timestamp'", "timestamp (timestamp[us, tz=UTC])"),
        ({"key": pa.string()}, "'key' of the table is string, and not binary", "cast it"),
        ({"timestamp": pa.timestamp("us")}, "'timestamp' of the table is timestamp", "cast it"),
        ({"vaule": pa.binary()}, "a column 'vaule'", "did you mean 'value'?"),
    ],
)
def test_other_columns_are_refused(changed: dict[str, pa.DataType], message: str, hint: str) -> None:
    columns = {"task": pa.string(), "key": pa.binary(), "value": pa.binary(), "timestamp": TIME}
    RowEncoder(TIMESTAMPED).check(pa.schema([*columns.items()]))
    columns = {name: kind for name, kind in (columns | changed).items() if kind is not None}
    with pytest.raises(SpecError, match=message) as caught:
        RowEncoder(TIMESTAMPED).check(pa.schema([*columns.items()]))
    assert hint in caught.value.hint


@pytest.mark.parametrize("known", ["kafka-streams.versioned", "quix.ttl-key-value", "rocksdb.raw"])
def test_formats_that_are_not_made_of_rows(known: str) -> None:
    with pytest.raises(SpecError, match=f"no store of {known} can be made from rows yet"):
        RowEncoder(get_format(known))
