"""Keys and values as JSON, and keys from paths."""

import json
import math
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.avro.schema import AvroSchema
from formats.errors import EntryError
from formats.serde import BYTES, Serde
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.boolean import BooleanSerde
from formats.serdes.json_text import JsonSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import StringSerde, UuidSerde
from migrate.queries.json_values import as_json, json_bytes, key_of

_SCHEMA = """{"type": "record", "name": "R", "fields": [
  {"name": "day", "type": {"type": "int", "logicalType": "date"}},
  {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "ratio", "type": "double"},
  {"name": "tags", "type": {"type": "map", "values": ["null", "long"]}},
  {"name": "either", "type": [{"type": "enum", "name": "E", "symbols": ["A"]}, "string"]}]}"""


def _avro(text: str) -> AvroSerde:
    return AvroSerde(((None, AvroSchema(text)),), "none")


def test_a_value_of_avro_has_every_type_in_json() -> None:
    serde = _avro(_SCHEMA)
    value = {"day": 19000, "price": b"\x00\xff\xfe", "ratio": math.nan, "tags": {"a": None, "b": 1 << 62}}
    found = json.loads(json_bytes(as_json(serde.decode(serde.encode(value | {"either": "A"})))))
    assert found == {
        "day": 19000,
        "price": "AP/+",
        "ratio": "NaN",
        "tags": {"a": None, "b": 1 << 62},
        "either": "A",
    }
    as_text = serde.decode(serde.encode(value | {"either": ("string", "A")}))
    assert json.loads(json_bytes(as_json(as_text)))["either"] == {"string": "A"}


@pytest.mark.parametrize("value, text", [(math.inf, '"Infinity"'), (-math.inf, '"-Infinity"'), (-0.0, "-0.0")])
def test_numbers_that_json_has_not_are_text(value: float, text: str) -> None:
    assert json_bytes(as_json(value)).decode() == text
    assert math.copysign(1, key_of(NumberSerde("double"), text.strip('"'))) == math.copysign(1, value)


def test_half_a_surrogate_pair_is_written_as_ascii() -> None:
    assert json_bytes(as_json({"a": "\ud800é"})) == b'{"a":"\\ud800\\u00e9"}'


@given(st.binary(max_size=40), st.booleans(), st.booleans())
def test_base64_of_a_path_has_either_alphabet_and_any_padding(key: bytes, is_url: bool, is_padded: bool) -> None:
    text = as_json(key)
    text = text.replace("+", "-").replace("/", "_") if is_url else text
    assert key_of(BYTES, text if is_padded else text.rstrip("=")) == key


@given(st.text())
def test_a_path_holds_any_text(key: str) -> None:
    assert key_of(StringSerde(), key) == key


@pytest.mark.parametrize(
    "serde, text, key",
    [
        (NumberSerde("int64"), "-9223372036854775808", -(1 << 63)),
        (NumberSerde("int32", "little"), "7", 7),
        (NumberSerde("int16"), "-32768", -32768),
        (NumberSerde("float"), "1.5", 1.5),
        (BooleanSerde(), "true", True),
        (ListSerde(StringSerde()), '["a",null]', ["a", None]),
        (StringSerde(), "a b", "a b"),
        (UuidSerde(), "0123ABCD-0000-0000-0000-000000000000", UUID("0123abcd-0000-0000-0000-000000000000")),
        (JsonSerde(), '{"a":[1,"é"]}', {"a": [1, "é"]}),
        (_avro('{"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]}'), '{"id":7}', {"id": 7}),
    ],
)
def test_a_path_holds_a_key_of_each_serde(serde: Serde, text: str, key: Any) -> None:  # noqa: ANN401
    assert key_of(serde, text) == key
    encoded = as_json(serde.encode(key))
    assert key_of(serde, encoded, "base64url") == key


@pytest.mark.parametrize(
    "serde, text, reason",
    [
        (NumberSerde("int32"), "2147483648", "is not a signed 32-bit number"),
        (NumberSerde("int64"), "1.0", "not a whole number"),
        (NumberSerde("int64"), "9" * 5000, "not a whole number"),
        (NumberSerde("int64"), "\u0661", "not a whole number"),
        (NumberSerde("double"), "1,5", "not a number"),
        (UuidSerde(), "nobody", "not the text of a UUID"),
        (JsonSerde(), "{", "not JSON"),
        (JsonSerde(), "[" * 100_000, "nested too deep"),
        (BYTES, "a", "not base64"),
        (BYTES, "YWJj\n", "not base64"),
        (BYTES, "YWK", "bits that belong to no byte"),
        (BYTES, "é", "not base64"),
        (_avro('"long"'), '"text"', "is not of the type"),
    ],
)
def test_a_text_that_is_no_key_is_named_with_the_reason(serde: Serde, text: str, reason: str) -> None:
    with pytest.raises(EntryError, match=reason):
        key_of(serde, text)
