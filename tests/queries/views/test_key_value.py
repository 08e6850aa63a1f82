"""Key-value views: ranges, prefixes, several partitions, types, and what cannot be read."""

from pathlib import Path
from typing import ClassVar

import pytest

from formats import EntryError, Headers
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import StringSerde
from migrate.errors import ConversionError, InvalidStateStoreError, StoreClosedError
from migrate.queries.views.composite import ValueAndTimestamp, ValueTimestampHeaders
from migrate.queries.views.view_types import QueryableStoreTypes as Types
from tests.queries.views.made import NAME, found, key_value, stores
from tests.support import KEY_VALUE, TIMESTAMPED

RECORDS = {b"a": b"1", b"ab": b"2", b"ac": b"3", b"b": b"4", b"\xff": b"5", b"\xff\xff": b"6"}
ALL = list(RECORDS.items())


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((None, None), ALL),
        ((b"ab", b"b"), ALL[1:4]),
        ((b"ab", b"ab"), ALL[1:2]),
        ((b"aa", b"az"), ALL[1:3]),
        ((b"b", None), ALL[3:]),
        ((None, b"ab"), ALL[:2]),
        ((None, b"\xff"), ALL[:5]),
        ((b"", b""), []),
        ((b"b", b"ab"), []),
        ((b"c", b"d"), []),
    ],
)
def test_a_range_has_both_its_ends(
    bounds: tuple[bytes | None, bytes | None], expected: list[tuple[bytes, bytes]], tmp_path: Path
) -> None:
    view = stores(key_value(tmp_path, RECORDS), KEY_VALUE).store(NAME, Types.key_value())
    assert found(view.range(*bounds)) == expected
    assert found(view.reverse_range(*bounds)) == expected[::-1]


def test_a_prefix_is_of_serialized_keys(tmp_path: Path) -> None:
    view = stores(key_value(tmp_path, RECORDS), KEY_VALUE).store(NAME, Types.key_value())
    assert found(view.prefix_scan(b"a")) == ALL[:3]
    assert found(view.prefix_scan(b"\xff")) == ALL[4:]
    assert found(view.prefix_scan(b"")) == ALL
    assert found(view.prefix_scan("ab", StringSerde())) == ALL[1:2]
    assert found(view.prefix_scan(b"abc")) == []


def test_partitions_follow_each_other_in_either_direction(tmp_path: Path) -> None:
    app = key_value(tmp_path, {b"b": b"0", b"d": b"0"}, {}, {b"a": b"2", b"c": b"2"})
    opened = stores(app, KEY_VALUE)
    view = opened.store(NAME, Types.key_value())
    assert found(view.all()) == [(b"b", b"0"), (b"d", b"0"), (b"a", b"2"), (b"c", b"2")]
    assert found(view.reverse_all()) == [(b"d", b"0"), (b"b", b"0"), (b"c", b"2"), (b"a", b"2")]
    assert [view.get(key) for key in (b"a", b"b", b"c", b"e")] == [b"2", b"0", b"2", None]
    assert view.approximate_num_entries() == 4
    alone = opened.store(NAME, Types.key_value(), partition=2)
    assert (alone.get(b"b"), found(alone.all())) == (None, [(b"a", b"2"), (b"c", b"2")])


class _Counting(StringSerde):
    read: ClassVar[list[int]] = []

    def decode(self, payload: bytes) -> str:
        self.read.append(len(payload))
        return super().decode(payload)


def test_few_large_records_are_held_at_a_time(tmp_path: Path) -> None:
    """Of 300 kB each, of which one pull has one; each as it is asked for, up to the next."""
    app = key_value(tmp_path, {b"k%02d" % number: b"x" * 300_000 for number in range(40)})
    view = stores(app, KEY_VALUE, value=_Counting()).store(NAME, Types.key_value())
    for ask in (view.all, view.reverse_all):
        _Counting.read.clear()
        with ask() as every:
            for taken, _ in enumerate(every, 1):
                assert len(_Counting.read) <= taken + 2
        assert len(_Counting.read) == 40


def test_an_empty_store_has_nothing(tmp_path: Path) -> None:
    view = stores(key_value(tmp_path, {}), KEY_VALUE).store(NAME, Types.key_value())
    assert view.get(b"a") is None
    assert [*view.all(), *view.reverse_all(), *view.prefix_scan(b"a")] == []
    assert view.approximate_num_entries() == 0


