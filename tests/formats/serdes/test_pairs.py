"""Which serdes become which, what may get lost, and what becomes of the order of keys."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.avro.schema import AvroSchema
from formats.errors import EntryError
from formats.serde import BYTES, Serde
from formats.serdes.avro_frame import Frame, SchemaId
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.boolean import BooleanSerde
from formats.serdes.conversions import (
    decoding,
    is_order_preserving,
    keeps_bytes,
    names_refused,
    needs_headers,
    payload_problem,
    payload_risks,
    resolving,
)
from formats.serdes.json_text import JsonSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.numeric import NUMBERS as NAMES
from formats.serdes.numeric import NumberSerde
from formats.serdes.registry import SERDES
from formats.serdes.text import StringSerde, UuidSerde
from tests.formats.serdes.schemas import GUID, NEW, OLD, OTHER, record


def _avro(frame: Frame, *schemas: tuple[SchemaId, AvroSchema]) -> AvroSerde:
    return AvroSerde(schemas, frame)


NUMBERS = [NumberSerde(name, endian) for name in NAMES for endian in ("big", "little")]
PLAIN: list[Serde] = [BYTES, StringSerde(), UuidSerde(), BooleanSerde(), *NUMBERS]
AVRO = [
    _avro("none", (None, OLD)),
    _avro("none", (None, NEW)),
    _avro("confluent", (1, OLD)),
    _avro("confluent", (300, OLD)),
    _avro("confluent", (2, NEW)),
]
PAIRS = [
    pytest.param(source, target, id=f"{at}")
    for at, (source, target) in enumerate([*product(PLAIN, PLAIN), *product(AVRO, AVRO)])
    if payload_problem(source, target) is None and is_order_preserving(source, target)
]


def _payloads(serde: Serde) -> st.SearchStrategy[bytes]:
    if isinstance(serde, NumberSerde):
        most = 1 << {"int16": 15, "float": 24}.get(serde.name, 31)
        small = st.integers(-3, 3) | st.sampled_from([-most, most - 1])
        numbers = st.integers(-most, most - 1) | small
        return numbers.map(serde.encode) | st.binary(min_size=serde.size, max_size=serde.size)
    if isinstance(serde, AvroSerde):
        fields = {"a": st.text("ab", max_size=3), "n": st.integers(-300, 300), "b": st.text("ab", max_size=3)}
        names = ("a", "n") if serde.schemas[0][1] == OLD else ("n", "b")
        return st.fixed_dictionaries({name: fields[name] for name in names}).map(serde.encode)
    if isinstance(serde, UuidSerde):
        return st.uuids().map(serde.encode)
    return st.text("ab", max_size=3).map(str.encode)


@pytest.mark.parametrize(("source", "target"), PAIRS)
@settings(max_examples=40)
@given(data=st.data())
def test_order_is_kept_where_that_is_said(source: Serde, target: Serde, data: st.DataObject) -> None:
    reading = resolving(source, target)
    found = {}
    for payload in data.draw(st.lists(_payloads(source), min_size=2, max_size=6)):
        try:
            found[payload] = target.encode(reading.decode(payload))
        except EntryError:
            continue
        assert found[payload] == payload or not keeps_bytes(source, target)
    assert [found[payload] for payload in sorted(found)] == sorted(found.values())
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize(
    ("source", "target", "first", "second"),
    [
        (NumberSerde("int64", "big"), NumberSerde("int64", "little"), 1, 256),
        (NumberSerde("int32", "big"), NumberSerde("double", "big"), -2, -1),
        (_avro("none", (None, OLD)), _avro("none", (None, NEW)), {"a": "a", "n": 2}, {"a": "b", "n": 1}),
    ],
)
def test_order_is_not_promised_where_it_breaks(source: Serde, target: Serde, first: object, second: object) -> None:
    assert not is_order_preserving(source, target)
    reading, old = resolving(source, target), [source.encode(first), source.encode(second)]
    new = [target.encode(reading.decode(payload)) for payload in old]
    assert (old[0] < old[1]) != (new[0] < new[1])


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (_avro("confluent", (1, OLD)), _avro("confluent", (300, OLD)), True),
        (_avro("confluent", (1, OLD)), _avro("none", (None, OLD)), True),
        (_avro("confluent", (1, OLD), (2, OLD)), _avro("confluent", (3, OLD)), False),
        (JsonSerde(), JsonSerde(), True),
        (NumberSerde("int32"), NumberSerde("int64"), True),
        (StringSerde(), StringSerde(), True),
    ],
)
def test_order_is_a_matter_of_every_payload(source: Serde, target: Serde, expected: bool) -> None:
    assert is_order_preserving(source, target) is expected


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("string", True),
        (["null", "string"], True),
        (["int", "long"], False),
        ({"type": "array", "items": "int"}, False),
        ({"type": "map", "values": "int"}, False),
        ({"type": "record", "name": "In", "fields": [{"name": "x", "type": {"type": "array", "items": "int"}}]}, False),
        ({"type": "record", "name": "In", "fields": [{"name": "x", "type": ["null", "In"]}]}, True),
    ],
)
def test_what_can_be_written_in_two_ways_has_no_order(type_: object, expected: bool) -> None:
    schema = record(("f", type_))
    assert is_order_preserving(_avro("confluent", (1, schema)), _avro("confluent", (2, schema))) is expected


# What becomes of what


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (JsonSerde(), NumberSerde("int64")),
        (NumberSerde("double"), NumberSerde("int64")),
        (NumberSerde("float"), NumberSerde("int64")),
        (NumberSerde("double"), NumberSerde("float")),
        (StringSerde(), JsonSerde()),
        (JsonSerde(), _avro("none", (None, OLD))),
        (BYTES, StringSerde()),
    ],
)
def test_what_does_not_become_the_other_by_itself_needs_a_function(source: Serde, target: Serde) -> None:
    problem = payload_problem(source, target)
    assert problem is not None
    assert f"{source.name} cannot be converted to {target.name} without a [conversion] function" in problem


def test_the_same_bytes_under_two_names_need_no_conversion() -> None:
    for pair in ((UuidSerde(), StringSerde()), (StringSerde(), UuidSerde())):
        assert payload_problem(*pair) == "uuid and string are the same bytes here: name neither"


@pytest.mark.parametrize("serde", [*PLAIN, JsonSerde()], ids=str)
def test_every_serde_becomes_itself(serde: Serde) -> None:
    assert payload_problem(serde, serde) is None


def test_schemas_that_cannot_be_resolved_are_named_with_the_path() -> None:
    source = _avro("confluent", (1, OLD), (5, OTHER), (9, record(("n", "string"))))
    problem = payload_problem(source, _avro("confluent", (7, NEW)))
    assert problem is not None
    assert "schema 1 " not in problem
    assert "schema 5 cannot be read as the new one: " in problem
    assert "schema 9 cannot be read as the new one: " in problem
    assert "n" in problem
    schemaless = payload_problem(_avro("none", (None, OTHER)), _avro("none", (None, NEW)))
    assert schemaless is not None
    assert schemaless.startswith("the old schema cannot be read as the new one: ")


def test_what_only_some_payloads_hold_is_a_risk() -> None:
    source = _avro("confluent", (1, record(("n", ["null", "int"]))))
    target = _avro("confluent", (2, record(("n", "int"))))
    assert payload_problem(source, target) is None
    (risk,) = payload_risks(source, target)
    assert risk.startswith("schema 1: ")
    assert payload_risks(NumberSerde("int64"), NumberSerde("int32")) == ("numbers of more than 32 bits",)
    assert payload_risks(NumberSerde("int32"), NumberSerde("int64")) == ()
    assert payload_risks(NumberSerde("int32"), NumberSerde("float")) == ("numbers that a float cannot hold exactly",)
    assert payload_risks(NumberSerde("int16"), NumberSerde("float")) == ()


def test_what_holds_of_entries_holds_of_lists() -> None:
    old, other, odd = (ListSerde(_avro("confluent", (1, schema))) for schema in (OLD, OTHER, record(("a-b", "int"))))
    new = ListSerde(_avro("confluent", (7, NEW)))
    assert payload_problem(old, new) is None
    problem = payload_problem(other, new)
    assert problem is not None and "schema 1 cannot be read as the new one: " in problem
    assert payload_risks(ListSerde(NumberSerde("int64")), ListSerde(NumberSerde("int32"))) != ()
    assert names_refused(odd) == ("a-b",)


@pytest.mark.parametrize("inner", [NumberSerde("int32"), StringSerde(), _avro("none", (None, OLD))])
def test_a_list_keeps_its_bytes_where_its_entries_do(inner: Serde) -> None:
    assert keeps_bytes(ListSerde(inner), ListSerde(inner)) is keeps_bytes(inner, inner)


@pytest.mark.parametrize("inner", [JsonSerde(), _avro("none", (None, OLD))])
def test_what_a_conversion_reads_alone_can_be_decoded_in_lists_too(inner: Serde) -> None:
    for serde in (inner, ListSerde(inner)):
        reading = resolving(serde, serde)
        assert repr(reading) != repr(serde) == repr(decoding(reading)), "how it reads is no part of what is equal"


def test_only_a_header_frame_needs_headers() -> None:
    assert needs_headers(_avro("header", (GUID, OLD)))
    assert not any(needs_headers(serde) for serde in (*PLAIN, *AVRO))


def test_the_list_of_serdes_says_which_keep_their_bytes() -> None:
    known = {serde.name: serde.keeps_bytes for serde in SERDES}
    assert {serde.name for serde in PLAIN} == {name for name, keeps in known.items() if keeps}
    assert {name for name, keeps in known.items() if not keeps} == {"json", "avro", "list"}
