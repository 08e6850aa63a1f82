"""JSON: what is kept, what may change, what is refused."""

import copy
import json
import pickle
import sys
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from formats.errors import InvalidEntryError
from formats.serdes.conversions import keeps_bytes, resolving
from formats.serdes.json_text import JsonSerde

JSON = JsonSerde()
_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(value=VALUES)
def test_what_is_written_reads_back_the_same(value: object) -> None:
    payload = JSON.encode(value)
    assert JSON.decode(payload) == value
    assert JSON.encode(JSON.decode(payload)) == payload


@pytest.mark.parametrize(
    ("payload", "written"),
    [
        ('{ "b" : 1,\n "a": [1, 2] }', '{"b":1,"a":[1,2]}'),
        ('"us\\u00e9r"', '"usér"'),
        ("-0.0", "-0.0"),
        ("12345678901234567890123456789", "12345678901234567890123456789"),
        ('"\\/"', '"/"'),
        ('"\\ud83d\\ude00"', '"😀"'),
        ("null", "null"),
    ],
)
def test_the_meaning_stays_where_the_bytes_change(payload: str, written: str) -> None:
    assert JSON.encode(JSON.decode(payload.encode())) == written.encode()


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})([.][0-9]{1,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


@given(texts=st.lists(NUMBERS, max_size=6))
@example(["14.7600", "0.99999999999999999", "123456789012345678.12", "1e-400", "1.0e1", "1E5", "-0", "-0.0", "-0e1"])
def test_a_number_keeps_its_text_through_a_function_copies_and_pickles(texts: list[str]) -> None:
    payload = f'{{"a":[{",".join(texts)}],"b":{{"c":{[*texts, "1.50"][0]}}}}}'.encode()
    value = JSON.decode(payload)
    forms = [value, {**value}, {"a": tuple(value["a"]), "b": value["b"]}, copy.copy(value), copy.deepcopy(value)]
    forms += [pickle.loads(pickle.dumps(value, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    assert {JSON.encode(each) for each in forms} == {payload}
    assert [*map(str, value["a"])] == texts
    assert value == json.loads(payload)


def test_a_number_with_a_text_is_what_it_is_to_arithmetic() -> None:
    price, tiny, zero = JSON.decode(b"[14.7600, 1e-400, -0]")
    assert (price, tiny, zero, price + 1, round(price, 1)) == (14.76, 0.0, 0, 15.76, 14.8)
    assert isinstance(price, float) and isinstance(zero, int)
    assert JSON.encode([price * 1, zero + 1, {"a": price}]) == b'[14.76,1,{"a":14.7600}]'
    assert type(JSON.decode(b"1.5")) is float  # what Python repeats costs nothing


@pytest.mark.parametrize("payload", [b' {"b" : 1.50,\n"a": "\\u00e9"} ', b"1e-400", b'"\\/"', b'"\\ud83d"'])
def test_without_a_function_the_bytes_stay(payload: bytes) -> None:
    checking = resolving(JSON, JSON)
    assert JSON.encode(checking.decode(payload)) == payload
    assert keeps_bytes(JSON, JSON)


@pytest.mark.parametrize("payload", [b'{"a":NaN}', b'{"a":1,"a":2}', b"1e999", b'"\xff"', b"1 2"])
def test_without_a_function_it_is_checked_all_the_same(payload: bytes) -> None:
    with pytest.raises(InvalidEntryError):
        resolving(JSON, JSON).decode(payload)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not JSON: Expecting value at character 0"),
        (b'{"a":1} x', "Extra data at character 8"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b"-Infinity", "-Infinity is not JSON"),
        (b"1e999", "1e999 is more than a double can hold"),
        (b'{"a":1,"b":2,"a":3}', "the key 'a' is in one object twice"),
        (b'"\xff"', "JSON that is not UTF-8: invalid start byte at byte 1"),
        (b"\xef\xbb\xbf1", "not JSON: .*BOM"),
        (b"[" * 1_000_000, "nested too deep"),
        (b"9" * 5000, "cannot be read|not JSON"),
    ],
)
def test_what_is_not_json_is_a_reject(payload: bytes, reason: str) -> None:
    assert sys.get_int_max_str_digits() < 5000
    with pytest.raises(InvalidEntryError, match=reason):
        JSON.decode(payload)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "not JSON compliant"),
        ([float("inf")], "not JSON compliant"),
        ({1: "a"}, "a key of a JSON object is text, not int"),
        ([{"a": {None: 1}}], "a key of a JSON object is text, not NoneType"),
        (b"a", "bytes is not JSON serializable"),
        ({"a": {1, 2}}, "set is not JSON serializable"),
        ("\ud83d", "surrogates not allowed"),
    ],
)
def test_what_json_cannot_hold_is_a_reject(value: object, reason: str) -> None:
    with pytest.raises(InvalidEntryError, match=reason):
        JSON.encode(value)


def test_an_object_that_holds_itself_is_a_reject() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidEntryError, match="nested too deep"):
        JSON.encode(endless)


def test_a_key_that_is_there_twice_is_found_in_a_large_object_in_no_time() -> None:
    names = [str(number) for number in range(100_000)]
    text = ",".join(f'"{name}":0' for name in [*names, names[-1]])
    started = time.process_time()
    with pytest.raises(InvalidEntryError, match="the key '99999' is in one object twice"):
        JsonSerde().decode(f"{{{text}}}".encode())
    assert time.process_time() - started < 60
