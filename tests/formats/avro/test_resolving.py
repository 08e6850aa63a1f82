"""Avro's rules of resolution, rule by rule, on bytes that fastavro wrote."""

import json
import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.avro.compiling import compile_schemas
from formats.avro.resolving import check_resolvable, findings, losses_in, read, resolve, write
from formats.avro.schema import AvroSchema
from formats.encoding.varint import pack_varint
from formats.errors import EntryError, FormatError, InvalidEntryError, UnresolvableSchemasError
from migrate.engine.avro.function import generate_column
from tests.formats.avro.agreement import REJECTED, Paths
from tests.formats.avro.shapes import Json, becomes, enum, field, fixed, in_a, pair_of, record, written_by

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def decimal(precision: int, scale: int) -> Json:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def logical(of: str, name: str, **more: object) -> Json:
    return {"type": of, "logicalType": name, **more}


def _connect(scale: str) -> Json:
    named = "org.apache.kafka.connect.data.Decimal"
    return {"type": "bytes", "connect.name": named, "connect.parameters": {"scale": scale}}


@pytest.mark.parametrize(
    ("old", "value", "new", "expected"),
    [
        ("int", -70, "long", -70),
        ("int", 2**24 + 2, "float", 2.0**24 + 2),
        ("long", -(2**63), "double", -(2.0**63)),
        ("long", 2**53 + 2, "double", 2.0**53 + 2),
        ("float", 0.1, "double", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("string", "h\u00e4", "bytes", "h\u00e4".encode()),
        ("bytes", b"ok", "string", "ok"),
        ("bytes", b"\xff", "string", REJECTED),
        ({"type": "array", "items": "int"}, [1, 2], {"type": "array", "items": "double"}, [1.0, 2.0]),
        ({"type": "map", "values": "int"}, {"b": 1, "a": 2}, {"type": "map", "values": "long"}, {"b": 1, "a": 2}),
        (enum("A B C"), "B", enum("B A C"), "B"),
        (enum("A B C"), "C", enum("B A", default="A"), "A"),
        (enum("A B C"), "C", enum("B A"), REJECTED),
        ("int", 5, ["null", "long"], 5),
        (["null", "int"], 5, "long", 5),
        (["null", "int"], None, "long", REJECTED),
        (["null", "int", "string"], "x", ["null", "int"], REJECTED),
        (["null", "int", "string"], 3, ["string", "int", "null"], 3),
    ],
)
def test_a_value_is_resolved(old: Json, value: object, new: Json, expected: object) -> None:
    assert becomes(old, value, new) == expected
    inside = becomes(in_a(old), {"a": value}, in_a(new))
    assert inside == (REJECTED if expected == REJECTED else {"a": expected})


def test_a_record_gets_its_fields_by_alias_by_name_or_by_default() -> None:
    old = record(field("a", "int"), field("b", "string"), field("gone", "double"), field("c", "boolean"))
    new = record(
        field("extra", {"type": "array", "items": "int"}, default=[1, 2]),
        field("c", "boolean"),
        field("renamed", "string", aliases=["nothing", "b"]),
        field("a", "long", aliases=["before"]),
        field("note", ["null", "string"], default=None),
        field("octets", "bytes", default="\u00ff"),
    )
    value = {"a": 7, "b": "x", "gone": 1.5, "c": True}
    expected = {"extra": [1, 2], "c": True, "renamed": "x", "a": 7, "note": None, "octets": b"\xff"}
    assert becomes(old, value, new) == expected


def test_a_default_may_be_a_record_that_leaves_fields_to_their_own_defaults() -> None:
    inner = record(field("x", "int"), field("y", ["int", "string"], default="why"), name="Point")
    new = record(field("a", "int"), field("at", {"type": "map", "values": inner}, default={"k": {"x": 1}}))
    assert becomes(in_a("int"), {"a": 3}, new) == {"a": 3, "at": {"k": {"x": 1, "y": "why"}}}


def test_a_default_may_be_of_a_recursive_type() -> None:
    new = record(field("a", "int"), field("next", ["null", "Order"], default=None))
    assert becomes(in_a("int"), {"a": 3}, new) == {"a": 3, "next": None}


def test_a_named_type_is_found_by_its_short_name_or_an_alias() -> None:
    old = record(field("a", "int"), name="Old", namespace="one")
    assert becomes(old, {"a": 1}, record(field("a", "int"), name="Old", namespace="two")) == {"a": 1}
    assert becomes(old, {"a": 1}, record(field("a", "int"), name="New", aliases=["one.Old"])) == {"a": 1}
    with pytest.raises(UnresolvableSchemasError, match=r"Old: record one\.Old cannot be read as record New"):
        check_resolvable(*pair_of(old, record(field("a", "int"), name="New", aliases=["three.Old"])))


def test_a_branch_keeps_its_type_before_it_is_promoted_to_another() -> None:
    """By the specification's letter the int would become a long even where nothing has changed."""
    union = ["long", "int", "double"]
    for branch in range(3):
        data = bytes([2 * branch]) + (bytes(8) if branch == 2 else b"\x0a")
        assert Paths(*pair_of(union, union))(data) == data
        assert Paths(*pair_of(union, ["null", *union]))(data) == bytes([2 * branch + 2]) + data[1:]


def test_a_record_of_a_union_is_found_by_its_full_name_first() -> None:
    def of(space: str, kind: str) -> Json:
        return record(field("a", kind), name="Event", namespace=space)

    old = [of("x", "int"), of("y", "string")]
    new = [of("y", "string"), of("x", "int")]
    assert Paths(*pair_of(old, new))(b"\x02\x02a") == b"\x00\x02a"
    assert Paths(*pair_of(old, new))(b"\x00\x02") == b"\x02\x02"


def test_a_recursive_value_is_resolved_at_every_depth() -> None:
    old = record(field("a", "int"), field("next", ["null", "Node"]), name="Node")
    new = record(field("next", ["null", "Node"]), field("a", "double"), field("b", "int", default=1), name="Node")
    value: Json = None
    expected: Json = None
    for number in range(60):
        value = {"a": number, "next": value}
        expected = {"next": expected, "a": float(number), "b": 1}
    assert becomes(old, value, new) == expected
    for number in range(100):
        value = {"a": number, "next": value}
    assert becomes(old, value, new) == REJECTED


def test_floats_keep_every_bit() -> None:
    signalling = bytes.fromhex("0100807f")
    assert Paths(*pair_of(in_a("float"), record(field("b", "int", default=0), field("a", "float"))))(signalling) == (
        b"\0" + signalling
    )


EXACT = {"float": 24, "double": 53}


@pytest.mark.parametrize(("old", "new"), [("int", "float"), ("long", "float"), ("long", "double")])
@given(st.data())
def test_a_number_that_the_wider_type_cannot_hold_exactly_is_a_reject(old: str, new: str, data: st.DataObject) -> None:
    """Java's Avro rounds it, and nobody would see that it did."""
    bits = 31 if old == "int" else 63
    near = st.builds(lambda power, by: min(2**power + by, 2**bits - 1), st.integers(0, bits - 1), st.integers(-2, 2))
    value = data.draw(st.integers(-(2**bits), 2**bits - 1) | near | near.map(lambda number: -number))
    is_exact = abs(value) <= 2 ** EXACT[new] or abs(value) % 2 ** (abs(value).bit_length() - EXACT[new]) == 0
    paths, written = Paths(*pair_of(old, new)), struct.pack("<f" if new == "float" else "<d", value)
    assert paths(pack_varint(value)) == (written if is_exact else REJECTED)
    nested = {"type": "map", "values": ["null", {"type": "array", "items": old}]}
    inside = b"\x02\x02k\x02\x02" + pack_varint(value) + b"\0\0"
    found = Paths(*pair_of(nested, {"type": "map", "values": ["null", {"type": "array", "items": new}]}))(inside)
    assert found == (b"\x02\x02k\x02\x02" + written + b"\0\0" if is_exact else REJECTED)


def test_a_number_that_would_be_rounded_is_named_and_foreseen() -> None:
    pair = pair_of(in_a("long"), in_a("double"))
    assert findings(*pair).risks == ["Order.a: numbers that a double cannot hold exactly"]
    assert findings(*pair_of(in_a("int"), in_a("double"))).risks == []
    value = pack_varint(1152921504606847126)
    with pytest.raises(InvalidEntryError, match="a double cannot hold 1152921504606847126 exactly"):
        resolve(value, *pair)
    with pytest.raises(InvalidEntryError, match="a double cannot hold 1152921504606847126 exactly"):
        generate_column(compile_schemas(*pair))([value])


def test_a_map_keeps_its_order_and_a_key_that_it_holds_twice() -> None:
    schema = {"type": "map", "values": "int"}
    data = b"\x04\x02b\x02\x02b\x04\0"
    pair = pair_of(schema, {"type": "map", "values": ["null", "long"]})
    assert Paths(*pair)(data) == b"\x04\x02b\x02\x02\x02b\x02\x04\0"
    with pytest.raises(InvalidEntryError, match="the key 'b' twice"):
        read(data, *pair)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (in_a("long"), in_a("int"), "Order.a: long cannot be read as int"),
        (in_a(in_a("string") | {"name": "In"}), in_a(in_a("int") | {"name": "In"}), "Order.a.a: string cannot"),
        (in_a({"type": "array", "items": "long"}), in_a({"type": "array", "items": "int"}), "Order.a[]: long cannot"),
        (in_a({"type": "map", "values": "long"}), in_a({"type": "map", "values": "int"}), "Order.a{}: long cannot"),
        (in_a("int"), record(field("b", "int")), "Order.b: the old schema has no such field, and there is no default"),
        (in_a("int"), record(field("b", "int", default="x")), 'Order.b: the default "x" is not of the type int'),
        (in_a("int"), record(field("b", "int", default=2**31)), "Order.b: the default 2147483648"),
        (in_a("int"), record(field("b", "boolean", default=0)), "Order.b: the default 0"),
        (in_a("int"), in_a(["null", "string"]), "Order.a: int cannot be read as union of null, string"),
        (in_a(["null", "int"]), in_a(["null", "string"]), "Order.a: union of null, int cannot be read"),
        (in_a(["null", record(field("x", "long"), name="In")]), in_a(["null", record(field("x", "int"), name="In")]),
         "Order.a.x: long cannot be read as int"),
        (in_a(enum("A B")), in_a(enum("C")), "Order.a: no symbol of enum Suit is one of enum Suit"),
        (in_a(fixed(2)), in_a(fixed(3)), "Order.a: fixed F cannot be read as fixed F"),
        (in_a(MILLIS), in_a(MICROS), "Order.a: timestamp-millis cannot be read as timestamp-micros"),
        (in_a(decimal(9, 2)), in_a(decimal(9, 3)), "Order.a: decimal(9, 2) cannot be read as decimal(9, 3)"),
        (in_a(decimal(9, 2)), in_a(decimal(8, 2)), "Order.a: decimal(9, 2) cannot be read as decimal(8, 2)"),
        (in_a(decimal(64, 127)), in_a(decimal(64, 10)), "Order.a: decimal(64, 127) cannot be read as decimal(64, 10)"),
        (in_a(["null", decimal(64, 10)]), in_a(["null", decimal(64, 127)]), "Order.a: decimal(64, 10) cannot be read"),
        (in_a(logical("bytes", "decimal", scale=2)), in_a(decimal(9, 4)), "Order.a: decimal(?, 2) cannot be read as"),
        (in_a(logical("bytes", "decimal", scale=-2)), in_a(logical("bytes", "decimal", scale=-3)), "Order.a: decimal("),
        (in_a(decimal(9, 2)), in_a(logical("bytes", "decimal", precision=9)), "Order.a: decimal(9, 2) cannot be read"),
        (in_a({"type": "array", "items": _connect("2")}), in_a({"type": "array", "items": _connect("4")}),
         "Order.a[]: decimal(?, 2) cannot be read as decimal(?, 4)"),
        (in_a(_connect("2")), in_a(decimal(9, 4)), "Order.a: decimal(?, 2) cannot be read as decimal(9, 4)"),
        (in_a(decimal(9, 2) | _connect("2")), in_a(decimal(9, 2) | _connect("4")),
         "Order.a: decimal(9, 2) cannot be read as decimal(9, 2, for Connect 4)"),
        (record(field("a", "bytes", logicalType="decimal", scale=2)), in_a(decimal(9, 4)), "Order.a: decimal(?, 2)"),
        (in_a({"type": ["null", "bytes"], "logicalType": "decimal", "scale": 2}), in_a(decimal(9, 4)),
         "Order.a: decimal(?, 2)"),
        (in_a(logical("int", "timestamp-millis")), in_a(MICROS), "Order.a: timestamp-millis cannot be read as"),
        (in_a(fixed(11) | {"logicalType": "duration"}), in_a(fixed(11) | {"logicalType": "uuid"}), "Order.a: duration"),
    ],
)  # fmt: skip
def test_what_can_never_be_read_is_refused_with_the_path(old: Json, new: Json, problem: str) -> None:
    writer, reader = pair_of(old, new)
    with pytest.raises(UnresolvableSchemasError) as raised:
        check_resolvable(writer, reader)
    assert str(raised.value).startswith(problem)
    assert isinstance(raised.value, FormatError)
    assert pickle.loads(pickle.dumps(raised.value)).problems == raised.value.problems
    with pytest.raises(UnresolvableSchemasError):
        Paths(writer, reader)
    with pytest.raises(UnresolvableSchemasError):
        resolve(b"", writer, reader)


