"""Streamiz' formats: strict where its own reader is not, and the byte programs that lead to Kafka Streams and back."""

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from formats import (
    FORMATS,
    ByteProgram,
    Conversion,
    EntryError,
    Format,
    InvalidEntryError,
    StateRecord,
    TruncatedEntryError,
    compile_conversion,
    get_format,
)
from formats.program import run_operations
from formats.record import Window

TIMESTAMPED = get_format("streamiz.timestamped-key-value")
WINDOW = get_format("streamiz.timestamped-window")
STORED = bytes.fromhex("48ee000000000000020000007631")
MINE = [known for known in FORMATS if known.system == "streamiz"]
THEIRS = [known for known in FORMATS if known.system == "kafka-streams"]
PAIRS = [
    pytest.param(source, target, id=f"{source.id}--{target.id}")
    for source, target in [*product(MINE, MINE), *product(MINE, THEIRS), *product(THEIRS, MINE)]
    if source.kind == target.kind
]
KEYS = st.builds(bytes.__add__, st.binary(max_size=20), st.sampled_from([b"", bytes(12), b"\xff" * 12]))
SIZED = st.builds(
    lambda head, size, value: head + (len(value) if size is None else size).to_bytes(4, "little") + value,
    st.binary(min_size=8, max_size=8),
    st.none() | st.integers(0, 1 << 31),
    st.binary(max_size=20),
)
VALUES = st.binary(max_size=30) | SIZED


def test_there_are_four_and_none_shares_a_family_with_anything_else() -> None:
    assert {known.id.partition(".")[2]: known.column_families for known in MINE} == dict.fromkeys(
        ("key-value", "timestamped-key-value", "window", "timestamped-window"), ("default",)
    )
    assert all(known.has_changelog and known.keeps_keys_in_tasks and not known.metadata_families for known in MINE)


@pytest.mark.parametrize("size", range(12))
def test_a_value_cut_within_its_head_is_truncated(size: int) -> None:
    with pytest.raises(TruncatedEntryError, match=f"has {size} bytes, the layout needs at least 12"):
        TIMESTAMPED.decode(b"k", STORED[:size])


@pytest.mark.parametrize(("told", "follows"), [(3, b"v1"), (1, b"v1"), (0, b"v1"), (-1, b"v1"), (-1, b""), (1, b"")])
def test_a_size_that_is_not_that_of_the_rest_is_invalid(told: int, follows: bytes) -> None:
    value = STORED[:8] + told.to_bytes(4, "little", signed=True) + follows
    with pytest.raises(InvalidEntryError, match=f"says that it has {told} bytes, and {len(follows)} follow"):
        TIMESTAMPED.decode(b"k", value)


@pytest.mark.parametrize("timestamp", [1 << 63, -(1 << 63) - 1, 1.5, "now"])
def test_a_timestamp_that_does_not_fit_is_a_reject(timestamp: object) -> None:
    with pytest.raises(InvalidEntryError, match="not a signed 64-bit number"):
        TIMESTAMPED.encode(StateRecord(b"k", b"v", timestamp))  # type: ignore[arg-type]


@given(key=st.binary(max_size=20), value=st.binary(max_size=300), timestamp=st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_record_comes_back(key: bytes, value: bytes, timestamp: int) -> None:
    record = StateRecord(key, value, timestamp)
    assert TIMESTAMPED.decode(*TIMESTAMPED.encode(record)) == record
    in_a_window = StateRecord(key, value, timestamp, window=Window(timestamp, sequence=timestamp % 1000))
    assert WINDOW.decode(*WINDOW.encode(in_a_window)) == in_a_window


def test_a_record_without_a_timestamp_is_older_than_any() -> None:
    assert TIMESTAMPED.encode(StateRecord(b"k", b"v")) == (b"k", b"\xff" * 8 + b"\x01\x00\x00\x00v")


def _outcome(function: object, *args: object) -> object:
    try:
        return function(*args)  # type: ignore[operator]
    except EntryError:
        return "a reject"


def _run(program: ByteProgram, key: bytes, value: bytes) -> tuple[bytes, bytes]:
    return run_operations(program.key, key), run_operations(program.value, value)


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(key=KEYS, value=VALUES, default=st.integers(-(1 << 63), (1 << 63) - 1))
@example(key=bytes(13), value=STORED, default=-1)
def test_a_program_does_what_the_reference_path_does(
    source: Format, target: Format, key: bytes, value: bytes, default: int
) -> None:
    program = compile_conversion(source, target, default_timestamp_ms=default)
    assert program is not None
    conversion = Conversion(source, target, default_timestamp_ms=default)
    assert _outcome(_run, program, key, value) == _outcome(conversion.convert, key, value)


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ("streamiz.key-value", TIMESTAMPED.id, "insert 48ee000000000000, insert the size of the rest, copy the rest"),
        (TIMESTAMPED.id, "streamiz.key-value", "skip 8, skip the size of the rest, copy the rest"),
        (
            TIMESTAMPED.id,
            "kafka-streams.timestamped-key-value",
            "reverse 8, skip the size of the rest, copy the rest",
        ),
        (
            "kafka-streams.timestamped-key-value",
            TIMESTAMPED.id,
            "reverse 8, insert the size of the rest, copy the rest",
        ),
    ],
)
def test_a_program_reads_as_what_it_does(source: str, target: str, text: str) -> None:
    program = compile_conversion(get_format(source), get_format(target), default_timestamp_ms=61000)
    assert str(program) == f"key: copy the rest; value: {text}"


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_changelog_stays_right(source: Format, target: Format) -> None:
    assert not Conversion(source, target).changes_changelog
