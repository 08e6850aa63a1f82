"""Text, numbers and UUIDs: Kafka's own bytes, and what is refused."""

import math
import pickle
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.conversion import compile_serdes
from formats.errors import EntryError, InvalidEntryError, TruncatedEntryError
from formats.serde import BYTES, Serde
from formats.serdes.boolean import BooleanSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import StringSerde, UuidSerde

KAFKA: dict[str, Serde] = {
    "int32": NumberSerde("int32"),
    "int64": NumberSerde("int64"),
    "double": NumberSerde("double"),
    "string": StringSerde(),
    "uuid": UuidSerde(),
    "int16": NumberSerde("int16"),
    "float": NumberSerde("float"),
    "boolean": BooleanSerde(),
}
PLAIN: tuple[Serde, ...] = (
    BYTES,
    *KAFKA.values(),
    NumberSerde("int32", "little"),
    NumberSerde("int64", "little"),
    NumberSerde("double", "little"),
)
VECTORS = (Path(__file__).parent / "kafka-clients.tsv").read_text(encoding="utf-8").splitlines()
"""Written by Kafka's own serializers, the same in 3.9.1, 4.0.1 and 4.3.1: SerdeVectors.java."""


def _value(serde: str, text: str) -> Any:  # noqa: ANN401
    if serde.startswith("list of "):
        return [None if each == "null" else _value(serde[8:], _text(serde, each)) for each in _entries(text)]
    if serde == "string":
        return "".join(chr(int(point, 16)) for point in text.split())
    return _PYTHON[serde](text)


def _text(serde: str, entry: str) -> str:
    """Texts stand in lists as they are, and alone as code points."""
    return " ".join(f"{ord(each):x}" for each in entry) if serde == "list of string" else entry


def _entries(text: str) -> list[str]:
    return text[1:-1].split(", ") if text != "[]" else []


_PYTHON: dict[str, Any] = {
    **dict.fromkeys(("int16", "int32", "int64"), int),
    **dict.fromkeys(("float", "double"), float),
    "uuid": UUID,
    "boolean": lambda text: text == "true",
}


@pytest.mark.parametrize("vector", VECTORS)
def test_kafkas_own_bytes_are_read_and_written(vector: str) -> None:
    name, text, payload = vector.split("\t")
    serde = ListSerde(KAFKA[name[8:]]) if name.startswith("list of ") else KAFKA[name]
    value, stored = _value(name, text), bytes.fromhex(payload)
    decoded = serde.decode(stored)
    assert isinstance(decoded, type(value))
    assert decoded == value or (math.isnan(decoded) and math.isnan(value))
    assert math.copysign(1, decoded) == math.copysign(1, value) if name == "double" else True
    assert serde.encode(value) == stored


@pytest.mark.parametrize("serde", PLAIN, ids=str)
@given(data=st.data())
def test_what_is_accepted_is_written_as_it_was_read(serde: Serde, data: st.DataObject) -> None:
    size = getattr(serde, "size", None)
    texts = st.text(max_size=20).map(str.encode) | st.uuids().map(lambda found: str(found).encode())
    payloads = st.binary(max_size=40) | texts | st.binary(min_size=size or 0, max_size=size or 8)
    payload = data.draw(payloads)
    try:
        decoded = serde.decode(payload)
    except EntryError as error:
        assert str(error)
    else:
        assert serde.encode(decoded) == payload


@pytest.mark.parametrize("serde", PLAIN, ids=str)
def test_a_serde_can_be_carried_to_an_executor(serde: Serde) -> None:
    assert pickle.loads(pickle.dumps(serde)) == serde


@pytest.mark.parametrize("name", ["int32", "int64", "double"])
def test_a_number_of_another_size_is_a_reject(name: Any) -> None:  # noqa: ANN401
    serde = NumberSerde(name)
    for size in range(serde.size):
        with pytest.raises(TruncatedEntryError, match=f"{name} has {size} bytes"):
            serde.decode(bytes(size))
    with pytest.raises(InvalidEntryError, match=f"has {serde.size + 1} bytes, not {serde.size}"):
        serde.decode(bytes(serde.size + 1))


