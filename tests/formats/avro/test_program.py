"""Avro programs: as data, run by the interpreter and by generated code, on good bytes and on damaged ones."""

import json
import pickle
import time
from typing import Any

import pytest

from formats.avro.compiling import compile_schemas
from formats.avro.operations import MAX_EMPTY, Choice, Emit, Keep, Refuse
from formats.avro.program import AvroProgram, run_avro
from formats.avro.schema import AvroSchema
from formats.encoding.varint import pack_varint
from formats.errors import EntryError, InvalidEntryError, TruncatedEntryError
from migrate.engine.avro.function import generate_column
from tests.formats.avro.agreement import REJECTED, Paths

Json = Any

ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [{"name": "street", "type": "string"}, {"name": "zip", "type": "int"}],
}
CUSTOMER: list[Json] = [
    {"name": "name", "type": "string"},
    {"name": "visits", "type": "int"},
    {"name": "score", "type": ["null", "double"]},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "address", "type": ADDRESS},
    {"name": "vip", "type": "boolean"},
]
VALUE = bytes.fromhex("066162630e02000000000000f83f0404c3a402780008726f6164c0843d01")
"""abc, 7, 1.5, [ae, x], (road, 500000), true."""


def _schema(of: Json) -> AvroSchema:
    return AvroSchema(json.dumps(of))


def _customer(*fields: Json) -> AvroSchema:
    return _schema({"type": "record", "name": "Customer", "fields": list(fields)})


OLD = _customer(*CUSTOMER)
TIER: Json = {"name": "tier", "type": "string", "default": "basic"}
APPENDED = _customer(*CUSTOMER, TIER)
CHANGED = _customer(
    TIER, CUSTOMER[4], {"name": "score", "type": ["double", "null"]}, {"name": "visits", "type": "float"}
)


def test_a_program_is_data() -> None:
    program = compile_schemas(OLD, APPENDED)
    assert pickle.loads(pickle.dumps(program)) == program
    assert hash(program) == hash(compile_schemas(OLD, APPENDED))
    assert str(program) == (
        "string, int, choice (emit 00 | emit 02, double), each (string), string, int, boolean, emit 0a6261736963"
    )
    assert program != compile_schemas(OLD, CHANGED)


def test_a_changed_order_is_printed_with_its_parts() -> None:
    assert str(compile_schemas(OLD, CHANGED)) == (
        "arrange (0: string; 1: int as float; 2: choice (emit 02 | emit 00, double); 3: each (string); 4: string, int; "
        "5: boolean; 6: emit 0a6261736963) as (6, 4, 2, 1)"
    )


def test_a_value_is_converted_to_these_bytes() -> None:
    assert Paths(OLD, APPENDED)(VALUE) == VALUE + b"\x0abasic"
    changed = "0a626173696308726f6164c0843d00000000000000f83f0000e040"
    assert Paths(OLD, CHANGED)(VALUE) == bytes.fromhex(changed)


@pytest.mark.parametrize("new", [OLD, APPENDED, CHANGED], ids=["same", "appended", "changed"])
def test_every_cut_and_every_flipped_bit_is_judged_alike(new: AvroSchema) -> None:
    paths = Paths(OLD, new)
    assert [paths(VALUE[:size]) for size in range(len(VALUE))] == [REJECTED] * len(VALUE)
    assert paths(VALUE + b"\0") == REJECTED
    for at in range(len(VALUE)):
        for bit in range(8):
            paths(VALUE[:at] + bytes([VALUE[at] ^ 1 << bit]) + VALUE[at + 1 :])


STRINGS = {"type": "array", "items": "string"}


