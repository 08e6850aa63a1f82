"""Queries and their results: of every kind of store, of every reason to fail, by partition."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from formats import EntryError
from formats.serdes.text import StringSerde
from migrate.errors import ConversionError, StateStoreMigratedError, StoreNotReadyError, UnknownStateStoreError
from migrate.queries.open.partition import Partition, StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.requests import (
    FailureReason,
    KeyQuery,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    Query,
    QueryResult,
    RangeQuery,
    StateQueryRequest,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
    answer,
)
from migrate.queries.views.composite import ValueAndTimestamp, VersionedRecord
from tests.queries.views.made import NAME, PLACE, former, found, key_value, latest, replace_by, segmented, stores
from tests.shared.windowed import session_key, window_key
from tests.support import KEY_VALUE, TIMESTAMPED, flip_byte

RECORDS = {b"a": b"1", b"b": b"2", b"c": b"3"}


def request(query: Query) -> StateQueryRequest:
    return StateQueryRequest.in_store(NAME).with_query(query)


def asked(opened: QueryableStores, query: Query) -> Any:  # noqa: ANN401
    """The result of the one partition; a scan as a list."""
    (result,) = opened.query(request(query)).partition_results.values()
    assert result.is_success, result
    return found(result.result) if isinstance(result.result, Iterator) else result.result


def failure(result: QueryResult) -> FailureReason | None:
    assert result.is_failure == bool(result.failure_message) == (result.failure_reason is not None)
    assert result.result is None or result.is_success
    return result.failure_reason


def test_key_value_stores_answer_by_key_and_range(tmp_path: Path) -> None:
    opened = stores(key_value(tmp_path, RECORDS), KEY_VALUE)
    assert asked(opened, KeyQuery.with_key(b"b").skip_cache()) == b"2"
    assert asked(opened, KeyQuery.with_key(b"x")) is None
    every = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert asked(opened, RangeQuery.with_no_bounds()) == every
    assert asked(opened, RangeQuery.with_range(b"a", b"b").with_ascending_keys()) == every[:2]
    assert asked(opened, RangeQuery.with_lower_bound(b"b").with_descending_keys()) == every[:0:-1]
    assert asked(opened, RangeQuery.with_upper_bound(b"b")) == every[:2]
    assert asked(opened, RangeQuery.with_range(b"b", b"a")) == []


def test_stores_with_timestamps_answer_with_them_if_asked(tmp_path: Path) -> None:
    app = key_value(tmp_path, {b"a": (7).to_bytes(8, "big") + b"x"}, family="keyValueWithTimestamp")
    opened = stores(app, TIMESTAMPED)
    assert asked(opened, KeyQuery.with_key(b"a")) == b"x"
    assert asked(opened, TimestampedKeyQuery.with_key(b"a")) == ValueAndTimestamp(b"x", 7)
    assert asked(opened, RangeQuery.with_no_bounds()) == [(b"a", b"x")]
    assert asked(opened, TimestampedRangeQuery.with_no_bounds()) == [(b"a", ValueAndTimestamp(b"x", 7))]


def test_window_stores_answer_by_key_and_by_time(tmp_path: Path) -> None:
    app = segmented(tmp_path, {0: {window_key(key, start): key for key in (b"a", b"b") for start in (1, 5)}})
    opened = stores(app, "kafka-streams.window", window_size_ms=10)
    assert asked(opened, WindowKeyQuery.with_key_and_window_start_range(b"a", 1, 4)) == [(1, b"a")]
    expected = [(b"a", 5, 15, b"a"), (b"b", 5, 15, b"b")]
    assert asked(opened, WindowRangeQuery.with_window_start_range(2, 5)) == expected


def test_session_stores_answer_by_key(tmp_path: Path) -> None:
    app = segmented(tmp_path, {0: {session_key(b"a", 1, 2): b"x", session_key(b"b", 1, 2): b"y"}})
    assert asked(stores(app, "kafka-streams.session"), WindowRangeQuery.with_key(b"b")) == [(b"b", 1, 2, b"y")]


def test_versioned_stores_answer_by_key_and_time(tmp_path: Path) -> None:
    app = key_value(tmp_path, dict([latest(b"a", 20, b"new"), former(0, b"a", 20, (10, b"old"))]))
    opened = stores(app, "kafka-streams.versioned")
    newest, old = VersionedRecord(b"new", 20), VersionedRecord(b"old", 10, 20)
    assert asked(opened, VersionedKeyQuery.with_key(b"a")) == newest
    assert asked(opened, VersionedKeyQuery.with_key(b"a").as_of(19)) == old
    every = MultiVersionedKeyQuery.with_key(b"a")
    assert asked(opened, every) == asked(opened, every.with_descending_timestamps()) == [newest, old]
    assert asked(opened, every.with_ascending_timestamps()) == [old, newest]
    assert asked(opened, every.from_time(5).to_time(19)) == [old]


UNKNOWN = [
    (KEY_VALUE, [TimestampedKeyQuery(b"a"), WindowKeyQuery(b"a", 0, 1), VersionedKeyQuery(b"a")]),
    ("kafka-streams.window", [KeyQuery(b"a"), RangeQuery(), WindowRangeQuery.with_key(b"a"), VersionedKeyQuery(b"a")]),
    ("kafka-streams.session", [KeyQuery(b"a"), WindowKeyQuery(b"a", 0, 1), WindowRangeQuery(None, 0, 1)]),
    ("kafka-streams.versioned", [KeyQuery(b"a"), TimestampedRangeQuery(), WindowRangeQuery.with_key(b"a")]),
]  # fmt: skip


@pytest.mark.parametrize(("format", "queries"), UNKNOWN)
def test_what_a_kind_of_store_does_not_answer_is_an_unknown_query(
    format: str, queries: list[Query], tmp_path: Path
) -> None:
    is_segmented = format.endswith(("window", "session"))
    app = segmented(tmp_path, {0: {}}) if is_segmented else key_value(tmp_path, {})
    for query in queries:
        (result,) = stores(app, format).query(request(query)).partition_results.values()
        assert failure(result) is FailureReason.UNKNOWN_QUERY_TYPE, query
        assert type(query).__name__ in result.failure_message


def test_partitions_that_are_not_here_have_a_reason(tmp_path: Path) -> None:
    app = key_value(tmp_path, RECORDS, {b"z": b"9"})
    opened = stores(app, KEY_VALUE, partitions=4)
    results = opened.query(request(KeyQuery(b"z")).with_partitions({1, 2, 4, -1})).partition_results
    assert {number: failure(each) for number, each in results.items()} == {
        1: None,
        2: FailureReason.NOT_PRESENT,
        4: FailureReason.DOES_NOT_EXIST,
        -1: FailureReason.DOES_NOT_EXIST,
    }
    assert "has 4 partitions, and no partition 4" in results[4].failure_message
    unknown = stores(app, KEY_VALUE).query(request(KeyQuery(b"z")).with_partitions({9})).partition_results
    assert failure(unknown[9]) is FailureReason.NOT_PRESENT
    every = opened.query(request(KeyQuery(b"z")).with_partitions({0}).with_all_partitions())
    assert [*every.partition_results] == [0, 1]


def test_the_only_result_is_the_one_that_is_not_empty(tmp_path: Path) -> None:
    opened = stores(key_value(tmp_path, RECORDS, {b"z": b"9", b"a": b"again"}), KEY_VALUE)
    only = opened.query(request(KeyQuery(b"z"))).only_partition_result
    assert only is not None and only.result == b"9"
    assert opened.query(request(KeyQuery(b"x"))).only_partition_result is None
    with pytest.raises(ValueError, match="2 partitions have a result"):
        _ = opened.query(request(KeyQuery(b"a"))).only_partition_result


def test_a_store_that_is_behind_the_bound_does_not_answer(tmp_path: Path) -> None:
    app = key_value(tmp_path, RECORDS, RECORDS)
    for number, offset in enumerate((41, 7)):
        (app / f"0_{number}" / f"{NAME}.position").write_text(f"0\n1\ninput {number} {offset}\n")
    opened = stores(app, KEY_VALUE)
    result = opened.query(request(KeyQuery(b"a")))
    assert result.position == Position({("input", 0): 41, ("input", 1): 7})
    assert [each.position for each in result.partition_results.values()] == [
        Position({("input", 0): 41}),
        Position({("input", 1): 7}),
    ]
    for offset, reason in ((41, None), (42, FailureReason.NOT_UP_TO_BOUND)):
        bound = PositionBound.at(Position({("input", 0): offset}))
        found = opened.query(request(KeyQuery(b"a")).with_position_bound(bound)).partition_results
        assert [failure(each) for each in found.values()] == [reason, None]
        assert found[0].position == Position({("input", 0): 41})
    active = request(KeyQuery(b"a")).with_position_bound(bound).require_active()
    assert [failure(each) for each in opened.query(active).partition_results.values()] == [None, None]


def test_a_damaged_store_is_a_store_exception(tmp_path: Path) -> None:
    app = key_value(tmp_path, {b"%04d" % number: bytes(50) for number in range(200)}, {b"fine": b"9"})
    (table,) = (app / PLACE).glob("*.sst")
    flip_byte(table, 100)
    results = stores(app, KEY_VALUE).query(request(KeyQuery(b"0001"))).partition_results
    assert [failure(each) for each in results.values()] == [FailureReason.STORE_EXCEPTION, None]
    assert "Corruption" in results[0].failure_message


def test_a_value_of_another_serde_is_a_store_exception(tmp_path: Path) -> None:
    opened = stores(key_value(tmp_path, {b"a": b"\xff"}), KEY_VALUE, value=StringSerde())
    (result,) = opened.query(request(KeyQuery(b"a"))).partition_results.values()
    assert failure(result) is FailureReason.STORE_EXCEPTION
    (scan,) = opened.query(request(RangeQuery())).partition_results.values()
    with pytest.raises(ConversionError, match="not UTF-8"):
        next(scan.result)


@pytest.mark.parametrize("query", [KeyQuery("a"), KeyQuery(None), RangeQuery.with_range(b"a", 5)])
def test_what_is_no_key_is_the_callers_error(query: Query, tmp_path: Path) -> None:
    with pytest.raises(EntryError, match="expected bytes"):
        stores(key_value(tmp_path, RECORDS), KEY_VALUE).query(request(query))


def test_a_query_that_says_too_little_or_too_much_is_refused(tmp_path: Path) -> None:
    for arguments in ((None, None, None), (None, 1, None), (b"a", 1, 2)):
        with pytest.raises(ValueError, match="either a key or a range of time"):
            WindowRangeQuery(*arguments)
    app = key_value(tmp_path, {})
    with pytest.raises(ValueError, match="from_time 2 is later than to_time 1"):
        stores(app, "kafka-streams.versioned").query(request(MultiVersionedKeyQuery(b"a", 2, 1)))


def test_execution_info_is_given_if_asked(tmp_path: Path) -> None:
    opened = stores(key_value(tmp_path, RECORDS), KEY_VALUE)
    asked = request(KeyQuery(b"a"))
    assert opened.query(asked).partition_results[0].execution_info == ()
    (line,) = opened.query(asked.enable_execution_info()).partition_results[0].execution_info
    assert line.startswith("Handled in 0_0/orders in ")


class Standby:
    """A store partition as it is beside a running owner."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.id, self.number, self.check = partition.id, partition.number, partition.check

    def opened(self) -> Any:  # noqa: ANN401
        opened = self._partition.opened()
        return type(opened)(opened.format, opened.segments, opened.position, opened.tag, as_of_ms=1)

    recent = opened