@pytest.mark.parametrize(
    ("serde", "value", "reason"),
    [
        (NumberSerde("int32"), 1 << 31, "not a signed 32-bit number"),
        (NumberSerde("int32"), -(1 << 31) - 1, "not a signed 32-bit number"),
        (NumberSerde("int64"), 1 << 63, "not a signed 64-bit number"),
        (NumberSerde("int64"), True, "expected a whole number, got bool"),
        (NumberSerde("int64"), 1.0, "expected a whole number, got float"),
        (NumberSerde("double"), False, "expected a number, got bool"),
        (NumberSerde("double"), "1", "expected a number, got str"),
        (NumberSerde("double"), (1 << 53) + 1, "cannot hold 9007199254740993 exactly"),
        (NumberSerde("double"), 1 << 5000, "more than a double can hold"),
        (StringSerde(), b"k", "expected text, got bytes"),
        (StringSerde(), "\ud83d", "UTF-8 cannot hold"),
        (UuidSerde(), str(UUID(int=0)), "expected a uuid.UUID, got str"),
        *((BYTES, each, f"expected bytes, got {type(each).__name__}") for each in ("k", 5, None, bytearray(b"x"))),
    ],
)
def test_what_a_serde_cannot_write_is_a_reject(serde: Serde, value: object, reason: str) -> None:
    with pytest.raises(InvalidEntryError, match=reason):
        serde.encode(value)


def test_whole_numbers_are_doubles_where_they_fit() -> None:
    assert NumberSerde("double").encode(3) == NumberSerde("double").encode(3.0)


@pytest.mark.parametrize("payload", [b"\xff", b"\xed\xa0\xbd", b"ab\xc3"])
def test_text_that_is_not_utf8_is_a_reject(payload: bytes) -> None:
    with pytest.raises(InvalidEntryError, match=r"not UTF-8 text: .* at byte"):
        StringSerde().decode(payload)


@pytest.mark.parametrize(
    "text",
    [
        "89791762-2336-4186-9674-299B90A802E2",
        "{89791762-2336-4186-9674-299b90a802e2}",
        "89791762233641869674299b90a802e20000",
        "89791762-2336-4186-9674-299b90a802e2\n",
        "1-2-3-4-5",
        "",
    ],
)
def test_only_the_spelling_that_kafka_writes_is_a_uuid(text: str) -> None:
    with pytest.raises(EntryError):
        UuidSerde().decode(text.encode())


TEXTS, NUMBERS = ListSerde(StringSerde()), ListSerde(NumberSerde("int32"))


@pytest.mark.parametrize(
    ("serde", "payload", "reason"),
    [
        (TEXTS, "", "begins with 01"),
        (TEXTS, "0000000000", "begins with 01"),
        (NUMBERS, "0100000000", "begins with 00"),
        (TEXTS, "017fffffff", "claims 2147483647 entries"),
        (TEXTS, "0100000001fffffffe", "needs at least"),
        (TEXTS, "01000000010000000561", "the layout needs at least"),
        (TEXTS, "010000000100000001ff", "entry 0 of the list: not UTF-8"),
        (TEXTS, "010000000000", "1 bytes follow"),
        (NUMBERS, "0000000001000000050000000100000001", "not among its entries"),
        (NUMBERS, "00000000020000000100000000000000020000", "not in order"),
        (NUMBERS, "000000000200000000000000000000000200000005", "not in order"),
    ],
)
def test_a_damaged_list_is_a_reject(serde: ListSerde, payload: str, reason: str) -> None:
    with pytest.raises(EntryError, match=reason):
        serde.decode(bytes.fromhex(payload))


def test_what_a_float_cannot_keep_is_a_reject() -> None:
    serde = NumberSerde("float")
    for value in ((1 << 24) + 1, 1e300):
        with pytest.raises(InvalidEntryError):
            serde.encode(value)
    with pytest.raises(InvalidEntryError, match="signalling NaN"):
        serde.decode(bytes.fromhex("7f800001"))
    assert compile_serdes(serde, NumberSerde("float", "little")) is None, "a program would keep it"


def test_a_tuple_is_written_as_a_list() -> None:
    assert NUMBERS.encode((1, None)) == NUMBERS.encode([1, None])
    with pytest.raises(InvalidEntryError, match="expected a list, got str"):
        TEXTS.encode("ab")