def test_every_problem_is_named_at_once() -> None:
    old = record(field("a", "long"), field("b", "string"))
    new = record(field("a", "int"), field("b", "int"), field("c", "int"))
    with pytest.raises(UnresolvableSchemasError) as raised:
        check_resolvable(*pair_of(old, new))
    assert [problem.partition(":")[0] for problem in raised.value.problems] == ["Order.a", "Order.b", "Order.c"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (decimal(9, 2), decimal(12, 2)),
        (decimal(64, 127), decimal(64, 127)),
        (decimal(64, 127), "bytes"),
        (_connect("2"), decimal(9, 2)),
        (decimal(9, 2), decimal(9, 2) | _connect("2")),
        (decimal(9, 2), logical("bytes", "decimal", scale=2)),
        (logical("bytes", "of-our-own", scale=2), logical("bytes", "of-another", scale=3)),
        ("long", MILLIS),
        (MILLIS, "long"),
    ],
)
def test_a_logical_type_may_come_go_and_get_more_digits(old: Json, new: Json) -> None:
    data = b"\x0e" if MILLIS in (old, new) else b"\x02\x07"
    assert Paths(*pair_of(old, new))(data) == data


def test_what_only_some_values_meet_is_a_risk() -> None:
    old = record(field("a", ["null", "int", "string"]), field("b", enum("A B")))
    new = record(field("a", ["null", "int"]), field("b", enum("A")))
    assert findings(*pair_of(old, new)).risks == [
        "Order.a: a value of string has no place in the new schema",
        "Order.b: the symbol B has no place in the new schema",
    ]
    check_resolvable(*pair_of(old, new))


