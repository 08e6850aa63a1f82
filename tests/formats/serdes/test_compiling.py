"""Payloads as byte operations: the same as decode and encode, also in what is refused."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.avro.schema import AvroSchema
from formats.conversion import compile_serdes
from formats.errors import EntryError
from formats.program import Operation, run_operations
from formats.serde import BYTES, Serde
from formats.serdes.avro_frame import Frame, SchemaId
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.conversions import resolving
from formats.serdes.json_text import JsonSerde
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import StringSerde, UuidSerde
from tests.formats.serdes.schemas import GUID, NEW, OLD, OTHER, record

V1 = record(("a", "string"), ("n", "int"), ("tags", {"type": "map", "values": "int"}), ("maybe", ["null", "string"]))
V2 = record(("n", "int"), ("maybe", ["null", "string"], None))
V3 = record(("n", "double"), ("maybe", ["null", "string"]), ("tags", {"type": "map", "values": "long"}, {}))
ENDIANS = ("big", "little")
NUMBERS = [
    (NumberSerde(name, source), NumberSerde(name, target))  # type: ignore[arg-type]
    for name in ("int32", "int64", "double")
    for source in ENDIANS
    for target in ENDIANS
]


def _compiled(source: Serde, target: Serde) -> tuple[Operation, ...]:
    operations = compile_serdes(source, target)
    assert operations is not None
    return operations


def _by_reference(source: Serde, target: Serde, payload: bytes) -> bytes | None:
    try:
        return target.encode(resolving(source, target).decode(payload))
    except EntryError:
        return None


def _by_program(operations: tuple[Operation, ...], payload: bytes) -> bytes | None:
    try:
        return run_operations(operations, payload)
    except EntryError:
        return None


@pytest.mark.parametrize(("source", "target"), NUMBERS, ids=str)
@given(payload=st.binary(max_size=10) | st.binary(min_size=8, max_size=8) | st.binary(min_size=4, max_size=4))
def test_numbers_change_their_byte_order(source: Serde, target: Serde, payload: bytes) -> None:
    operations = _compiled(source, target)
    assert _by_program(operations, payload) == _by_reference(source, target, payload)


def test_a_number_reads_as_what_is_done() -> None:
    operations = _compiled(NumberSerde("int64", "little"), NumberSerde("int64"))
    assert ", ".join(map(str, operations)) == "reverse 8"
    assert run_operations(operations, bytes.fromhex("0100000000000000")).hex() == "0000000000000001"


OBJECTS = {
    V1: st.fixed_dictionaries(
        {
            "a": st.text(st.characters(codec="utf-8"), max_size=4),
            "n": st.integers(-(1 << 31), (1 << 31) - 1),
            "tags": st.dictionaries(st.text("ab", max_size=2), st.integers(-300, 300), max_size=3),
            "maybe": st.none() | st.text("xyz", max_size=3),
        }
    ),
    V2: st.fixed_dictionaries({"n": st.integers(-300, 300), "maybe": st.none() | st.text("xyz", max_size=3)}),
}


def _source(frame: Frame) -> AvroSerde:
    return AvroSerde(((None, V1),), frame) if frame == "none" else AvroSerde(((1, V1), (4, V2)), frame)


def _target(frame: Frame) -> AvroSerde:
    return AvroSerde(((7 if frame == "confluent" else None, V3),), frame)


@pytest.mark.parametrize("source", ["none", "confluent"])
@pytest.mark.parametrize("target", ["none", "confluent"])
@given(data=st.data())
def test_avro_changes_its_schema_and_its_frame(source: Frame, target: Frame, data: st.DataObject) -> None:
    old, new = _source(source), _target(target)
    operations = _compiled(old, new)
    schema_id, schema = data.draw(st.sampled_from(old.schemas))
    payload = AvroSerde(((schema_id, schema),), source).encode(data.draw(OBJECTS[schema]))
    expected = _by_reference(old, new, payload)
    assert expected is not None
    assert _by_program(operations, payload) == expected
    damaged = _damaged(payload, data)
    assert _by_program(operations, damaged) == _by_reference(old, new, damaged)


def _damaged(payload: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(payload)))
    kind = data.draw(st.sampled_from(["cut", "more", "other"]))
    if kind == "cut":
        return payload[:at]
    byte = bytes([data.draw(st.integers(0, 255))])
    return payload[:at] + byte + payload[at + (kind == "other") :]


@given(payload=st.binary(max_size=24))
def test_any_bytes_fare_alike(payload: bytes) -> None:
    old, new = _source("confluent"), _target("confluent")
    operations = _compiled(old, new)
    for framed in (payload, b"\0\0\0\0\1" + payload, b"\0\0\0\0\4" + payload):
        assert _by_program(operations, framed) == _by_reference(old, new, framed)


def test_operations_are_data() -> None:
    operations = _compiled(_source("confluent"), _target("confluent"))
    assert pickle.loads(pickle.dumps(operations)) == operations
    shown = ", ".join(map(str, operations))
    assert "choose (0000000001: insert 0000000007, avro (" in shown
    assert "0000000004: insert 0000000007, avro (" in shown


def _avro(frame: Frame, *schemas: tuple[SchemaId, AvroSchema]) -> AvroSerde:
    return AvroSerde(schemas, frame)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (StringSerde(), StringSerde()),
        (UuidSerde(), UuidSerde()),
        (JsonSerde(), JsonSerde()),
        (NumberSerde("int32"), NumberSerde("int64")),
        (BYTES, StringSerde()),
        (StringSerde(), BYTES),
        (_avro("header", (GUID, OLD)), _avro("confluent", (1, NEW))),
        (_avro("confluent", (1, OLD)), _avro("header", (GUID, NEW))),
        (_avro("confluent", (1, OLD), (2, OTHER)), _avro("confluent", (3, NEW))),
        (JsonSerde(), _avro("none", (None, NEW))),
    ],
)
def test_what_must_be_looked_at_has_no_operations(source: Serde, target: Serde) -> None:
    assert compile_serdes(source, target) is None


def test_bytes_are_copied() -> None:
    assert run_operations(_compiled(BYTES, BYTES), b"anything") == b"anything"
