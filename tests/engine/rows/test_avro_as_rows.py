"""Avro values as columns: their types as Spark's reader of Avro has them, and values against the one-by-one reader."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import EntryError
from formats.avro.resolving import write
from formats.avro.schema import AvroSchema, types_of
from formats.registry import get_format
from formats.serdes.avro_frame import Frame, SchemaId
from formats.serdes.avro_serde import AvroSerde
from migrate.engine.rows.avro_columns import read_columns
from migrate.engine.rows.row_reader import RowReader
from migrate.engine.rows.row_types import payload_type
from migrate.engine.rows.row_values import arrow_serde
from migrate.engine.rows.spans import Spans
from migrate.errors import SpecError
from migrate.stores.batch import Batch
from tests.formats.serdes.schemas import GUID, NEW, OLD, SECOND_GUID

PLAIN = get_format("kafka-streams.key-value")
UTC_TIME, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
INT, LONG = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
MILLIS = st.integers(-(1 << 53), 1 << 53)
DAYS = st.integers(-700_000, 2_900_000)
TEXT = st.text(max_size=6)


def _logical(kind: str, logical: str, /, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": logical, **more}


def _decimal(number: int, size: int) -> bytes:
    return number.to_bytes(size, "big", signed=True)


SYMBOLS = ["RED", "GREEN"]
COLOUR = {"type": "enum", "name": "Colour", "symbols": SYMBOLS}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "double"}]}
POINTS = st.fixed_dictionaries({"x": INT, "y": st.floats(allow_nan=False)})
MONEY = _logical("bytes", "decimal", precision=10, scale=2)
CASES: list[tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = [
    ("null", pa.null(), st.none()),
    ("boolean", pa.bool_(), st.booleans()),
    ("int", pa.int32(), INT),
    ("long", pa.int64(), LONG | st.integers(-(1 << 56), 1 << 56)),
    ("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    ("double", pa.float64(), st.floats(allow_nan=False)),
    ("bytes", pa.binary(), st.binary(max_size=6)),
    ("string", pa.string(), TEXT),
    ({"type": "fixed", "name": "F", "size": 3}, pa.binary(), st.binary(min_size=3, max_size=3)),
    (COLOUR, pa.string(), st.sampled_from(SYMBOLS)),
    (_logical("int", "date"), pa.date32(), DAYS),
    (_logical("int", "time-millis"), pa.int32(), INT),
    (_logical("long", "timestamp-millis"), UTC_TIME, MILLIS | LONG),
    (_logical("long", "timestamp-micros"), UTC_TIME, LONG),
    (_logical("long", "local-timestamp-millis"), LOCAL, MILLIS),
    (_logical("long", "local-timestamp-micros"), LOCAL, LONG),
    (_logical("string", "uuid"), pa.string(), st.uuids().map(str)),
    (
        MONEY,
        pa.decimal128(10, 2),
        st.integers(-(10**10), 10**10).map(lambda number: _decimal(number, 6)) | st.binary(max_size=18),
    ),
    (_logical("bytes", "decimal", precision=39), pa.binary(), st.binary(max_size=4)),
    (
        _logical("fixed", "decimal", name="D", size=5, precision=9, scale=4),
        pa.decimal128(9, 4),
        st.integers(-(10**9), 10**9).map(lambda number: _decimal(number, 5)),
    ),
    (["null", "string"], pa.string(), st.none() | TEXT),
    (["null"], pa.null(), st.none()),
    (["long", "int"], pa.int64(), LONG),
    (["null", "double", "float"], pa.float64(), st.none() | st.floats(allow_nan=False)),
    (
        ["null", "string", "int", COLOUR],
        pa.struct([("member0", pa.string()), ("member1", pa.int32()), ("member2", pa.string())]),
        st.none() | TEXT | INT | st.sampled_from(SYMBOLS).map(lambda one: ("Colour", one)),
    ),
    (
        [POINT, "long"],
        pa.struct([("member0", pa.struct([("x", pa.int32()), ("y", pa.float64())])), ("member1", pa.int64())]),
        POINTS | LONG,
    ),
    ({"type": "array", "items": "long"}, pa.list_(pa.int64()), st.lists(LONG, max_size=5)),
    (
        {"type": "array", "items": ["null", POINT]},
        pa.list_(pa.struct([("x", pa.int32()), ("y", pa.float64())])),
        st.lists(st.none() | POINTS, max_size=5),
    ),
    (
        {"type": "array", "items": {"type": "array", "items": "string"}},
        pa.list_(pa.list_(pa.string())),
        st.lists(st.lists(TEXT, max_size=3), max_size=3),
    ),
    ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32()), st.dictionaries(TEXT, INT, max_size=4)),
    (
        {"type": "map", "values": {"type": "map", "values": MONEY}},
        pa.map_(pa.string(), pa.map_(pa.string(), pa.decimal128(10, 2))),
        st.dictionaries(TEXT, st.dictionaries(TEXT, st.just(b"\1\0"), max_size=3), max_size=3),
    ),
]
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": f"f{number}", "type": of} for number, (of, _, _) in enumerate(CASES) if number not in (24, 25, 27)
    ],
}
ORDERS = st.fixed_dictionaries({f"f{n}": of for n, (_, _, of) in enumerate(CASES) if n not in (24, 25, 27)})


def _serde(schema: object) -> AvroSerde:
    return AvroSerde(((None, AvroSchema(json.dumps(schema))),), "none")


def _one_by_one(serde: AvroSerde, payloads: list[bytes]) -> tuple[pa.Array, list[str | None]]:
    found = list[object]()
    reasons = list[str | None]()
    for payload in payloads:
        try:
            found.append(arrow_serde(serde).decode(payload))
            reasons.append(None)
        except EntryError as error:
            found.append(None)
            reasons.append(str(error))
    return pa.array(found, payload_type(serde)), reasons


def _check(serde: AvroSerde, payloads: list[bytes]) -> None:
    reader = RowReader(PLAIN, value=serde, columns=["value"], permissive=True)
    rows = reader.rows(Batch([b"%d" % number for number in range(len(payloads))], payloads), "0_0", 0)
    rows.validate(full=True)
    wanted, reasons = _one_by_one(serde, payloads)
    assert rows["value"].equals(wanted)
    assert [each and each.partition("reads: ")[2] for each in rows["_error"].to_pylist()] == reasons


@pytest.mark.parametrize("schema, kind", [case[:2] for case in CASES], ids=str)
def test_types(schema: object, kind: pa.DataType) -> None:
    assert payload_type(_serde(schema)) == kind


@pytest.mark.parametrize("schema, values", [(of, values) for of, _, values in CASES], ids=str)
@settings(max_examples=30)
@given(data=st.data())
def test_values_of_each_type(schema: object, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    serde = _serde(schema)
    found = data.draw(st.lists(values, max_size=6))
    _check(serde, [write(each, serde.schemas[0][1]) for each in found])


@settings(max_examples=60)
@given(data=st.data())
def test_a_record_of_all_types(data: st.DataObject) -> None:
    serde = _serde(ORDER)
    payloads = [serde.encode(each) for each in data.draw(st.lists(ORDERS, max_size=4))]
    for number in range(len(payloads)):
        if data.draw(st.booleans()):
            payloads[number] = data.draw(_damaged(payloads[number]))
    _check(serde, payloads)


@st.composite
def _damaged(draw: st.DrawFn, payload: bytes) -> bytes:
    at = draw(st.integers(0, max(len(payload) - 1, 0)))
    byte = draw(st.sampled_from([b"", b"\0", b"\1", b"\x7f", b"\x80", b"\xff", b"\xff" * 9]) | st.binary(max_size=2))
    return payload[:at] + byte + draw(st.sampled_from([payload[at:], payload[at + 1 :], b""]))


def test_values_are_what_a_person_expects() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "day", "type": _logical("int", "date")},
            {"name": "at", "type": _logical("long", "timestamp-millis")},
            {"name": "price", "type": MONEY},
            {"name": "what", "type": ["null", "string", "int"]},
            {"name": "tags", "type": {"type": "map", "values": "int"}},
        ],
    }
    serde = _serde(schema)
    payload = serde.encode({"day": 365, "at": 1500, "price": _decimal(-12345, 3), "what": 7, "tags": {"a": 1}})
    rows = RowReader(PLAIN, value=serde).rows(Batch([b"k"], [payload]), "0_0", 0)
    assert rows["value"].to_pylist() == [
        {
            "day": date(1971, 1, 1),
            "at": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
            "price": Decimal("-123.45"),
            "what": {"member0": None, "member1": 7},
            "tags": [("a", 1)],
        }
    ]


def test_a_recursive_type_is_refused() -> None:
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}
    with pytest.raises(SpecError, match="Tree holds values of its own type"):
        RowReader(PLAIN, value=_serde(tree))


def test_a_map_that_holds_a_key_twice_is_not_a_row() -> None:
    serde = _serde({"type": "map", "values": "int"})
    _check(serde, [b"\x04\x02a\x02\x02b\x04\x00", b"\x04\x02a\x02\x02a\x04\x00", b"\x00"])
    assert _one_by_one(serde, [b"\x04\x02a\x02\x02a\x04\x00"])[1] == ["a map holds a key twice"]


@pytest.mark.parametrize("schema, values", [(of, values) for of, _, values in CASES] + [(ORDER, ORDERS)], ids=str)
@settings(max_examples=10)
@given(data=st.data())
def test_what_a_writer_writes_is_read_in_step(
    schema: object, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """The one-by-one reader would hide it behind the same rows."""
    serde = _serde(schema)
    parsed = serde.schemas[0][1]
    payloads = [write(each, parsed) for each in data.draw(st.lists(values, min_size=1, max_size=6))]
    whole = Spans.of(b"".join(payloads), np.array([*map(len, payloads)]))
    array, marked = read_columns(types_of(parsed), whole, payload_type(serde))
    wanted, reasons = _one_by_one(serde, payloads)
    assert marked.tolist() == [reason is not None for reason in reasons]
    assert array.filter(pa.array(~marked)).equals(wanted.filter(pa.array(~marked)))


LISTS = {"type": "array", "items": ["null", "string"]}


@pytest.mark.parametrize("sizes", [[0, 1, 200, 3] * 9, [70] * 40, [500] + [1] * 40, [0] * 20])
def test_arrays_of_many_sizes(sizes: list[int]) -> None:
    serde = _serde(LISTS)
    values = [
        [None if each % 3 else f"item {each} of {number}" for each in range(size)] for number, size in enumerate(sizes)
    ]
    _check(serde, [serde.encode(value) for value in values])


def test_an_array_in_several_blocks() -> None:
    serde = _serde({"type": "array", "items": "int"})
    payloads = [b"\x02\x02\x02\x04\x00", b"\x03\x04\x02\x04\x02\x06\x00", b"\x02\x02\x00", b"\x02\x02\x02"]
    _check(serde, payloads)
    assert _one_by_one(serde, payloads)[0].to_pylist() == [[1, 2], [1, 2, 3], [1], None]


@pytest.mark.parametrize("frame, ids", [("confluent", (1, 2)), ("apicurio", (1, 2)), ("glue", (GUID, SECOND_GUID))])
@settings(max_examples=40)
@given(data=st.data())
def test_frames(frame: Frame, ids: tuple[SchemaId, SchemaId], data: st.DataObject) -> None:
    old, new = (AvroSerde(((name, schema),), frame) for name, schema in zip(ids, (OLD, NEW), strict=True))
    olds = st.fixed_dictionaries({"a": TEXT, "n": INT}).map(old.encode)
    news = st.fixed_dictionaries({"n": LONG, "b": TEXT}).map(new.encode)
    payloads = data.draw(st.lists(olds | news | st.binary(max_size=20) | olds.flatmap(_damaged), max_size=8))
    _check(AvroSerde((*old.schemas, *new.schemas), frame), payloads)


def test_a_key_of_a_map_that_is_not_text() -> None:
    _check(_serde({"type": "map", "values": "int"}), [b"\x02\x02\xff\x04\x00", b"\x02\x02a\x04\x00"])


ITEMS = {"type": "array", "items": "int"}


DAMAGED: dict[str, tuple[Any, bytes, bytes]] = {
    "bytes-behind": ("int", b"\x02\x00", b"\x02"),
    "padded": ("int", b"\x82\x00", b"\x02"),
    "padded-to-ten": ("long", b"\x80" * 9 + b"\x00", b"\x80" * 9 + b"\x01"),
    "more-than-32-bits": ("int", b"\x80\x80\x80\x80\x20", b"\x02"),
    "more-than-64-bits": ("long", b"\x80" * 9 + b"\x02", b"\x02"),
    "boolean-of-two": ("boolean", b"\x02", b"\x01"),
    "short-double": ("double", bytes(7), bytes(8)),
    "into-the-next-record": ("string", b"\x06ab", b"\x06abc"),
    "negative-length": ("string", b"\x01", b"\x00"),
    "not-text": ("string", b"\x02\xff", b"\x02a"),
    "no-such-symbol": (COLOUR, b"\x04", b"\x02"),
    "no-such-branch": (["null", "int"], b"\x04", b"\x02\x02"),
    "negative-branch": (["null", "int"], b"\x01", b"\x00"),
    "no-end-of-items": (ITEMS, b"\x02\x02", b"\x02\x02\x00"),
    "no-second-item": (ITEMS, b"\x04\x02", b"\x00"),
    "too-many-digits": (MONEY, b"\x0a\x7f\xff\xff\xff\xff", b"\x02\x01"),
    "no-digits": (MONEY, b"\x00", b"\x02\x80"),
    "time-out-of-range": (_logical("long", "timestamp-millis"), b"\xfe" + b"\xff" * 8 + b"\x01", b"\x00"),
}


@pytest.mark.parametrize("schema, damaged, sound", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_value_leaves_the_others(schema: object, damaged: bytes, sound: bytes) -> None:
    serde = _serde(schema)
    _check(serde, [sound, damaged, sound, sound])
    reasons = _one_by_one(serde, [sound, damaged])[1]
    assert [reason is None for reason in reasons] == [True, False]
