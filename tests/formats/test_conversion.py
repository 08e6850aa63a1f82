"""Conversions: the reference path, and the byte programs that must do the same."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import (
    FORMATS,
    ByteProgram,
    Conversion,
    EntryError,
    Format,
    FunctionError,
    InvalidEntryError,
    StateRecord,
    TruncatedEntryError,
    compile_conversion,
    get_format,
)
from formats.layout import PAYLOAD, Field
from formats.program import Copy, Insert, Skip, fixed_size, run_operations
from migrate.engine.columns import TooShortError, run_program
from migrate.stores.batch import Batch
from tests.support import KEY_VALUE, RAW, TIMESTAMPED

PAIRS = [pytest.param(source, target, id=f"{source.id}--{target.id}") for source, target in product(FORMATS, FORMATS)]
TIMESTAMPS = st.integers(-(1 << 63), (1 << 63) - 1)
ENTRIES = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), min_size=1, max_size=8)


def _by_reference(conversion: Conversion, key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    try:
        return conversion.convert(key, value)
    except TruncatedEntryError:
        return None


def _by_program(program: ByteProgram, key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    try:
        return run_operations(program.key, key), run_operations(program.value, value)
    except TruncatedEntryError:
        return None


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(entries=ENTRIES, default=TIMESTAMPS)
def test_a_program_does_what_the_reference_path_does(
    source: Format, target: Format, entries: list[tuple[bytes, bytes]], default: int
) -> None:
    program = compile_conversion(source, target, default_timestamp_ms=default)
    assert program is not None, "every pair of today's formats has a program"
    conversion = Conversion(source, target, default_timestamp_ms=default)
    assert conversion.program == program
    expected = [_by_reference(conversion, key, value) for key, value in entries]
    assert [_by_program(program, key, value) for key, value in entries] == expected


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(entries=ENTRIES, default=TIMESTAMPS)
def test_the_column_engine_does_what_the_program_means(
    source: Format, target: Format, entries: list[tuple[bytes, bytes]], default: int
) -> None:
    program = compile_conversion(source, target, default_timestamp_ms=default)
    assert program is not None
    expected = [_by_program(program, key, value) for key, value in entries]
    batch = Batch([key for key, _ in entries], [value for _, value in entries])
    if None in expected:
        with pytest.raises(TooShortError):
            run_program(program, batch)
        return
    converted = run_program(program, batch)
    assert list(zip(converted.keys, converted.values, strict=True)) == expected
    assert converted.joined_keys == b"".join(converted.keys)
    assert converted.joined_values == b"".join(converted.values)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_programs_are_data(source: Format, target: Format) -> None:
    program = compile_conversion(source, target)
    assert program is not None
    copy = pickle.loads(pickle.dumps(program))
    assert copy == program
    assert copy.fingerprint == program.fingerprint


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (KEY_VALUE, TIMESTAMPED, "key: copy the rest; value: insert ffffffffffffffff, copy the rest"),
        (TIMESTAMPED, KEY_VALUE, "key: copy the rest; value: skip 8, copy the rest"),
        (TIMESTAMPED, TIMESTAMPED, "key: copy the rest; value: copy 8, copy the rest"),
        (RAW, KEY_VALUE, "key: copy the rest; value: copy the rest"),
    ],
)
def test_a_program_reads_as_what_it_does(source: str, target: str, text: str) -> None:
    assert str(compile_conversion(get_format(source), get_format(target))) == text


def test_the_default_timestamp_is_part_of_the_fingerprint() -> None:
    pair = (get_format(KEY_VALUE), get_format(TIMESTAMPED))
    programs = [compile_conversion(*pair, default_timestamp_ms=default) for default in (-1, -1, 0)]
    prints = [program.fingerprint for program in programs if program is not None]
    assert prints[0] == prints[1] != prints[2]
    assert all(len(fingerprint) == 16 for fingerprint in prints)


def test_operations_read_from_left_to_right() -> None:
    operations = (Skip(1), Insert(b"--"), Copy(2), Skip(1), Copy(), Insert(b"!"))
    assert fixed_size(operations) == 4
    assert run_operations(operations, b"abcdef") == b"--bcef!"
    assert run_operations(operations, b"abcd") == b"--bc!"
    with pytest.raises(TruncatedEntryError):
        run_operations(operations, b"abc")


def test_a_function_rules_a_program_out() -> None:
    assert Conversion(get_format(RAW), get_format(RAW), function=lambda record: record).program is None


# Functions


def _convert(function: object, *, keys_may_change: bool = False, target: str = TIMESTAMPED) -> object:
    conversion = Conversion(
        get_format(KEY_VALUE),
        get_format(target),
        default_timestamp_ms=7,
        function=function,  # type: ignore[arg-type] # wrong ones are part of the test
        keys_may_change=keys_may_change,
    )
    return conversion.convert(b"k", b"v")


def test_a_function_changes_the_value_and_the_timestamp() -> None:
    found = _convert(lambda record: replace(record, value=record.value * 2, timestamp_ms=5))
    assert found == (b"k", (5).to_bytes(8, "big") + b"vv")


def test_the_default_timestamp_fills_what_a_function_leaves_open() -> None:
    assert _convert(lambda record: record) == (b"k", (7).to_bytes(8, "big") + b"v")


def test_a_function_drops_a_record_by_none() -> None:
    assert _convert(lambda record: None) is None


def test_a_function_sees_what_the_source_holds() -> None:
    seen: list[StateRecord] = []
    Conversion(get_format(TIMESTAMPED), get_format(RAW), function=seen.append).convert(b"k", bytes(7) + b"\x05v")
    assert seen == [StateRecord(b"k", b"v", 5)]


def test_what_a_function_raises_is_a_reject_with_its_reason() -> None:
    with pytest.raises(FunctionError, match=r"the function raised ZeroDivisionError: .*zero") as caught:
        _convert(lambda record: 1 // 0)
    assert isinstance(caught.value, EntryError)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("returned", [b"v", ("k", "v"), False, 0])
def test_what_a_function_returns_must_be_a_record(returned: object) -> None:
    with pytest.raises(FunctionError, match=f"returned {type(returned).__name__}, not a StateRecord"):
        _convert(lambda record: returned)


def test_a_function_must_return_what_the_serde_can_write() -> None:
    with pytest.raises(InvalidEntryError, match="expected bytes, got dict"):
        _convert(lambda record: replace(record, value={"a": 1}))


def test_a_changed_key_is_refused_where_it_decides_the_task() -> None:
    with pytest.raises(InvalidEntryError, match='allow = \\["key-change"\\]'):
        _convert(lambda record: replace(record, key=b"other"))


def test_a_changed_key_can_be_allowed() -> None:
    found = _convert(lambda record: replace(record, key=b"other"), keys_may_change=True, target=KEY_VALUE)
    assert found == (b"other", b"v")


def test_a_changed_key_is_nobodys_business_in_a_store_of_your_own() -> None:
    assert _convert(lambda record: replace(record, key=b"other"), target=RAW) == (b"other", b"v")


# A new format is one file and one line


@dataclass(frozen=True, slots=True)
class _ExpiringValue:
    """version u8 | timestamp, little-endian seconds u32 | payload"""

    fields: tuple[Field, ...] = (
        Field("version", 1, lambda number: number.to_bytes(1, "little")),
        Field("timestamp", 4, lambda number: (number // 1000 % (1 << 32)).to_bytes(4, "little")),
        Field(PAYLOAD, None),
    )

    def unpack(self, data: bytes) -> tuple[bytes, dict[str, int]]:
        if len(data) < 5:
            raise TruncatedEntryError("expiring value", len(data), 5)
        return data[5:], {"version": data[0], "timestamp": int.from_bytes(data[1:5], "little") * 1000}

    def pack(self, payload: bytes, carried: dict[str, int]) -> bytes:
        seconds = carried.get("timestamp", 0) // 1000 % (1 << 32)
        return bytes([carried.get("version", 0)]) + seconds.to_bytes(4, "little") + payload


TOY = Format(
    id="toy.expiring", summary="a format of this test", column_families=("default",), value_layout=_ExpiringValue()
)


@given(key=st.binary(max_size=20), version=st.integers(0, 255), seconds=st.integers(0, (1 << 32) - 1), rest=st.binary())
def test_a_new_format_converts_both_ways(key: bytes, version: int, seconds: int, rest: bytes) -> None:
    stored = bytes([version]) + seconds.to_bytes(4, "little") + rest
    to_raw = Conversion(TOY, get_format(RAW))
    assert to_raw.convert(key, stored) == (key, rest)
    assert to_raw.program is not None
    assert _by_program(to_raw.program, key, stored) == (key, rest)
    assert Conversion(TOY, get_format(TIMESTAMPED)).convert(key, stored) == (
        key,
        (seconds * 1000).to_bytes(8, "big") + rest,
    )
    assert to_raw.losses == ("loss:timestamp", "loss:version")


def test_a_field_of_another_size_has_no_program() -> None:
    assert compile_conversion(TOY, get_format(TIMESTAMPED)) is None


def test_a_field_without_a_known_default_has_no_program() -> None:
    assert compile_conversion(get_format(RAW), TOY) is None
    assert Conversion(get_format(RAW), TOY, default_timestamp_ms=9000).convert(b"k", b"v") == (
        b"k",
        b"\x00\x09\x00\x00\x00v",
    )


@dataclass(frozen=True, slots=True)
class _TimestampLast(_ExpiringValue):
    fields: tuple[Field, ...] = (Field("other", 2), Field("version", 1), Field(PAYLOAD, None))


@dataclass(frozen=True, slots=True)
class _VersionFirst(_ExpiringValue):
    fields: tuple[Field, ...] = (Field("version", 1), Field("other", 2), Field(PAYLOAD, None))


def test_fields_in_another_order_have_no_program() -> None:
    source = replace(TOY, value_layout=_TimestampLast())
    assert compile_conversion(source, replace(TOY, value_layout=_VersionFirst())) is None


@dataclass(frozen=True, slots=True)
class _Utf8:
    name: str = "utf-8"

    def decode(self, payload: bytes) -> str:
        return payload.decode()

    def encode(self, payload: object) -> bytes:
        return str(payload).encode()


def test_different_serdes_have_no_program() -> None:
    texts = replace(get_format(RAW), value_serde=_Utf8())
    assert compile_conversion(get_format(RAW), texts) is None
    assert compile_conversion(texts, texts) is not None
