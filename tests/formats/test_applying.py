"""What a user's function leaves out stays as it was, and former values are given to it one by one."""

import inspect
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from formats import (
    Conversion,
    Format,
    FunctionError,
    Headers,
    History,
    InvalidEntryError,
    LossError,
    StateRecord,
    Window,
    get_format,
)

VERSIONED = get_format("kafka-streams.versioned")
TIMESTAMPED = get_format("kafka-streams.timestamped-key-value")
WITH_HEADERS = get_format("kafka-streams.headers-key-value")
WINDOWED = get_format("kafka-streams.timestamped-window")
LATEST = (struct.pack(">q", -1) + b"k", struct.pack(">q", 900) + b"new")
FORMER = (
    struct.pack(">q", 3) + b"k",
    struct.pack(">qqqiqiqi", 900, 100, 500, 3, 300, -1, 100, 3) + b"old" + b"mid",
)
"""`mid` since 500, deleted at 300, `old` since 100."""
IN_A_WINDOW = (b"k" + struct.pack(">qi", 60_000, 2), struct.pack(">q", 61_000) + b"v")

Apply = Callable[[StateRecord], StateRecord | None]


def _shout(record: StateRecord) -> StateRecord:
    return StateRecord(record.key, record.value.upper())


def test_timestamp_and_headers_stay_where_a_function_leaves_them_out() -> None:
    value = bytes.fromhex("0a0202680278") + struct.pack(">q", 61_000)
    conversion = Conversion(WITH_HEADERS, WITH_HEADERS, function=_shout)
    assert conversion.convert(b"k", value + b"v") == (b"k", value + b"V")


def test_a_function_may_say_that_there_are_none() -> None:
    value = bytes.fromhex("0a0202680278") + struct.pack(">q", 61_000) + b"v"
    conversion = Conversion(
        WITH_HEADERS, WITH_HEADERS, function=lambda record: replace(record, timestamp_ms=-1, headers=Headers())
    )
    assert conversion.convert(b"k", value) == (b"k", b"\0" + b"\xff" * 8 + b"v")


def test_the_window_stays_where_a_function_leaves_it_out() -> None:
    key, value = IN_A_WINDOW
    assert Conversion(WINDOWED, WINDOWED, function=_shout).convert(key, value) == (key, value.upper())


def _versioned(function: Apply, entry: tuple[bytes, bytes]) -> tuple[bytes, bytes] | None:
    return Conversion(VERSIONED, VERSIONED, function=function).convert(*entry)


def test_each_former_value_is_a_record_of_its_own_time() -> None:
    seen: list[StateRecord] = []

    def look(record: StateRecord) -> StateRecord:
        seen.append(record)
        return _shout(record)

    assert _versioned(look, FORMER) == (FORMER[0], FORMER[1][:-6] + b"OLD" + b"MID")
    assert seen == [StateRecord(b"k", b"mid", 500), StateRecord(b"k", b"old", 100)]
    assert _versioned(look, LATEST) == (LATEST[0], LATEST[1][:8] + b"NEW")


def test_a_former_value_that_is_dropped_was_deleted_then() -> None:
    found = _versioned(lambda record: None if record.value == b"mid" else record, FORMER)
    assert found == (FORMER[0], struct.pack(">qqqiqiqi", 900, 100, 500, -1, 300, -1, 100, 3) + b"old")
    assert _versioned(lambda record: None, FORMER) is None


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda record: replace(record, timestamp_ms=7), "since when a former value held"),
        (lambda record: replace(record, key=record.value), "several keys"),
        (lambda record: record.value, "not a StateRecord"),
    ],
)
def test_what_would_put_a_history_into_disorder_is_a_reject(function: Apply, words: str) -> None:
    with pytest.raises(FunctionError, match=words):
        _versioned(function, FORMER)


def test_a_former_value_that_is_dropped_is_counted() -> None:
    def but_mid(record: StateRecord) -> StateRecord | None:
        return None if record.value == b"mid" else record

    for function, of_former, of_latest in ((but_mid, 1, 0), (lambda record: None, 2, 1)):
        conversion = Conversion(VERSIONED, VERSIONED, function=function)
        assert conversion.convert_counting(*FORMER)[1] == of_former
        assert conversion.convert_counting(*LATEST)[1] == of_latest
    lost = Conversion(VERSIONED, TIMESTAMPED, function=lambda record: None)
    assert lost.convert_counting(*FORMER) == (None, 0)  # by the formats: the function does not see it