def test_what_is_left_out_is_named_and_found_where_a_value_holds_something() -> None:
    note = field("note", ["null", "string"])
    line = record(field("sku", "string"), note, field("tags", {"type": "array", "items": "int"}), name="Line")
    old = record(
        field("name", "string"), field("no", "null"), field("flag", "boolean"), field("suit", enum("A B C D")),
        field("lines", {"type": "array", "items": ["null", line]}), field("by", {"type": "map", "values": "Line"}),
        field("next", ["null", "Order"]),
    )  # fmt: skip
    new_line = record(field("sku", "string"), name="Line")
    new = record(
        field("full", "string", default=""), field("suit", ["null", enum("A B", default="A")]),
        field("lines", {"type": "array", "items": ["null", new_line]}),
        field("by", {"type": "map", "values": "Line"}), field("next", ["null", "Order"]),
    )  # fmt: skip
    pair = pair_of(old, new)
    name, flag, c, d, note_text, tags = (
        "the field Order.name is left out",
        "the field Order.flag is left out",
        "the symbol C of Order.suit becomes A",
        "the symbol D of Order.suit becomes A",
        "the field Order.lines[].note is left out",
        "the field Order.lines[].tags is left out",
    )
    assert {*findings(*pair).losses} == {name, flag, c, d, note_text, tags}
    assert findings(pair[0], pair[0]).losses == findings(*pair_of("long", "double")).losses == ()
    empty: Json = {"sku": "x", "note": None, "tags": []}
    value = {"name": "", "no": None, "flag": False, "suit": "B", "lines": [None, empty], "by": {"k": empty}}
    value |= {"next": None}

    def found(**changed: object) -> set[str]:
        return set(losses_in(written_by(old, value | changed), *pair)) - {flag}

    assert found() == set()
    assert found(name="x", suit="C") == {name, c}
    assert found(lines=[None, empty, empty | {"note": "n"}]) == {note_text}
    assert found(by={"k": empty | {"tags": [1]}}) == {tags}
    assert found(next=value | {"suit": "D", "next": value | {"name": "x"}}) == {d, name}


