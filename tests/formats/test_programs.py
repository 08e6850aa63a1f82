"""Byte programs: the same as the reference path, entry for entry, in what they make and in what they refuse."""

import pickle
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import FORMATS, ByteProgram, Conversion, EntryError, Format, compile_conversion, get_format
from formats.conversion import conversion_problem, upgrade_program
from formats.format import OlderFamily
from formats.program import (
    IDENTITY,
    Choose,
    Copy,
    Insert,
    InsertSize,
    Operation,
    Reverse,
    Skip,
    SkipSize,
    SpanOperation,
    fixed_size,
    run_operations,
)
from migrate.engine.bail_out import BailOutError
from migrate.engine.columns import compile_program
from migrate.stores.batch import Batch
from tests.formats.entries import INT64, TIMES, Entry, entries
from tests.support import KEY_VALUE, RAW, TIMESTAMPED

HEADERS = "kafka-streams.headers-key-value"
POSSIBLE = [pair for pair in product(FORMATS, FORMATS) if conversion_problem(*pair) is None]
COMPILED = [pair for pair in POSSIBLE if "versioned" not in (pair[0].kind, pair[1].kind)]
UPGRADES = [(known, older) for known in FORMATS for older in known.older_families]


def _by_reference(conversion: Conversion, entry: Entry) -> Entry | None:
    try:
        return conversion.convert(*entry)
    except EntryError:
        return None


def _by_program(program: ByteProgram, entry: Entry) -> Entry | None:
    try:
        return run_operations(program.key, entry[0]), run_operations(program.value, entry[1])
    except EntryError:
        return None


def _by_columns(program: ByteProgram, some: list[Entry]) -> list[Entry] | None:
    sizes = {(len(key), len(value)) for key, value in some}
    batch = Batch([key for key, _ in some], [value for _, value in some], sizes.pop() if len(sizes) == 1 else None)
    try:
        converted = compile_program(program)(batch)
    except BailOutError:
        return None
    assert converted.joined_keys == b"".join(converted.keys)
    assert converted.joined_values == b"".join(converted.values)
    return list(zip(converted.keys, converted.values, strict=True))


def test_every_pair_that_makes_sense_has_a_program() -> None:
    assert len(COMPILED) >= 29
    assert [pair for pair in COMPILED if compile_conversion(*pair) is None] == []
    assert [pair for pair in POSSIBLE if pair not in COMPILED and compile_conversion(*pair) is not None] == []


@settings(max_examples=600)
@given(data=st.data(), pair=st.sampled_from(COMPILED), default=TIMES)
def test_reference_program_and_columns_do_the_same(
    data: st.DataObject, pair: tuple[Format, Format], default: int
) -> None:
    conversion = Conversion(*pair, default_timestamp_ms=default)
    program = conversion.program
    assert program is not None
    some = data.draw(st.lists(entries(conversion.source), min_size=1, max_size=6))
    expected = [_by_reference(conversion, entry) for entry in some]
    assert [_by_program(program, entry) for entry in some] == expected
    assert _by_columns(program, some) == (None if None in expected else expected)
    alike = [some[0]] * 20
    assert _by_columns(program, alike) == (None if expected[0] is None else [expected[0]] * 20)


@given(payload=st.binary(max_size=20), pair=st.sampled_from(UPGRADES), timestamp=INT64)
def test_what_an_older_family_lacks_is_unknown(
    payload: bytes, pair: tuple[Format, OlderFamily], timestamp: int
) -> None:
    known, older = pair
    stored = older.value_layout.pack(payload, {"timestamp": timestamp})
    upgraded = known.value_layout.pack(*older.value_layout.unpack(stored))
    assert run_operations(upgrade_program(older.value_layout, known), stored) == upgraded


def test_the_owners_own_upgrades_only_put_something_before_a_value() -> None:
    texts = {(known.id, older.name): _show(upgrade_program(older.value_layout, known)) for known, older in UPGRADES}
    assert texts == {
        (TIMESTAMPED, "default"): "insert ffffffffffffffff, copy the rest",
        (HEADERS, "keyValueWithTimestamp"): "insert 00, copy the rest",
        (HEADERS, "default"): "insert 00, insert ffffffffffffffff, copy the rest",
        ("kafka-streams.timestamped-window", "default"): "insert ffffffffffffffff, copy the rest",
        ("kafka-streams.headers-window", "keyValueWithTimestamp"): "insert 00, copy the rest",
        ("kafka-streams.headers-window", "default"): "insert 00, insert ffffffffffffffff, copy the rest",
        ("kafka-streams.headers-session", "default"): "insert 00, copy the rest",
    }


def _show(operations: tuple[Operation, ...]) -> str:
    return ", ".join(map(str, operations))


