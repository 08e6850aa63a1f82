"""Aliases: what they rename, which branch they lead to, and what they would lose."""

import pytest

from formats.avro.resolving import check_resolvable, findings
from formats.errors import UnresolvableSchemasError
from tests.formats.avro.agreement import Paths
from tests.formats.avro.shapes import Json, becomes, enum, field, fixed, in_a, pair_of, record


def _named(*fields: Json, **more: object) -> Json:
    return record(*fields, name="Person", **more)


FULL = field("full", "string", aliases=["name"], default="none")


@pytest.mark.parametrize(
    ("old", "value", "new", "expected"),
    [
        pytest.param(
            _named(field("name", "string")), {"name": "ann"},
            _named(FULL, field("name", "string", default="NEW")), {"full": "ann", "name": "NEW"},
            id="the old name is used again",
        ),
        pytest.param(
            _named(field("a", "int")), {"a": 1},
            _named(field("x", "int", aliases=["a"], default=7), field("y", "int", aliases=["a"], default=8)),
            {"x": 7, "y": 1},
            id="two fields have the alias",
        ),
        pytest.param(
            _named(field("a", "int"), field("b", "int")), {"a": 1, "b": 2},
            _named(field("a", "int", aliases=["b"]), field("b", "int", aliases=["a"])), {"a": 1, "b": 2},
            id="equal schemas",
        ),
        pytest.param(
            _named(field("name", "string"), namespace="one"), {"name": "ann"},
            _named(FULL, namespace="two", aliases=["one.Person"]), {"full": "ann"},
            id="in another namespace",
        ),
        pytest.param(
            in_a(["null", _named(field("name", "string"))]), {"a": {"name": "ann"}},
            in_a(["null", record(FULL, field("name", "int", default=3), name="Human", aliases=["Person"])]),
            {"a": {"full": "ann", "name": 3}},
            id="in a union, of a record with another name",
        ),
        pytest.param(
            in_a(_named(field("n", "int"))), {"a": {"n": 1}},
            in_a([_named(field("n", "int"), namespace="x"), _named(field("n", "long"), namespace="y")]),
            {"a": {"n": 1}},
            id="the last branch of the short name",
        ),
        pytest.param(
            record(field("a", _named(field("n", "int"))), field("b", "Person")), {"a": {"n": 1}, "b": {"n": 2}},
            record(field("a", record(field("n", "int"), name="Human", aliases=["Person"])),
                    field("b", ["null", _named(field("n", "long"))])),
            {"a": {"n": 1}, "b": {"n": 2}},
            id="one record becomes two",
        ),
        pytest.param(
            in_a([enum("A"), "null"]), {"a": "A"},
            in_a(["null", enum("A B"), enum("B A", aliases=["Suit"], name="Colour")]), {"a": "A"},
            id="an alias goes before a name",
        ),
        pytest.param(
            in_a(fixed(2)), {"a": b"ab"}, in_a(fixed(2, name="G", aliases=["F"])), {"a": b"ab"},
            id="a fixed",
        ),
    ],
)  # fmt: skip
def test_an_alias_renames_what_was_written(old: Json, value: object, new: Json, expected: object) -> None:
    assert becomes(old, value, new) == expected


def test_an_alias_says_which_branch_is_written() -> None:
    old = in_a(enum("A"))
    new = in_a([enum("A"), enum("A", aliases=["Suit"], name="Colour")])
    assert Paths(*pair_of(old, new))(b"\0") == b"\2\0"
    spaces = in_a([_named(field("n", "int"), namespace="x"), _named(field("n", "int"), namespace="y")])
    assert Paths(*pair_of(in_a(_named(field("n", "int"))), spaces))(b"\2") == b"\2\2"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (_named(field("full", "string"), field("name", "string")), _named(FULL, field("more", "int", default=0)),
         "Person: the old fields full and name both become full, by an alias"),
        (in_a([enum("A", name="E"), enum("A")]), in_a(["null", enum("A", aliases=["E"])]),
         "two branches of the old union of E, Suit both become Suit, by an alias"),
        (_named(field("a", "int"), field("b", "int")),
         _named(field("a", "long", aliases=["b"]), field("b", "int", aliases=["a"])),
         "Person.a becomes b by an alias, which is an alias too"),
        (_named(field("a", "int")),
         _named(field("c", "int", aliases=["b"], default=7), field("b", "int", aliases=["a"])),
         "by an alias, which is an alias too: by the specification it stays b, and in Java it becomes c"),
        (in_a(enum("A")),
         record(field("a", enum("A", name="E", aliases=["Suit"])),
                 field("b", enum("A", name="F", aliases=["E"]), default="A")),
         "Suit becomes E by an alias, which is an alias too"),
        (in_a(_named(field("n", "int"))),
         record(field("a", record(field("n", "int", aliases=["q"]), name="Human", aliases=["Person"])),
                 field("b", ["null", _named(field("m", "int", aliases=["n"]))], default=None)),
         "Human and another record of the new schema have one's name among the other's aliases"),
        (_named(field("name", "string"), namespace="one"), _named(FULL, namespace="two"),
         "Person.full: the old field name would be lost"),
        (_named(field("name", "string"), field("more", "int")),
         _named(FULL, field("name", "string")), "Person.name: the old schema has no such field, and there is no"),
        (record(field("a", _named(field("n", "int"))), field("b", "Person")),
         record(field("a", record(field("m", "int", aliases=["n"]), name="Human", aliases=["Person"])),
                 field("b", _named(field("n", "int", default=0)))),
         "Order.b.n: the old field n would be lost"),
        (record(field("a", _named(field("n", "int"), namespace="one"))),
         record(field("a", _named(field("m", "int", aliases=["n"], default=0)))),
         "Order.a.m: the old field n would be lost"),
    ],
)  # fmt: skip
def test_an_alias_that_is_not_clear_or_would_lose_a_value_is_refused(old: Json, new: Json, problem: str) -> None:
    with pytest.raises(UnresolvableSchemasError) as raised:
        check_resolvable(*pair_of(old, new))
    assert problem in str(raised.value)
    assert findings(*pair_of(old, new)).risks == []
    with pytest.raises(UnresolvableSchemasError):
        Paths(*pair_of(old, new))
