"""Adding a format: all of one is in this module, and the conversions to and from every other come with it.

A format of the product is the same in a module of `formats/`, with a line in `formats/registry.py` and golden bytes in
`tests/formats/vectors/`.

| part  | offset | size | field                                                    |
|-------|--------|------|----------------------------------------------------------|
| key   | 0      | rest | key                                                      |
| value | 0      | 8    | timestamp, signed 64-bit little-endian milliseconds      |
| value | 8      | 4    | size of the payload, signed 32-bit little-endian         |
| value | 12     | rest | payload                                                  |
"""

import pickle
import struct
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import (
    FORMATS,
    Conversion,
    EntryError,
    Format,
    InvalidEntryError,
    StateRecord,
    TruncatedEntryError,
    compile_conversion,
    conversion_problem,
    get_format,
)
from formats.layout import PAYLOAD, PAYLOAD_FIELD, TIMESTAMP, VALUE_SIZE, Carried, Field, Framing
from formats.program import run_operations
from migrate.engine.columns import compile_program
from migrate.stores.batch import Batch
from tests.formats.entries import INT64, entries
from tests.support import KEY_VALUE, RAW, TIMESTAMPED

_HEAD = struct.Struct("<qi")


def pack_time(timestamp_ms: int) -> bytes:
    return struct.pack("<q", timestamp_ms)


@dataclass(frozen=True, slots=True)
class SizedValue:
    """timestamp | size | payload"""

    fields: tuple[Field, ...] = (
        Field(TIMESTAMP, 8, pack_time, is_little_endian=True),
        Field(VALUE_SIZE, 4, framing=Framing.SIZE),
        PAYLOAD_FIELD,
    )

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        if len(data) < _HEAD.size:
            raise TruncatedEntryError("toy value", len(data), _HEAD.size)
        timestamp, size = _HEAD.unpack_from(data)
        payload = data[_HEAD.size :]
        if size != len(payload):
            raise InvalidEntryError(f"the toy value says that it has {size} bytes, and {len(payload)} follow")
        return payload, {TIMESTAMP: timestamp}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        return _HEAD.pack(carried.get(TIMESTAMP, 0), len(payload)) + payload


TOY = Format(
    id="toy.sized",
    summary="a format of this test: key -> timestamp, size, value",
    column_families=("default",),
    value_layout=SizedValue(),
)

# That is all. What comes with it:

OTHERS = [known for known in FORMATS if known.kind == TOY.kind and "expiry" not in known.carries]


def test_it_reads_and_writes_its_bytes() -> None:
    stored = bytes.fromhex("48ee000000000000 02000000 7631")
    assert TOY.decode(b"k", stored) == StateRecord(b"k", b"v1", 61000)
    assert TOY.encode(StateRecord(b"k", b"v1", 61000)) == (b"k", stored)


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ("48ee000000000000 020000", "toy value has 11 bytes, the layout needs at least 12"),
        ("48ee000000000000 03000000 7631", "says that it has 3 bytes, and 2 follow"),
    ],
)
def test_it_refuses_what_is_not_its_own(stored: str, reason: str) -> None:
    with pytest.raises(EntryError, match=reason):
        TOY.decode(b"k", bytes.fromhex(stored))


def test_it_has_conversions_losses_and_reasons() -> None:
    assert len(OTHERS) >= 4
    assert all(conversion_problem(TOY, other) is None is conversion_problem(other, TOY) for other in OTHERS)
    assert Conversion(TOY, get_format(RAW)).losses == ("loss:timestamp",)
    assert Conversion(TOY, get_format(TIMESTAMPED)).losses == ()
    problem = conversion_problem(TOY, get_format("kafka-streams.window"))
    assert problem is not None
    assert problem.startswith("toy.sized holds one value for each key, kafka-streams.window holds")
    assert pickle.loads(pickle.dumps(TOY)) == TOY


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        (TOY, get_format(KEY_VALUE), "skip 8, skip the size of the rest, copy the rest"),
        (TOY, get_format(TIMESTAMPED), "reverse 8, skip the size of the rest, copy the rest"),
        (get_format(TIMESTAMPED), TOY, "reverse 8, insert the size of the rest, copy the rest"),
        (get_format(RAW), TOY, "insert ffffffffffffffff, insert the size of the rest, copy the rest"),
        (TOY, TOY, "copy 8, insert the size of the rest, skip the size of the rest, copy the rest"),
    ],
    ids=lambda part: getattr(part, "id", None),
)
def test_it_is_compiled(source: Format, target: Format, value: str) -> None:
    assert str(compile_conversion(source, target)) == f"key: copy the rest; value: {value}"


@given(data=st.data(), other=st.sampled_from([*OTHERS, TOY]), is_back=st.booleans(), default=INT64)
def test_all_paths_do_the_same(data: st.DataObject, other: Format, default: int, *, is_back: bool) -> None:
    pair = (other, TOY) if is_back else (TOY, other)
    conversion = Conversion(*pair, default_timestamp_ms=default)
    program = conversion.program
    assert program is not None
    key, value = data.draw(entries(conversion.source))
    try:
        expected = conversion.convert(key, value)
    except EntryError:
        with pytest.raises(EntryError):
            run_operations(program.value, value)
        return
    assert (run_operations(program.key, key), run_operations(program.value, value)) == expected
    count = data.draw(st.sampled_from([1, 20]))
    converted = compile_program(program)(Batch([key] * count, [value] * count, (len(key), len(value))))
    assert list(zip(converted.keys, converted.values, strict=True)) == [expected] * count


# What has no program is converted by the reference path


@dataclass(frozen=True, slots=True)
class _Versioned(SizedValue):
    """A field that no other format has, and whose value nobody else knows."""

    fields: tuple[Field, ...] = (Field("version", 1), PAYLOAD_FIELD)

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        return data[1:], {"version": data[0]}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        return bytes([carried.get("version", 1)]) + payload


@dataclass(frozen=True, slots=True)
class _Seconds(SizedValue):
    """A timestamp of another size."""

    fields: tuple[Field, ...] = (Field(TIMESTAMP, 4), PAYLOAD_FIELD)


@dataclass(frozen=True, slots=True)
class _Last(SizedValue):
    """A timestamp behind the payload."""

    fields: tuple[Field, ...] = (PAYLOAD_FIELD, Field(TIMESTAMP, 8))


def test_a_field_that_nobody_knows_is_skipped_but_never_invented() -> None:
    versioned = replace(TOY, value_layout=_Versioned())
    raw = get_format(RAW)
    assert str(compile_conversion(versioned, raw)) == "key: copy the rest; value: skip 1, copy the rest"
    assert Conversion(versioned, raw).losses == ("loss:version",)
    assert compile_conversion(raw, versioned) is None
    assert Conversion(raw, versioned).convert(b"k", b"v") == (b"k", b"\x01v")


@pytest.mark.parametrize("layout", [_Seconds(), _Last()], ids=lambda layout: type(layout).__name__)
def test_fields_of_another_size_or_order_have_no_program(layout: SizedValue) -> None:
    other = replace(TOY, value_layout=layout)
    assert compile_conversion(other, TOY) is None
    assert compile_conversion(TOY, other) is None
    assert {field.name for field in layout.fields} == {TIMESTAMP, PAYLOAD}