def test_a_function_sees_plain_values() -> None:
    schema = record(
        field("when", MILLIS), field("price", decimal(9, 2)), field("note", ["null", "string"]),
        field("suit", enum("A B")), field("lines", {"type": "array", "items": ["int", "long", "double"]}),
    )  # fmt: skip
    data = written_by(schema, {"when": 5, "price": b"\x01", "note": "n", "suit": "B", "lines": []})
    data = data[:-1] + b"\x08\x00\x02\x02\x04\x02\xfe\xff\xff\xff\xff\x3f\x04\0\0\0\0\0\0\xf8\x3f\0"
    pair = pair_of(schema, schema)
    found = read(data, *pair)
    lines = [1, ("long", 2), 2**40 - 1, 1.5]
    assert found == {"when": 5, "price": b"\x01", "note": "n", "suit": "B", "lines": lines}
    assert write(found, pair[0]) == data


@pytest.mark.parametrize(
    ("of", "value", "reason"),
    [
        ("int", "x", "Order.a: 'x' is not of the type int"),
        ("int", True, "Order.a: True is not of the type int"),
        ("int", 2**31, "Order.a: 2147483648 is not of the type int"),
        ("float", 1e300, "Order.a: 1e+300 is not of the type float"),
        ("float", 2**24 + 1, "Order.a: a float cannot hold 16777217 exactly"),
        ("double", 2**53 + 1, "Order.a: a double cannot hold 9007199254740993 exactly"),
        ("string", "\ud800", "is not of the type string"),
        ("bytes", "x", "is not of the type bytes"),
        (enum("A"), "B", "Order.a: 'B' is not of the type enum Suit"),
        (["null", "int"], "x", "Order.a: 'x' is not of the type union of null, int"),
        (["null", "int"], ("string", "x"), "Order.a: the union has no branch 'string'"),
        ({"type": "array", "items": "int"}, [1, "x"], "Order.a[1]: 'x' is not of the type int"),
        ({"type": "map", "values": "int"}, {"k": None}, "Order.a.k: None is not of the type int"),
        ({"type": "fixed", "name": "F", "size": 2}, b"x", "is not of the type fixed F"),
    ],
)
def test_an_object_of_another_type_is_not_written(of: Json, value: object, reason: str) -> None:
    with pytest.raises(EntryError) as raised:
        write({"a": value}, AvroSchema(json.dumps(in_a(of))))
    assert reason in str(raised.value)


def test_a_record_is_written_whole_and_with_nothing_else() -> None:
    schema = AvroSchema(json.dumps(in_a("int")))
    with pytest.raises(InvalidEntryError, match=r"Order\.a is missing"):
        write({}, schema)
    with pytest.raises(InvalidEntryError, match="has no field 'b'"):
        write({"a": 1, "b": 2}, schema)


def test_an_object_of_many_unions_within_one_another_is_judged_in_no_time() -> None:
    """Each value fits the first branch until its last field is seen: 2 to the 90th tries, if each level tried again."""
    inner = record(field("next", ["null", "A", "B"]), field("x", "string"), name="B")
    schema = record(field("next", ["null", "A", inner]), field("x", "int"), name="A")
    data = b"\x04" * 90 + b"\0" + b"\x02x" * 90 + b"\x02"
    pair = pair_of(schema, schema)
    assert write(read(data, *pair), pair[0]) == data