class Moving(Standby):
    """A store partition that is away for an instant."""

    def opened(self) -> Any:  # noqa: ANN401
        raise StoreNotReadyError("it is being moved", hint="retry")


def test_an_active_store_may_be_required(tmp_path: Path) -> None:
    (partition,) = stores(key_value(tmp_path, RECORDS), KEY_VALUE).partitions(NAME)
    definition, asked = StoreDefinition(KEY_VALUE), request(KeyQuery(b"a"))
    standby: list[Partition] = [Standby(partition)]
    assert answer(asked, standby, definition).partition_results[0].result == b"1"
    refused = answer(asked.require_active(), standby, definition).partition_results[0]
    assert failure(refused) is FailureReason.NOT_ACTIVE
    assert answer(asked.require_active(), [partition], definition).partition_results[0].result == b"1"


def test_a_store_that_is_being_moved_is_not_present(tmp_path: Path) -> None:
    (partition,) = stores(key_value(tmp_path, RECORDS), KEY_VALUE).partitions(NAME)
    results = answer(request(KeyQuery(b"a")), [Moving(partition)], StoreDefinition(KEY_VALUE)).partition_results
    assert failure(results[0]) is FailureReason.NOT_PRESENT
    assert results[0].failure_message == "it is being moved"


def test_after_a_switch_the_other_store_answers(tmp_path: Path) -> None:
    app = key_value(tmp_path, RECORDS)
    opened = stores(app, KEY_VALUE)
    assert asked(opened, KeyQuery(b"a")) == b"1"
    scan = opened.query(request(RangeQuery())).partition_results[0].result
    replace_by(app, {b"a": b"other"})
    assert asked(opened, KeyQuery(b"a")) == b"other"
    with pytest.raises(StateStoreMigratedError):
        next(scan)
    with pytest.raises(UnknownStateStoreError, match="there are: orders"):
        opened.query(StateQueryRequest.in_store("other").with_query(KeyQuery(b"a")))