@pytest.mark.parametrize(
    ("of", "data", "reason"),
    [
        ("boolean", "02", "damaged at byte 0: a boolean that is neither 0 nor 1"),
        ("int", "8000", "a number in more bytes than it needs"),
        ("int", "8080808010", "a number too large for an int"),
        ("long", "80808080808080808002", "a number too large"),
        ("long", "8080808080808080808001", "a number of more than 10 bytes"),
        ("string", "01", "damaged at byte 0: a negative length"),
        ("bytes", "02", "has 1 bytes, the layout needs at least 2"),
        ("string", "02ff", "damaged at byte 1: a string that is not UTF-8"),
        ("string", "06eda080", "a string that is not UTF-8"),
        (["null", "int"], "04", "there is no branch or symbol with the number 2"),
        (["null", "int"], "01", "there is no branch or symbol with the number -1"),
        (STRINGS, "0202610002", "ends at byte 4, but 1 bytes follow"),
        (STRINGS, "016a026100", "damaged at byte 0: a block whose size is wrong"),
        (STRINGS, "0102020000", "a block that is not as long as it says"),
        (STRINGS, "feffffff0f", "the layout needs at least"),
        ({"type": "array", "items": "null"}, "828008", f"more than {MAX_EMPTY} items"),
        ("double", "00000000000000", "has 7 bytes, the layout needs at least 8"),
        ("int", "", "has 0 bytes, the layout needs at least 1"),
        ("null", "00", "ends at byte 0, but 1 bytes follow"),
    ],
)
def test_damaged_bytes_are_rejected_with_the_place(of: Json, data: str, reason: str) -> None:
    schema, bare = _schema(of), _customer({"name": "a", "type": of})
    wrapped = _customer({"name": "b", "type": "float", "default": 1}, {"name": "a", "type": of})
    for paths in (Paths(schema, schema), Paths(bare, bare), Paths(bare, wrapped)):
        assert paths(bytes.fromhex(data)) == REJECTED
        with pytest.raises(EntryError) as raised:
            generate_column(paths.program)([bytes.fromhex(data)])
        assert reason in str(raised.value)


NULLS = {"type": "array", "items": "null"}
EMPTY_RECORD = {"type": "record", "name": "E", "fields": []}
EMPTY_FIXED = {"type": "fixed", "name": "E", "size": 0}


