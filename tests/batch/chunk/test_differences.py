"""The first difference of two values, by the innermost field, in words that stay short."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from formats import Format, Headers, get_format
from formats.avro.schema import AvroSchema
from formats.kafka_streams.values import WITH_HEADERS
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.json_text import JsonSerde
from migrate.model.comparison import first_difference

ORDER = AvroSchema(
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},{"name":"items","type":{"type":"array",'
    '"items":{"type":"record","name":"Item","fields":[{"name":"name","type":"string"},{"name":"price","type":"int"}]}}}]}'
)
AVRO = AvroSerde(((7, ORDER),), "confluent")
TIMESTAMPED = replace(get_format("kafka-streams.timestamped-key-value"), value_serde=AVRO)


def _order(price: int, *names: str) -> bytes:
    items = [{"name": name, "price": price} for name in names]
    return struct.pack(">q", 5) + AVRO.encode({"id": 1, "items": items})


def test_a_field_within_an_avro_value() -> None:
    found = first_difference(TIMESTAMPED, b"k", _order(4, "a", "b"), _order(5, "a", "b"))
    assert found == ("value.items[0].price", "4", "5")


def test_lists_of_other_lengths_differ_as_a_whole() -> None:
    field, wanted, got = first_difference(TIMESTAMPED, b"k", _order(4, "a"), _order(4))
    assert (field, wanted, got) == ("value.items", "[{'name': 'a', 'price': 4}]", "[]")


def test_values_that_cannot_be_read_are_shown_as_bytes() -> None:
    field, _, got = first_difference(TIMESTAMPED, b"k", _order(4, "a"), _order(4, "a")[:-1])
    assert field == "value"
    assert "the Avro value" in got


@pytest.mark.parametrize("length", [10, 1_000_000])
def test_long_values_are_cut(length: int) -> None:
    texts = replace(get_format("rocksdb.raw"), value_serde=JsonSerde())
    sides: list[Any] = [b'"%b"' % (letter * length) for letter in (b"a", b"b")]
    field, wanted, got = first_difference(texts, b"k", sides[0], sides[1])
    assert field == "value"
    assert max(len(wanted), len(got)) < 220


def test_headers_are_compared_too() -> None:
    known: Format = get_format("kafka-streams.headers-key-value")
    sides = [WITH_HEADERS.pack(b"v", {"timestamp": 5, "headers": Headers.of([("h", value)])}) for value in (b"x", b"y")]
    assert first_difference(known, b"k", sides[0], sides[1])[0] == "headers"
