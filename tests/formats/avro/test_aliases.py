"""Aliases: what they rename, which branch they lead to, and what they would lose."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from formats.avro.resolving import check_resolvable, find_risks
from formats.avro.schema import AvroSchema
from formats.errors import UnresolvableSchemasError
from tests.formats.avro.agreement import Paths

Json = Any


def _record(*fields: Json, name: str = "Order", **more: object) -> Json:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def _field(name: str, of: Json, **more: object) -> Json:
    return {"name": name, "type": of, **more}


def _in(of: Json) -> Json:
    return _record(_field("a", of))


def _enum(symbols: str, **more: object) -> Json:
    return {"type": "enum", "name": "Suit", "symbols": symbols.split()} | more


def _fixed(size: int, **more: object) -> Json:
    return {"type": "fixed", "name": "F", "size": size} | more


def _pair(old: Json, new: Json) -> tuple[AvroSchema, AvroSchema]:
    return AvroSchema(json.dumps(old)), AvroSchema(json.dumps(new))


def _becomes(old: Json, value: object, new: Json) -> object:
    """What all paths make of a value, as fastavro reads it."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, old, value)
    found = Paths(*_pair(old, new))(written.getvalue())
    return found if isinstance(found, str) else fastavro.schemaless_reader(io.BytesIO(found), new, None)


def _named(*fields: Json, **more: object) -> Json:
    return _record(*fields, name="Person", **more)


FULL = _field("full", "string", aliases=["name"], default="none")


@pytest.mark.parametrize(
    ("old", "value", "new", "expected"),
    [
        pytest.param(
            _named(_field("name", "string")), {"name": "ann"},
            _named(FULL, _field("name", "string", default="NEW")), {"full": "ann", "name": "NEW"},
            id="the old name is used again",
        ),
        pytest.param(
            _named(_field("a", "int")), {"a": 1},
            _named(_field("x", "int", aliases=["a"], default=7), _field("y", "int", aliases=["a"], default=8)),
            {"x": 7, "y": 1},
            id="two fields have the alias",
        ),
        pytest.param(
            _named(_field("a", "int"), _field("b", "int")), {"a": 1, "b": 2},
            _named(_field("a", "int", aliases=["b"]), _field("b", "int", aliases=["a"])), {"a": 1, "b": 2},
            id="equal schemas",
        ),
        pytest.param(
            _named(_field("name", "string"), namespace="one"), {"name": "ann"},
            _named(FULL, namespace="two", aliases=["one.Person"]), {"full": "ann"},
            id="in another namespace",
        ),
        pytest.param(
            _in(["null", _named(_field("name", "string"))]), {"a": {"name": "ann"}},
            _in(["null", _record(FULL, _field("name", "int", default=3), name="Human", aliases=["Person"])]),
            {"a": {"full": "ann", "name": 3}},
            id="in a union, of a record with another name",
        ),
        pytest.param(
            _in(_named(_field("n", "int"))), {"a": {"n": 1}},
            _in([_named(_field("n", "int"), namespace="x"), _named(_field("n", "long"), namespace="y")]),
            {"a": {"n": 1}},
            id="the last branch of the short name",
        ),
        pytest.param(
            _record(_field("a", _named(_field("n", "int"))), _field("b", "Person")), {"a": {"n": 1}, "b": {"n": 2}},
            _record(_field("a", _record(_field("n", "int"), name="Human", aliases=["Person"])),
                    _field("b", ["null", _named(_field("n", "long"))])),
            {"a": {"n": 1}, "b": {"n": 2}},
            id="one record becomes two",
        ),
        pytest.param(
            _in([_enum("A"), "null"]), {"a": "A"},
            _in(["null", _enum("A B"), _enum("B A", aliases=["Suit"], name="Colour")]), {"a": "A"},
            id="an alias goes before a name",
        ),
        pytest.param(
            _in(_fixed(2)), {"a": b"ab"}, _in(_fixed(2, name="G", aliases=["F"])), {"a": b"ab"},
            id="a fixed",
        ),
    ],
)  # fmt: skip
def test_an_alias_renames_what_was_written(old: Json, value: object, new: Json, expected: object) -> None:
    assert _becomes(old, value, new) == expected


def test_an_alias_says_which_branch_is_written() -> None:
    old = _in(_enum("A"))
    new = _in([_enum("A"), _enum("A", aliases=["Suit"], name="Colour")])
    assert Paths(*_pair(old, new))(b"\0") == b"\2\0"
    spaces = _in([_named(_field("n", "int"), namespace="x"), _named(_field("n", "int"), namespace="y")])
    assert Paths(*_pair(_in(_named(_field("n", "int"))), spaces))(b"\2") == b"\2\2"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (_named(_field("full", "string"), _field("name", "string")), _named(FULL, _field("more", "int", default=0)),
         "Person: the old fields full and name both become full, by an alias"),
        (_in([_enum("A", name="E"), _enum("A")]), _in(["null", _enum("A", aliases=["E"])]),
         "two branches of the old union of E, Suit both become Suit, by an alias"),
        (_named(_field("a", "int"), _field("b", "int")),
         _named(_field("a", "long", aliases=["b"]), _field("b", "int", aliases=["a"])),
         "Person.a becomes b by an alias, which is an alias too"),
        (_named(_field("a", "int")),
         _named(_field("c", "int", aliases=["b"], default=7), _field("b", "int", aliases=["a"])),
         "by an alias, which is an alias too: by the specification it stays b, and in Java it becomes c"),
        (_in(_enum("A")),
         _record(_field("a", _enum("A", name="E", aliases=["Suit"])),
                 _field("b", _enum("A", name="F", aliases=["E"]), default="A")),
         "Suit becomes E by an alias, which is an alias too"),
        (_in(_named(_field("n", "int"))),
         _record(_field("a", _record(_field("n", "int", aliases=["q"]), name="Human", aliases=["Person"])),
                 _field("b", ["null", _named(_field("m", "int", aliases=["n"]))], default=None)),
         "Human and another record of the new schema have one's name among the other's aliases"),
        (_named(_field("name", "string"), namespace="one"), _named(FULL, namespace="two"),
         "Person.full: the old field name would be lost"),
        (_named(_field("name", "string"), _field("more", "int")),
         _named(FULL, _field("name", "string")), "Person.name: the old schema has no such field, and there is no"),
        (_record(_field("a", _named(_field("n", "int"))), _field("b", "Person")),
         _record(_field("a", _record(_field("m", "int", aliases=["n"]), name="Human", aliases=["Person"])),
                 _field("b", _named(_field("n", "int", default=0)))),
         "Order.b.n: the old field n would be lost"),
        (_record(_field("a", _named(_field("n", "int"), namespace="one"))),
         _record(_field("a", _named(_field("m", "int", aliases=["n"], default=0)))),
         "Order.a.m: the old field n would be lost"),
    ],
)  # fmt: skip
def test_an_alias_that_is_not_clear_or_would_lose_a_value_is_refused(old: Json, new: Json, problem: str) -> None:
    with pytest.raises(UnresolvableSchemasError) as raised:
        check_resolvable(*_pair(old, new))
    assert problem in str(raised.value)
    assert find_risks(*_pair(old, new)) == ()
    with pytest.raises(UnresolvableSchemasError):
        Paths(*_pair(old, new))