@pytest.mark.parametrize("items", ["null", EMPTY_RECORD, EMPTY_FIXED], ids=["null", "record", "fixed"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_items_that_take_no_bytes_are_bounded_in_the_whole_value(is_nested: bool, items: Json) -> None:
    """30 KB that claim 655 million items would else take minutes, or gigabytes."""
    old: Json = {"type": "array", "items": items}
    changed: Json = {"type": "array", "items": [items, "string"]}
    block = pack_varint(MAX_EMPTY)
    data = block * 10_000 + b"\0"
    if is_nested:
        old, changed = {"type": "array", "items": old}, {"type": "array", "items": changed}
        data = pack_varint(7_500) + (block + b"\0") * 7_500 + b"\0"
    for paths in (Paths(_schema(old), _schema(old)), Paths(_schema(old), _schema(changed))):
        started = time.process_time()
        assert paths(data) == REJECTED
        assert time.process_time() - started < 60
        with pytest.raises(InvalidEntryError, match=f"more than {MAX_EMPTY} items that take no bytes"):
            generate_column(paths.program)([data])


@pytest.mark.parametrize("arrays", [1, 3, 100])
@pytest.mark.parametrize("beyond", [0, 1])
def test_every_path_has_the_same_bound_of_items_without_bytes(arrays: int, beyond: int) -> None:
    counts = [MAX_EMPTY // arrays] * arrays
    counts[-1] += MAX_EMPTY - sum(counts) + beyond
    data = pack_varint(arrays) + b"".join(pack_varint(count) + b"\0" for count in counts) + b"\0"
    schema = _schema({"type": "array", "items": NULLS})
    assert Paths(schema, schema)(data) == (REJECTED if beyond else data)


def test_a_value_that_ends_early_is_told_from_a_damaged_one() -> None:
    program = compile_schemas(OLD, OLD)
    with pytest.raises(TruncatedEntryError):
        run_avro(program, VALUE[:-1])
    with pytest.raises(InvalidEntryError):
        run_avro(program, VALUE[:-1] + b"\2")


@pytest.mark.parametrize("items", ["string", "double", "null", ["null", "string"]])
def test_blocks_become_one(items: Json) -> None:
    item = {"string": "0261", "double": "000000000000f83f", "null": ""}.get(str(items), "020261")
    size = f"{len(item):02x}"
    data = bytes.fromhex(f"02{item}01{size}{item}04{item}{item}00")
    schema = _schema({"type": "array", "items": items})
    assert Paths(schema, schema)(data) == bytes.fromhex(f"08{item * 4}00")


@pytest.mark.parametrize(("count", "first"), [(1, b"\x02"), (64, b"\x80\x01"), (9000, b"\xd0\x8c\x01")])
def test_a_collection_of_any_size_is_read(count: int, first: bytes) -> None:
    old, new = (_schema({"type": "map", "values": kind}) for kind in ("int", "double"))
    assert Paths(old, old)(first + b"\x02a\x02" * count + b"\0") == first + b"\x02a\x02" * count + b"\0"
    assert Paths(old, new)(first + b"\x02a\x02" * count + b"\0") == first + (
        b"\x02a\0\0\0\0\0\0\xf0\x3f" * count + b"\0"
    )


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 2_000_000])
def test_a_string_of_any_length_is_read(size: int) -> None:
    for letter in (b"a", "\u00e9".encode()):
        data = pack_varint(size * len(letter)) + letter * size
        assert Paths(_schema("string"), _schema(["null", "string"]))(data) == b"\2" + data


@pytest.mark.parametrize(
    "value", [0, -1, 63, 64, -8192, 2**20, 2**27, -(2**31), 2**31 - 1, 2**34, 2**41, 2**62, -(2**63)]
)
def test_a_number_of_any_size_is_read(value: int) -> None:
    data = pack_varint(value)
    fits = -(2**31) <= value < 2**31
    assert Paths(_schema("long"), _schema("long"))(data) == data
    assert Paths(_schema("int"), _schema("long"))(data) == (data if fits else REJECTED)
    Paths(_schema("int"), _schema("double"))(data)
    Paths(_schema("long"), _schema("float"))(data)


def test_a_large_enum_and_a_large_union_are_read() -> None:
    symbols = [f"S{number}" for number in range(3000)]
    old = _schema({"type": "enum", "name": "E", "symbols": symbols})
    new = _schema({"type": "enum", "name": "E", "symbols": symbols[:0:-1]})
    data = b"\xae\x2e"  # 2967
    assert Paths(old, old)(data) == data
    assert Paths(old, new)(data) == b"\x40"  # 32
    assert Paths(old, new)(b"\0") == REJECTED
    records = [{"type": "record", "name": name, "fields": [{"name": "a", "type": "int"}]} for name in symbols[:300]]
    assert Paths(_schema(records), _schema(["null", *records]))(b"\xd2\x01\x07") == b"\xd4\x01\x07"


def test_what_is_nested_deeper_than_python_allows_blocks_is_read() -> None:
    old: Json = "int"
    new: Json = "double"
    data, expected = b"\x0e", bytes.fromhex("0000000000001c40")
    for _ in range(30):
        old, new = {"type": "array", "items": ["null", old]}, {"type": "array", "items": ["null", new]}
        data, expected = b"\x04\x02" + data + b"\0\0", b"\x04\x02" + expected + b"\0\0"
    assert Paths(_schema(old), _schema(new))(data) == expected
    assert Paths(_schema(old), _schema(old))(data) == data


def test_a_record_that_occurs_often_is_written_down_once() -> None:
    fields = [{"name": f"f{number}", "type": "int"} for number in range(30)]
    new_fields = [{**field, "type": "long"} for field in fields[:-1]]

    def tower(fields: list[Json]) -> Json:
        below: Json = {"type": "record", "name": "T0", "fields": fields}
        for level in range(1, 20):
            name = f"T{level - 1}"
            pair = [{"name": "a", "type": below}, {"name": "b", "type": name}]
            below = {"type": "record", "name": f"T{level}", "fields": pair}
        return below

    program = compile_schemas(_schema(tower(fields)), _schema(tower(new_fields)))
    assert len(str(program)) < 20_000
    assert len(program.named) == 19


def test_a_column_is_converted_in_its_order_and_stops_at_the_first_reject() -> None:
    column = generate_column(compile_schemas(OLD, APPENDED))
    other = b"\x02z" + VALUE[4:]
    assert column([VALUE, other, VALUE]) == [one + b"\x0abasic" for one in (VALUE, other, VALUE)]
    assert column([]) == []
    with pytest.raises(TruncatedEntryError):
        column([VALUE, VALUE[:-1], VALUE])


def test_the_bytes_of_a_schema_are_never_code() -> None:
    evil = '\'; raise SystemExit #\n"""{0}'
    new = _customer(*CUSTOMER, {**TIER, "default": evil})
    assert Paths(OLD, new)(VALUE) == VALUE + bytes([2 * len(evil)]) + evil.encode()
    program = AvroProgram((Choice(((Refuse(evil),), (Emit(evil.encode()), Keep("int")))),))
    assert generate_column(program)([b"\2\2"]) == [evil.encode() + b"\2"]
    with pytest.raises(InvalidEntryError):
        generate_column(program)([b"\0"])
