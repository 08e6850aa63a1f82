"""What the real Avro of Java makes of values: the same as this, but for what docs/avro.md names.

`python -m tests.live.avro` compares thousands of pairs.
"""

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from formats.avro.schema import AvroSchema, names_java_refuses
from formats.encoding.varint import pack_varint
from tests.formats.avro.shapes import record
from tests.formats.avro.test_schema import COMMENTED
from tests.live.avro.comparing import Expected, compare, expected, generate
from tests.live.avro.java import VERSIONS, Case, JavaError, resolve_by_java
from tests.live.kafka_streams.program import require_live

Json = Any

PAIRS = 400
FLOATS = [2**62 + 2**39, -(2**62) - 2**39, 2**24, 2**53 + 2**30, -(2**63), 0, -1]
ROUNDED = [2**62 + 2**38 + 1, -(2**62) - 2**38 - 1, 2**24 + 1, 2**53 + 2**29 + 1, 2**63 - 1]
DEFAULTS: list[tuple[Json, Json]] = [
    ("null", None),
    ("boolean", True),
    ("int", -(2**31)),
    ("long", 2**63 - 1),
    ("float", 2**62 + 2**38 + 1),
    ("float", 0.1),
    ("double", 2**63 - 1),
    *((kind, text) for kind in ("float", "double") for text in ("NaN", "Infinity", "-Infinity", " +1.5e3 ", ".5")),
    ("bytes", "\u00ff\0"),
    ("string", "\u00e4\U0001f680"),
    ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\0"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "array", "items": "float"}, [1, 2.5]),
    ({"type": "map", "values": "long"}, {"k": 7}),
    (["string", "null"], "x"),
    (["null", "Order"], None),
    ({"type": "record", "name": "In", "fields": [{"name": "x", "type": "int", "default": 3}]}, {}),
]


def _aliased(name: str, *aliases: str, of: Json = "int", default: Json = 7) -> Json:
    return {"name": name, "type": of, "default": default, "aliases": list(aliases)}


A: Json = {"name": "a", "type": "int"}
ALIASES: list[tuple[Json, Json, bytes]] = [
    (record(A), record(_aliased("full", "a"), _aliased("a", default=8)), b"\2\x10"),
    (record(A), record(_aliased("x", "a"), _aliased("y", "a", default=8)), b"\x0e\2"),
    (record(A), record({"name": "b", "type": ["null", "long"], "aliases": ["x", "a"]}), b"\2\2"),
    (record(A, name="Old"), record(_aliased("b", "a"), aliases=["Old"]), b"\2"),
    (record(A, namespace="x"), record(_aliased("b", "a"), namespace="y", aliases=["x.Order"]), b"\2"),
    ([record(A, name="Old"), "null"], ["null", record(_aliased("b", "a"), aliases=["Old"])], b"\2\2"),
    (record(A), [record(A, namespace="x"), record(A, namespace="y")], b"\2\2"),
]


def _cases() -> Iterator[Expected]:
    def case(old: Json, new: Json, *values: bytes) -> Expected:
        texts = (each if isinstance(each, str) and each.startswith("/") else json.dumps(each) for each in (old, new))
        writer, reader = map(AvroSchema, texts)
        return expected(writer, reader, values)

    yield case("long", "float", *map(pack_varint, FLOATS))
    yield case("long", "double", *map(pack_varint, FLOATS))
    yield case("float", "double", *(struct.pack("<f", each) for each in (0.1, -0.0, float("inf"))))
    for of, default in DEFAULTS:
        yield case(record(A), record(A, {"name": "b", "type": of, "default": default}), b"\2")
    yield case(COMMENTED, record(A), b"\2")
    for old, new, _ in ALIASES:
        yield case(old, new, b"\0\2" if isinstance(old, list) else b"\2")


@pytest.fixture(autouse=True)
def _live() -> None:
    require_live()


@pytest.mark.parametrize("version", VERSIONS)
def test_java_reads_the_same(version: str) -> None:
    cases = list(_cases())
    found = compare(version, cases)
    assert found.differences == []
    assert found.equal == sum(len(each.answers) for each in cases)
    assert all(isinstance(answer, bytes) for each in cases for answer in each.answers)
    assert [each.answers[0] for each in cases[-len(ALIASES) :]] == [known for _, _, known in ALIASES]
    assert cases[0].answers[0] == bytes.fromhex("0100805e")


@pytest.mark.parametrize("version", VERSIONS)
def test_java_rounds_what_is_rejected_here(version: str) -> None:
    values = list(map(pack_varint, ROUNDED))
    found = compare(version, [expected(AvroSchema('"long"'), AvroSchema('"float"'), values)])
    assert found.known == {"a number that the wider type cannot hold exactly": len(ROUNDED)}


@pytest.mark.parametrize("version", VERSIONS)
def test_java_reads_the_same_of_generated_pairs(version: str) -> None:
    found = compare(version, list(generate(0, PAIRS)))
    assert found.differences == []
    assert found.equal > 2 * PAIRS


NAMES = ("order-id", "3hsp", "$ref", "a b", "x\u00b2", "\u00b2x", "gr\u00f6\u00dfe", "_1", "a.b")


@pytest.mark.parametrize("version", VERSIONS)
def test_java_refuses_the_names_that_a_plan_warns_of(version: str) -> None:
    schemas = [
        schema
        for name in NAMES
        for schema in (
            record({"name": name, "type": "int"}),
            record(A, name=name),
            record(A, aliases=[name, f"{name}.X"]),
            record({**A, "aliases": [name]}),
            {"type": "enum", "name": "E", "symbols": [name]},
            *([record(A, namespace=name)] if version > "1.12" else []),  # 1.11 takes any namespace
        )
    ]
    texts = [json.dumps(schema) for schema in schemas]
    answers = resolve_by_java(version, [Case(text, text, (b"\0",)) for text in texts])
    theirs = [text for text, (answer,) in zip(texts, answers, strict=True) if isinstance(answer, JavaError)]
    assert theirs == [text for text in texts if names_java_refuses(AvroSchema(text))]