def test_keys_and_values_have_the_types_of_their_serdes(tmp_path: Path) -> None:
    records = {number.to_bytes(8, "big"): b"v%d" % number for number in (1, 2, 300)}
    opened = stores(key_value(tmp_path, records), KEY_VALUE, key=NumberSerde("int64"), value=StringSerde())
    view = opened.store(NAME, Types.key_value())
    assert view.get(300) == "v300"
    assert found(view.range(2, 300)) == [(2, "v2"), (300, "v300")]


@pytest.mark.parametrize(
    ("call", "key", "kind"),
    [*((call, "a", "str") for call in ("get", "range", "reverse_range", "prefix_scan")), ("get", None, "NoneType")],
)
def test_what_is_no_key_is_refused_at_once(call: str, key: str | None, kind: str, tmp_path: Path) -> None:
    view = stores(key_value(tmp_path, RECORDS), KEY_VALUE).store(NAME, Types.key_value())
    with pytest.raises(EntryError, match=f"expected bytes, got {kind}"):
        getattr(view, call)(key)


def test_an_entry_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    app = key_value(tmp_path, {b"good": b"text", b"wrong": b"\xff"})
    view = stores(app, KEY_VALUE, key=StringSerde(), value=StringSerde()).store(NAME, Types.key_value())
    with pytest.raises(ConversionError, match="wrong") as refused:
        view.get("wrong")
    assert refused.value.key == b"wrong"
    scan = view.all()
    assert next(scan) == ("good", "text")
    with pytest.raises(ConversionError, match="wrong"):
        next(scan)


def test_a_value_without_room_for_its_timestamp_is_named(tmp_path: Path) -> None:
    app = key_value(tmp_path, {b"short": b"1234567"}, family="keyValueWithTimestamp")
    for kind in (Types.key_value(), Types.timestamped_key_value()):
        with pytest.raises(ConversionError, match="short"):
            stores(app, TIMESTAMPED).store(NAME, kind).get(b"short")


def test_a_closed_iterator_is_closed_and_an_ended_one_ends(tmp_path: Path) -> None:
    view = stores(key_value(tmp_path, RECORDS), KEY_VALUE).store(NAME, Types.key_value())
    with view.all() as scan:
        assert next(scan) == ALL[0]
    with pytest.raises(StoreClosedError, match="the iterator over the store 'orders' is closed"):
        next(scan)
    scan.close()
    ended = view.all()
    assert found(ended) == ALL
    with pytest.raises(StopIteration):
        next(ended)


def test_a_store_with_timestamps_is_of_either_type(tmp_path: Path) -> None:
    records = {b"a": (7).to_bytes(8, "big") + b"x", b"b": b"\xff" * 8 + b"y"}
    opened = stores(key_value(tmp_path, records, family="keyValueWithTimestamp"), TIMESTAMPED)
    assert found(opened.store(NAME, Types.key_value()).all()) == [(b"a", b"x"), (b"b", b"y")]
    view = opened.store(NAME, Types.timestamped_key_value())
    assert (view.get(b"a"), view.get(b"b")) == (ValueAndTimestamp(b"x", 7), ValueAndTimestamp(b"y", -1))


def test_a_store_with_headers_is_of_all_three(tmp_path: Path) -> None:
    headers = b"\x02\x02h\x02v"  # one, its key of 1 byte, its value of 1
    value = bytes([len(headers) * 2]) + headers + (7).to_bytes(8, "big") + b"x"
    app = key_value(tmp_path, {b"a": value}, family="keyValueWithTimestampAndHeaders")
    opened = stores(app, "kafka-streams.headers-key-value")
    assert opened.store(NAME, Types.key_value()).get(b"a") == b"x"
    assert opened.store(NAME, Types.timestamped_key_value()).get(b"a") == ValueAndTimestamp(b"x", 7)
    carried = ValueTimestampHeaders(b"x", 7, Headers(headers))
    assert opened.store(NAME, Types.key_value_with_headers()).get(b"a") == carried


def test_a_type_that_the_store_is_not_is_named(tmp_path: Path) -> None:
    opened = stores(key_value(tmp_path, RECORDS), KEY_VALUE)
    for kind in (Types.timestamped_key_value(), Types.window(), Types.session(), Types.versioned()):
        with pytest.raises(InvalidStateStoreError) as refused:
            opened.store(NAME, kind)
        expected = f"cannot get the state store 'orders': it is of {KEY_VALUE}, and not of the type {kind}"
        assert refused.value.message == expected
