"""The rows of a versioned store: RocksDBVersionedStoreSegmentValueFormatter's own, and what is refused."""

import pytest

from formats import (
    Conversion,
    EntryError,
    Format,
    FormatError,
    History,
    InvalidEntryError,
    StateRecord,
    Version,
    get_format,
)

VERSIONED = get_format("kafka-streams.versioned")
SEGMENT_2 = bytes(7) + b"\2k"
ROWS = [
    # Written by Kafka Streams: k -> v1 at 61000, replaced at 62000.
    ("000000000000f230 000000000000ee48 000000000000ee48 00000002 7631", 62000, [(61000, b"v1")]),
    # By the formatter's rules: foo since 8, bar since 3, baz since 0, until 10.
    (
        "000000000000000a 0000000000000000 0000000000000008 00000003 0000000000000003 00000003 0000000000000000 "
        "00000003 62617a 626172 666f6f",
        10,
        [(8, b"foo"), (3, b"bar"), (0, b"baz")],
    ),
    ("000000000000000a 0000000000000001 0000000000000001 ffffffff", 10, [(1, None)]),
    # A key that was deleted before it was ever written: its time ends when it begins.
    ("000000000000000a 000000000000000a 000000000000000a ffffffff", 10, [(10, None)]),
    (
        "000000000000000a 0000000000000001 0000000000000005 00000000 0000000000000001 ffffffff",
        10,
        [(5, b""), (1, None)],
    ),
]


def _history(valid_to: int, versions: list[tuple[int, bytes | None]]) -> StateRecord:
    found = tuple(Version(begun, value) for begun, value in versions)
    return StateRecord(b"k", None, history=History(2, valid_to, found))


@pytest.mark.parametrize(("row", "valid_to", "versions"), ROWS)
def test_a_keys_former_values_are_read_and_written(
    row: str, valid_to: int, versions: list[tuple[int, bytes | None]]
) -> None:
    record = _history(valid_to, versions)
    assert VERSIONED.decode(SEGMENT_2, bytes.fromhex(row)) == record
    assert VERSIONED.encode(record) == (SEGMENT_2, bytes.fromhex(row))


GOOD = bytes.fromhex(ROWS[1][0])


@pytest.mark.parametrize("size", range(len(GOOD)))
def test_a_row_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(EntryError):
        VERSIONED.decode(SEGMENT_2, GOOD[:size])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (ROWS[0][0] + "00", "1 bytes longer than their sizes say"),
        (ROWS[0][0].replace("00000002", "00000003"), "-1 bytes longer"),
        (ROWS[0][0].replace("00000002", "fffffffe"), "a size of -2"),
        ("000000000000000a 0000000000000001 0000000000000005 00000000 0000000000000005 00000000", "begins at 5"),
        ("000000000000000a 0000000000000001 0000000000000005 00000000 0000000000000006 00000000", "begins at 6"),
        ("000000000000000a 0000000000000001 0000000000000005 00000000", "needs at least 40"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(row: str, reason: str) -> None:
    with pytest.raises(EntryError, match=reason):
        VERSIONED.decode(SEGMENT_2, bytes.fromhex(row))


@pytest.mark.parametrize("size", range(8))
def test_a_key_without_its_segment_is_refused(size: int) -> None:
    with pytest.raises(EntryError, match=f"key of a versioned store has {size} bytes"):
        VERSIONED.decode(bytes(size), GOOD)


def test_a_segment_before_time_began_is_refused() -> None:
    with pytest.raises(InvalidEntryError, match="no segment -2"):
        VERSIONED.decode((-2).to_bytes(8, "big", signed=True) + b"k", GOOD)


@pytest.mark.parametrize("timestamp", [None, -1, -5])
def test_a_value_of_unknown_time_cannot_be_written(timestamp: int | None) -> None:
    with pytest.raises(InvalidEntryError, match=r"its timestamp is unknown.*default_timestamp_ms"):
        VERSIONED.encode(StateRecord(b"k", b"v", timestamp))


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (History(2, 10, ()), "no version"),
        (History(1 << 63, 10, (Version(1, b""),)), "does not fit"),
        (History(2, 1 << 63, (Version(1, b""),)), "does not fit"),
        (History(2, 10, (Version(1.5, b""),)), "does not fit"),  # type: ignore[arg-type]  # of a function
    ],
)
def test_a_history_that_cannot_be_written_is_a_reject(history: History, reason: str) -> None:
    with pytest.raises(InvalidEntryError, match=reason):
        VERSIONED.encode(StateRecord(b"k", None, history=history))


# Conversions: by the reference path alone

LATEST = (b"\xff" * 8 + b"k", (5).to_bytes(8, "big") + b"v")


@pytest.mark.parametrize(
    ("target", "stored"),
    [
        ("kafka-streams.key-value", (b"k", b"v")),
        ("kafka-streams.timestamped-key-value", (b"k", (5).to_bytes(8, "big") + b"v")),
        ("kafka-streams.headers-key-value", (b"k", b"\0" + (5).to_bytes(8, "big") + b"v")),
        ("rocksdb.raw", (b"k", b"v")),
    ],
)
def test_a_store_without_history_gets_the_latest_values(target: str, stored: tuple[bytes, bytes]) -> None:
    conversion = Conversion(VERSIONED, get_format(target))
    assert conversion.program is None
    assert conversion.convert(*LATEST) == stored
    assert conversion.convert(SEGMENT_2, GOOD) is None
    assert "loss:history" in conversion.losses
    with pytest.raises(FormatError):
        conversion.convert(SEGMENT_2, GOOD[:-1])


def test_a_versioned_store_of_another_serde_keeps_its_history() -> None:
    conversion = Conversion(VERSIONED, VERSIONED)
    assert conversion.losses == ()
    assert conversion.convert(*LATEST) == LATEST
    assert conversion.convert(SEGMENT_2, GOOD) == (SEGMENT_2, GOOD)


@pytest.mark.parametrize("known", ["kafka-streams.timestamped-key-value", "kafka-streams.headers-key-value"])
def test_a_value_becomes_the_latest_one_since_its_timestamp(known: str) -> None:
    source: Format = get_format(known)
    conversion = Conversion(source, VERSIONED, default_timestamp_ms=7)
    assert conversion.convert(*source.encode(StateRecord(b"k", b"v", 5))) == LATEST
    with pytest.raises(InvalidEntryError, match="its timestamp is unknown"):
        conversion.convert(*source.encode(StateRecord(b"k", b"v", -1)))


def test_a_plain_value_becomes_the_latest_one_since_the_default_timestamp() -> None:
    plain = get_format("kafka-streams.key-value")
    assert Conversion(plain, VERSIONED, default_timestamp_ms=5).convert(b"k", b"v") == LATEST
    with pytest.raises(InvalidEntryError, match="give \\[conversion\\] default_timestamp_ms"):
        Conversion(plain, VERSIONED).convert(b"k", b"v")
