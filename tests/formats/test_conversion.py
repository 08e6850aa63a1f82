"""Conversions: which pairs make sense, and the user's functions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import pytest

from formats import (
    FORMATS,
    Conversion,
    EntryError,
    FunctionError,
    InvalidEntryError,
    StateRecord,
    Window,
    compile_conversion,
    conversion_problem,
    get_format,
)
from formats.serdes.numeric import NumberSerde
from tests.support import KEY_VALUE, RAW, TIMESTAMPED

WINDOW = "kafka-streams.window"
SESSION = "kafka-streams.session"
VERSIONED = "kafka-streams.versioned"

# Which pairs


def test_stores_of_one_kind_become_each_other() -> None:
    for source, target in product(FORMATS, FORMATS):
        kinds = {source.kind, target.kind}
        makes_sense = len(kinds) == 1 or kinds == {"key-value", "versioned"}
        makes_sense &= ("expiry" in source.carries) == ("expiry" in target.carries)
        assert (conversion_problem(source, target) is None) == makes_sense, f"{source.id} to {target.id}"


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        (
            KEY_VALUE,
            WINDOW,
            "kafka-streams.key-value holds one value for each key, kafka-streams.window holds one value for each key "
            "and window: there is no rule to turn one into the other",
        ),
        (
            SESSION,
            VERSIONED,
            "kafka-streams.session holds one value for each key and session, kafka-streams.versioned holds the history "
            "of each key: there is no rule to turn one into the other",
        ),
    ],
)
def test_a_pair_that_makes_no_sense_says_what_each_holds(source: str, target: str, problem: str) -> None:
    assert conversion_problem(get_format(source), get_format(target)) == problem


def test_different_serdes_without_a_program_have_none() -> None:
    texts = replace(get_format(RAW), value_serde=_Utf8())
    assert compile_conversion(get_format(RAW), texts) is None
    assert compile_conversion(texts, get_format(RAW)) is None


@dataclass(frozen=True, slots=True)
class _Utf8:
    name: str = "utf-8"

    def decode(self, payload: bytes) -> str:
        return payload.decode()

    def encode(self, payload: object) -> bytes:
        return str(payload).encode()


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


def test_a_function_sees_the_time_that_the_record_will_have_and_one_that_it_sets_wins() -> None:
    pair = get_format(KEY_VALUE), get_format(TIMESTAMPED)
    seen = Conversion(*pair, function=lambda record: replace(record, value=b"%d" % (record.timestamp_ms or 0)))
    assert seen.convert(b"k", b"v", 9) == (b"k", (9).to_bytes(8, "big") + b"9")
    chosen = Conversion(*pair, function=lambda record: replace(record, timestamp_ms=5))
    assert chosen.convert(b"k", b"v", 9) == (b"k", (5).to_bytes(8, "big") + b"v")


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
    with pytest.raises(InvalidEntryError, match=r"meant, .*key-change.* says so; .*, unless \[target\] partitions"):
        _convert(lambda record: replace(record, key=b"other"))


def test_a_changed_key_can_be_allowed() -> None:
    found = _convert(lambda record: replace(record, key=b"other"), keys_may_change=True, target=KEY_VALUE)
    assert found == (b"other", b"v")


def _numbered(format_id: str) -> Conversion:
    known = replace(get_format(format_id), key_serde=NumberSerde("int32"))
    return Conversion(known, known, function=lambda record: replace(record, key=record.key * 1))


def test_a_key_that_is_equal_is_the_same_key() -> None:
    key = (70_000).to_bytes(4, "big")
    assert _numbered(KEY_VALUE).convert(key, b"v") == (key, b"v")
    other = replace(_numbered(KEY_VALUE), function=lambda record: replace(record, key=record.key + 1))
    with pytest.raises(InvalidEntryError, match="changed the key"):
        other.convert(key, b"v")


def test_a_key_that_only_the_function_can_write_is_another_key() -> None:
    texts = replace(get_format(KEY_VALUE), key_serde=_Utf8())
    numbers = replace(get_format(KEY_VALUE), key_serde=NumberSerde("int32"))
    conversion = Conversion(texts, numbers, function=lambda record: replace(record, key=len(record.key)))
    with pytest.raises(InvalidEntryError, match="changed the key"):
        conversion.convert(b"key", b"v")
    assert replace(conversion, keys_may_change=True).convert(b"key", b"v") == (bytes([0, 0, 0, 3]), b"v")


@pytest.mark.parametrize("window", [Window(5), Window(5, sequence=1), Window(6, sequence=1)])
def test_a_changed_window_is_a_reject_whatever_is_allowed(window: Window) -> None:
    known = get_format(WINDOW)
    function: Callable[[StateRecord], StateRecord] = lambda record: replace(record, window=window)  # noqa: E731
    key, value = known.encode(StateRecord(b"k", b"v", window=Window(6, sequence=1)))
    if window == Window(6, sequence=1):
        assert Conversion(known, known, function=function).convert(key, value) == (key, value)
        return
    for may_change in (False, True):
        with pytest.raises(InvalidEntryError, match="changed the window"):
            Conversion(known, known, function=function, keys_may_change=may_change).convert(key, value)


@pytest.mark.parametrize("moved", [40, 60])
def test_a_newest_value_of_another_time_is_a_reject_where_it_has_a_history(moved: int) -> None:
    known = get_format(VERSIONED)
    conversion = Conversion(known, known, function=lambda record: replace(record, timestamp_ms=moved))
    with pytest.raises(InvalidEntryError, match="since when the newest value holds"):
        conversion.convert(*known.encode(StateRecord(b"k", b"v", timestamp_ms=50)))
    assert replace(conversion, source=get_format(TIMESTAMPED)).convert(b"k", (50).to_bytes(8, "big") + b"v")


def test_a_time_that_no_broker_takes_is_a_reject_unless_it_was_so_before() -> None:
    known = get_format(TIMESTAMPED)
    early, unknown = (at.to_bytes(8, "big", signed=True) + b"v" for at in (-7, -1))
    conversion = Conversion(known, known, function=lambda record: replace(record, timestamp_ms=-7))
    with pytest.raises(FunctionError, match="the time -7"):
        conversion.convert(b"k", unknown)
    assert conversion.convert(b"k", early) == (b"k", early)
    to_unknown = Conversion(known, known, function=lambda record: replace(record, timestamp_ms=-1))
    assert to_unknown.convert(b"k", early) == (b"k", unknown)


def test_a_key_in_another_layout_is_still_the_same_key() -> None:
    latest = bytes(b"\xff" * 8) + b"k", (5).to_bytes(8, "big") + b"v"
    for function in (None, _same):
        down = Conversion(get_format(VERSIONED), get_format(TIMESTAMPED), function=function)
        assert down.convert(*latest) == (b"k", (5).to_bytes(8, "big") + b"v")
        up = Conversion(get_format(TIMESTAMPED), get_format(VERSIONED), function=function)
        assert up.convert(b"k", (5).to_bytes(8, "big") + b"v") == latest


def _same(record: StateRecord) -> StateRecord:
    return record


def test_a_changed_key_is_nobodys_business_in_a_store_of_your_own() -> None:
    assert _convert(lambda record: replace(record, key=b"other"), target=RAW) == (b"other", b"v")