def test_a_key_that_is_changed_is_changed_in_the_history_too() -> None:
    conversion = Conversion(
        VERSIONED, VERSIONED, function=lambda record: replace(record, key=b"other"), keys_may_change=True
    )
    for entry in (LATEST, FORMER):
        assert conversion.convert(*entry) == (entry[0][:8] + b"other", entry[1])


def test_the_segment_in_a_versioned_key_is_no_part_of_the_users_key() -> None:
    conversion = Conversion(TIMESTAMPED, VERSIONED, function=lambda record: replace(record, key=b"other"))
    with pytest.raises(InvalidEntryError, match="key-change"):
        conversion.convert(b"k", LATEST[1])


PLAIN = get_format("kafka-streams.key-value")
ONE = Headers.of([("__TypeId__", b"New")])


@pytest.mark.parametrize("target", [WITH_HEADERS, PLAIN], ids=["with-room", "without"])
@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (Headers(b"\xff\xff"), "cannot be read"),
        (Headers(b"\2"), "cannot be read"),
        (Headers(ONE.encoded + b"\0"), "1 bytes follow the last header"),
        (Headers(b"\2\2\xff\0"), "not UTF-8"),
        (Headers("New"), "Headers of str, not of bytes"),  # type: ignore[arg-type]
        (Headers(pair for pair in ONE), "Headers of generator, not of bytes: Headers.of"),  # type: ignore[arg-type]
        ([("__TypeId__", b"New")], "list as headers"),
    ],
)
def test_headers_that_nobody_could_read_are_a_reject(target: Format, headers: Headers, words: str) -> None:
    conversion = Conversion(PLAIN, target, function=lambda record: replace(record, headers=headers))
    with pytest.raises(FunctionError, match=words):
        conversion.convert(b"k", b"v")


@pytest.mark.parametrize(
    ("source", "value", "target", "loss", "function"),
    [
        (PLAIN, b"v", PLAIN, "loss:timestamp", lambda record: replace(record, timestamp_ms=5)),
        (PLAIN, b"v", PLAIN, "loss:headers", lambda record: replace(record, headers=ONE)),
        (TIMESTAMPED, LATEST[1], PLAIN, "loss:timestamp", lambda record: replace(record, timestamp_ms=5)),
        (TIMESTAMPED, LATEST[1], TIMESTAMPED, "loss:headers", lambda record: replace(record, headers=ONE)),
    ],
)
def test_a_time_or_headers_without_room_are_not_given_in_vain(
    source: Format, value: bytes, target: Format, loss: str, function: Apply
) -> None:
    conversion = Conversion(source, target, function=function)
    with pytest.raises(LossError, match="no room") as caught:
        conversion.convert(b"k", value)
    assert caught.value.loss == loss
    allowed = replace(conversion, may_lose=frozenset({loss}))
    assert allowed.convert(b"k", value) == Conversion(source, target).convert(b"k", value)


def test_former_values_are_given_nothing_in_vain_either() -> None:
    with pytest.raises(LossError, match="headers, which the new format has no room for"):
        _versioned(lambda record: replace(record, headers=ONE), FORMER)


def test_what_was_there_and_what_says_nothing_are_no_loss_of_the_function() -> None:
    said = Conversion(PLAIN, PLAIN, function=lambda record: replace(record, timestamp_ms=-1, headers=Headers()))
    assert said.convert(b"k", b"v") == (b"k", b"v")
    assert Conversion(TIMESTAMPED, PLAIN, function=lambda record: record).convert(*LATEST) == (LATEST[0], b"new")


@pytest.mark.parametrize("change", [{"window": Window(5)}, {"history": History(0, 9, ())}], ids=["window", "history"])
def test_a_place_that_the_store_does_not_have_is_a_reject(change: dict[str, Any]) -> None:
    with pytest.raises(FunctionError, match=next(iter(change))):
        Conversion(PLAIN, PLAIN, function=lambda record: replace(record, **change)).convert(b"k", b"v")


def _in_the_standard_library(record: StateRecord) -> StateRecord:
    json.loads(record.value)
    return record


def _place_of(function: Apply) -> str:
    raw = get_format("rocksdb.raw")
    with pytest.raises(FunctionError) as caught:
        Conversion(raw, raw, function=function).convert(b"k", b"{")
    return caught.value.place


def test_the_place_of_a_failure_is_in_the_users_own_code() -> None:
    line = inspect.getsourcelines(_in_the_standard_library)[1] + 1
    assert _place_of(_in_the_standard_library) == f"tests/formats/test_applying.py:{line}"
    assert _place_of(json.loads).startswith("json/__init__.py:")  # type: ignore[arg-type]
    assert _place_of(lambda _: 5) == ""  # type: ignore[arg-type, return-value]