@pytest.mark.parametrize("pair", COMPILED, ids=lambda pair: f"{pair[0].id}--{pair[1].id}")
def test_programs_are_data(pair: tuple[Format, Format]) -> None:
    program = compile_conversion(*pair)
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
        (TIMESTAMPED, HEADERS, "key: copy the rest; value: insert 00, copy 8, copy the rest"),
        (HEADERS, HEADERS, "key: copy the rest; value: copy a span, copy 8, copy the rest"),
        (HEADERS, KEY_VALUE, "key: copy the rest; value: skip a span, skip 8, copy the rest"),
        (
            "kafka-streams.headers-window",
            "kafka-streams.timestamped-window",
            "key: copy the rest, copy 8, copy 4; value: skip a span, copy 8, copy the rest",
        ),
        (
            "kafka-streams.session",
            "kafka-streams.headers-session",
            "key: copy the rest, copy 8, copy 8; value: insert 00, copy the rest",
        ),
    ],
)
def test_a_program_reads_as_what_it_does(source: str, target: str, text: str) -> None:
    assert str(compile_conversion(get_format(source), get_format(target))) == text


def test_every_operation_reads_as_what_it_does() -> None:
    choice = Choose(((b"\0\0\0\0\1", (Insert(b"\0\0\0\0\2"), Copy())), (b"\1", (Skip(2), Copy()))))
    assert _show((Reverse(8), SkipSize(), InsertSize(), SpanOperation("skip"), choice)) == (
        "reverse 8, skip the size of the rest, insert the size of the rest, skip a span, "
        "choose (0000000001: insert 0000000002, copy the rest; 01: skip 2, copy the rest)"
    )


def test_the_default_timestamp_is_part_of_the_fingerprint() -> None:
    pair = (get_format(KEY_VALUE), get_format(TIMESTAMPED))
    programs = [compile_conversion(*pair, default_timestamp_ms=default) for default in (-1, -1, 0)]
    prints = [program.fingerprint for program in programs if program is not None]
    assert prints[0] == prints[1] != prints[2]
    assert all(len(fingerprint) == 16 for fingerprint in prints)


# What operations mean

CHOICE = (Choose(((b"a", (Skip(1), Copy())), (b"bc", (InsertSize(), Copy())))), Copy(1))


@pytest.mark.parametrize(
    ("operations", "data", "expected"),
    [
        ((Skip(1), Insert(b"--"), Copy(2), Skip(1), Copy(), Insert(b"!")), b"abcdef", b"--bcef!"),
        ((Skip(1), Insert(b"--"), Copy(2), Skip(1), Copy(), Insert(b"!")), b"abcd", b"--bc!"),
        ((Copy(), Reverse(3), Copy(1)), b"abcdef", b"abedcf"),
        ((SpanOperation("copy"), Copy()), b"\x04abcd", b"\x04abcd"),
        ((SpanOperation("skip"), Copy()), b"\x04abcd", b"cd"),
        ((SpanOperation("skip"), Copy(1), Copy()), b"\x80\x01" + bytes(64) + b"ab", b"ab"),
        ((Copy(1), SkipSize(), Copy()), b"a\2\0\0\0bc", b"abc"),
        ((Copy(1), InsertSize(), Copy(), Insert(b"!")), b"abc", b"a\3\0\0\0bc!"),
        ((InsertSize(), Copy(1), InsertSize(), Copy()), b"ab", b"\6\0\0\0a\1\0\0\0b"),
        (CHOICE, b"axyz", b"yz"),
        (CHOICE, b"bcxyz", b"\2\0\0\0xyz"),
        ((), b"", b""),
    ],
)
def test_operations_read_from_left_to_right(operations: tuple[Operation, ...], data: bytes, expected: bytes) -> None:
    assert run_operations(operations, data) == expected


@pytest.mark.parametrize(
    ("operations", "data", "reason"),
    [
        ((Skip(1), Copy(2), Skip(1), Copy()), b"abc", "entry has 3 bytes, the layout needs at least 4"),
        ((SpanOperation("skip"), Copy(2)), b"\x04abc", "entry has 4 bytes, the layout needs at least 5"),
        ((SpanOperation("skip"), Copy()), b"\x04a", "entry has 2 bytes, the layout needs at least 3"),
        ((SpanOperation("skip"), Copy()), b"\x01abc", "a span has a size of -1"),
        ((SpanOperation("skip"), Copy()), b"\x80\x00", "a varint is not in the form that its owner writes"),
        ((SpanOperation("skip"), Copy()), b"\x80", "varint has 1 bytes, the layout needs at least 2"),
        ((SkipSize(), Copy()), b"\3\0\0\0ab", "the value says that it has 3 bytes, and 2 follow"),
        ((Copy(2),), b"abc", "1 bytes are left over"),
        (CHOICE, b"cxyz", "no case for bytes that begin with 637879"),
        (CHOICE, b"a", "no case for bytes that begin with nothing"),
        ((), b"a", "1 bytes are left over"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(
    operations: tuple[Operation, ...], data: bytes, reason: str
) -> None:
    with pytest.raises(EntryError, match=f"^{reason}$"):
        run_operations(operations, data)


def test_the_least_size_is_what_the_operations_need() -> None:
    assert (
        fixed_size(
            (Copy(2), Skip(1), Reverse(4), SpanOperation("copy"), SkipSize(), InsertSize(), Insert(b"x"), *CHOICE)
        )
        == 13
    )
    assert fixed_size(IDENTITY) == 0
