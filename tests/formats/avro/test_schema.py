"""Schemas: what is one, what is none, and why."""

import json
import pickle
import struct

import pytest

from formats.avro.compiling import compile_schemas
from formats.avro.program import run_avro
from formats.avro.resolving import read, resolve, write
from formats.avro.schema import AvroSchema, names_java_refuses, types_of
from formats.avro.types import Fixed, Logical, Named, Primitive, Record
from formats.errors import FormatError, SchemaError, UnresolvableSchemasError


def _record(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "the schema is not JSON"),
        ("5", "schema: 5 is not a type"),
        ('"strin"', "schema: unknown type 'strin'"),
        ('{"name": "a"}', 'schema: a type without a "type"'),
        ('{"type": "array"}', 'schema: "items" is missing'),
        ("[]", "a union without branches"),
        ('["int", "int"]', "a union with int twice"),
        ('[{"type": "array", "items": "int"}, {"type": "array", "items": "long"}]', "a union with array twice"),
        ('["null", ["int"]]', "a union directly within a union"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "the enum E has a symbol twice"),
        ('{"type": "enum", "name": "E", "symbols": []}', "the enum E has no symbols"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', 'the default "B" is not a symbol of E'),
        ('{"type": "fixed", "name": "F", "size": -1}', "-1 is not the size of a fixed"),
        ('{"type": "fixed", "name": "", "size": 1}', '"" is not a name'),
        ('{"type": "record", "name": "R", "fields": [{"name": 3, "type": "int"}]}', "R: a field: 3 is not a name"),
        ('{"type": "record", "name": "R"}', 'R: "fields" is missing'),
        (_record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "Order: two fields with the name a"),
        (_record({"name": "a", "type": {"type": "array", "items": "Nothing"}}), "Order.a[]: unknown type 'Nothing'"),
        (_record({"name": "a", "type": {"type": "fixed", "name": "Order", "size": 2}}), "shop.Order is defined twice"),
        ('{"type": /* a comment "int"}', "the schema is not JSON"),
        ('{"type": // "int"}', "the schema is not JSON"),
        ("/* one\n two */ nothing", "line 2 column 9"),
        ("[" * 10_000 + "]" * 10_000, "nested more than 64 deep"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_place(text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as raised:
        AvroSchema(text)
    assert reason in str(raised.value)
    assert isinstance(raised.value, FormatError)


def test_a_schema_is_a_value() -> None:
    schema = AvroSchema(_record({"name": "a", "type": "int"}))
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert len({schema, AvroSchema(schema.text)}) == 1
    assert str(schema) == "shop.Order"


def test_names_are_completed_by_the_namespace_around_them() -> None:
    inner = {"type": "record", "name": "other.Line", "aliases": ["Row"], "fields": [{"name": "up", "type": "Line"}]}
    types = types_of(AvroSchema(_record({"name": "line", "type": inner}, {"name": "next", "type": ["null", "Order"]})))
    line = types.named["other.Line"]
    assert isinstance(line, Record)
    assert line.aliases == ("other.Row",)
    assert line.fields[0].type == Named("other.Line")
    assert types.recursive() == {"shop.Order", "other.Line"}


def test_a_logical_type_is_what_a_schema_says_even_where_readers_ignore_it() -> None:
    def logical(kind: str, name: str, **more: object) -> Logical | None:
        types = types_of(AvroSchema(json.dumps({"type": kind, "name": "F", "logicalType": name, **more})))
        root = types.definition(types.root)
        assert isinstance(root, Primitive | Fixed)
        return root.logical

    assert logical("long", "timestamp-millis") == Logical("timestamp-millis")
    assert logical("bytes", "decimal", precision=4, scale=2) == Logical("decimal", 4, 2)
    assert str(logical("fixed", "decimal", precision=4, size=3)) == "decimal(4, 0)"
    assert logical("int", "timestamp-millis") == Logical("timestamp-millis")
    assert logical("bytes", "decimal", precision=2, scale=4) == Logical("decimal", 2, 4)
    assert str(logical("bytes", "decimal", scale=-2)) == "decimal(?, -2)"
    assert logical("fixed", "duration", size=11) == Logical("duration")
    assert logical("string", "of-our-own") is None


def test_what_other_writers_of_schemas_add_is_passed_over() -> None:
    java = {"type": "string", "avro.java.string": "String"}
    types = types_of(AvroSchema(_record({"name": "a", "type": {"type": java}, "doc": "a", "order": "ignore"})))
    order = types.named["shop.Order"]
    assert isinstance(order, Record)
    assert order.fields[0].type == Primitive("string")


COMMENTED = """// who made it
/* an "Order" */ {"type": "record", "name": "Order", // not "Line"
  "doc": "see http://example.com/* and \\"//\\"",
  "fields": [{"name": "a", "type": /**/ "int"}/* , {"name": "b", "type": "int"} */] }"""


def test_a_schema_may_hold_comments() -> None:
    order = types_of(AvroSchema(COMMENTED)).named["Order"]
    assert isinstance(order, Record)
    assert [field.name for field in order.fields] == ["a"]


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "+Infinity", "1.5", " -2e3 ", ".5"])
def test_a_number_that_json_lacks_is_a_string(kind: str, text: str) -> None:
    schema = AvroSchema(_record({"name": "a", "type": kind, "default": text}))
    value = struct.pack("<f" if kind == "float" else "<d", float(text))
    assert resolve(b"", AvroSchema(_record()), schema) == value


@pytest.mark.parametrize("text", ["nan", "-NaN", "inf", "1_0", "0x1p3", "1e", ""])
@pytest.mark.parametrize("of", ["double", ["double", "null"], {"type": "array", "items": "double"}])
def test_no_other_string_is_a_number(text: str, of: object) -> None:
    schema = AvroSchema(_record({"name": "a", "type": of, "default": [text] if isinstance(of, dict) else text}))
    with pytest.raises(UnresolvableSchemasError, match="is not of the type"):
        resolve(b"", AvroSchema(_record()), schema)


def test_a_number_within_a_default_is_never_a_string() -> None:
    schema = AvroSchema(_record({"name": "a", "type": ["double", "null"], "default": "NaN"}))
    with pytest.raises(UnresolvableSchemasError, match='"NaN" is not of the type'):
        resolve(b"", AvroSchema(_record()), schema)


ODD_NAMES = ("order-id", "3hsp", "$ref", "a b", "x\u00b2")


@pytest.mark.parametrize("name", [*ODD_NAMES, "a.b"])
def test_names_are_not_checked_for_no_byte_depends_on_them(name: str) -> None:
    def schema(field: str, of: str, *aliases: str) -> AvroSchema:
        kind = {"type": "enum", "name": f"of {name}", "symbols": [name, "plain"], "aliases": [f"old {name}"]}
        fields = [{"name": field, "type": of, "aliases": aliases}, {"name": "kind", "type": kind}]
        space = f"{name}.shop"
        return AvroSchema(json.dumps({"type": "record", "name": name, "namespace": space, "fields": fields}))

    old, renamed = schema(name, "int"), schema("number", "long", name)
    assert resolve(b"\x0a\0", old, renamed) == b"\x0a\0"
    assert resolve(b"\x0a\2", old, schema(name, "double")) == struct.pack("<d", 5) + b"\2"
    assert read(b"\x0a\0", old, old) == {name: 5, "kind": name}
    assert write({name: 5, "kind": name}, old) == b"\x0a\0"


def test_the_names_that_java_refuses_are_found() -> None:
    def found(**more: object) -> tuple[str, ...]:
        field = {"name": "a", "type": "int", "aliases": ["a-b"]}
        return names_java_refuses(AvroSchema(json.dumps({"type": "record", "name": "R", "fields": [field], **more})))

    assert found(namespace="shop.gr\u00f6\u00dfe._1", aliases=["x-y.Old"]) == ()
    assert found(namespace="shop.3", name="R-S", aliases=["x.O-ld"]) == ("3", "R-S", "O-ld")
    assert found(fields=[{"name": name, "type": "int"} for name in (*ODD_NAMES, "a.b")]) == (*ODD_NAMES, "a.b")
    enum = {"type": "enum", "name": "E", "symbols": ["A-B", "C"]}
    assert found(fields=[{"name": "e", "type": enum}]) == ("A-B",)


def test_names_that_look_like_a_pair_of_names_are_kept_apart() -> None:
    def record(name: str, of: str, *aliases: str) -> object:
        fields = [{"name": "n", "type": of}, {"name": "next", "type": ["null", name]}]
        return {"type": "record", "namespace": "", "name": name, "fields": fields, "aliases": aliases}

    def order(first: object, second: object) -> AvroSchema:
        return AvroSchema(_record({"name": "x", "type": first}, {"name": "y", "type": second}))

    old = order(record("a to b", "float"), record("a", "string"))
    new = order(record("c", "double", "a to b"), record("b to c", "string", "a"))
    data = struct.pack("<f", 1.5) + b"\0\2x\0"
    expected = struct.pack("<d", 1.5) + b"\0\2x\0"
    assert run_avro(compile_schemas(old, new), data) == resolve(data, old, new) == expected
