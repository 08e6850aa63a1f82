"""Window stores: which windows a question finds, in which order, and which have expired."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.requests import StateQueryRequest, WindowKeyQuery
from migrate.queries.views import windowed_views as segments
from migrate.queries.views.composite import Pulls, records
from migrate.queries.views.view_types import QueryableStoreTypes
from migrate.queries.views.windowed_views import MAX_TIME
from migrate.stores.state_store import BatchSource, Record
from tests.queries.views.made import in_order, stores_of, window_view
from tests.shared.windowed import MINUTE, PLAIN, TIMESTAMPED, window_key, window_time, windows
from tests.support import make_families

RETENTION = 2 * MINUTE
UNTIL = 5 * MINUTE
RECORDS = windows(600, until=UNTIL)
TIMES = [(0, MAX_TIME), (MINUTE, 2 * MINUTE), (MINUTE - 1, MINUTE), (70_000, 200_000), (-5, 1 << 70), (9, 8), (-9, -1)]


@pytest.mark.parametrize(("time_from", "time_to"), TIMES)
@pytest.mark.parametrize("key", [b"", b"\x00", b"a", b"ab", b"ab\x00", b"\xff" * 12, b"none", None])
def test_windows_of_a_key_or_of_all_come_by_segment_and_then_by_key(
    tmp_path: Path, key: bytes | None, time_from: int, time_to: int
) -> None:
    view = window_view(tmp_path, RECORDS)
    expected = in_order(
        RECORDS,
        window_time,
        lambda stored: key in (stored[:-12], None) and time_from <= window_time(stored) <= time_to,
    )
    asked = (time_from, time_to) if key is None else (key, time_from, time_to)
    for ask, wanted in (("fetch", expected), ("backward_fetch", expected[::-1])):
        found = getattr(view, f"{ask}_all" if key is None else ask)(*asked)
        assert [each.value for each in found] == wanted


@pytest.mark.parametrize(
    ("low", "high"), [(b"a", b"b"), (None, b"ab"), (b"ab", None), (b"\x01", b"\xff"), (b"b", b"a")]
)
def test_a_range_holds_the_keys_between_its_ends(tmp_path: Path, low: bytes | None, high: bytes | None) -> None:
    view = window_view(tmp_path, RECORDS)
    expected = in_order(
        RECORDS,
        window_time,
        lambda stored: (low is None or low <= stored[:-12]) and (high is None or stored[:-12] <= high),
    )
    assert [each.value for each in view.fetch_keys(low, high, 0, UNTIL)] == expected
    assert [each.value for each in view.backward_fetch_keys(low, high, 0, UNTIL)] == expected[::-1]


def test_a_key_that_begins_the_upper_end_can_lie_behind_it_as_in_kafka_streams(tmp_path: Path) -> None:
    now = 1_700_000_000_000  # stored as 0x0000018b...: two zero bytes, of which the upper end has one more
    view = window_view(tmp_path, {window_key(b"a", now): b"a", window_key(b"a\x00", now): b"a0"})
    assert [each.value for each in view.fetch_keys(b"a", b"a\x00", 0, now)] == [b"a0"]
    assert [each.value for each in view.fetch_keys(b"a", b"b", 0, now)] == [b"a0", b"a"]


def test_a_window_is_found_by_its_start_and_duplicates_by_a_range_only(tmp_path: Path) -> None:
    duplicates = {window_key(b"k", 5, number): b"%d" % number for number in (1, 2)}
    view = window_view(tmp_path, {window_key(b"k", MINUTE): b"v"} | duplicates)
    assert [view.fetch(b"k", time) for time in (MINUTE, MINUTE + 1, 3 * MINUTE, 5, -1)] == [
        b"v",
        None,
        None,
        None,
        None,
    ]
    assert list(view.fetch(b"k", 0, 5)) == [(5, b"1"), (5, b"2")]
    assert [each.key for each in view.fetch_keys(b"k", b"k", 6, UNTIL)] == [(b"k", (MINUTE, MINUTE + 10))]


def test_what_is_as_old_as_the_retention_has_expired(tmp_path: Path) -> None:
    newest = 4 * MINUTE + 7
    kept, expired = newest - RETENTION + 1, newest - RETENTION
    view = window_view(tmp_path, {window_key(b"k", time): b"%d" % time for time in (expired, kept, newest)}, RETENTION)
    assert [each.time for each in view.fetch(b"k", 0, MAX_TIME)] == [kept, newest]
    assert [each.key.window.start for each in view.backward_all()] == [newest, kept]
    assert [view.fetch(b"k", time) for time in (expired, kept)] == [None, b"%d" % kept]


def test_of_streamiz_whole_segments_expire(tmp_path: Path) -> None:
    newest = 4 * MINUTE + 7
    times = [newest - RETENTION // MINUTE * MINUTE - 8, newest - RETENTION - 7, newest - RETENTION, newest]
    records = {window_key(b"k", time): b"%d" % time for time in times}
    view = window_view(tmp_path, records, RETENTION, format="streamiz.window", task="0-0")
    assert [each.time for each in view.fetch(b"k", 0, MAX_TIME)] == times[1:]
    assert [view.fetch(b"k", time) for time in times[:2]] == [None, b"%d" % times[1]]


def test_windows_from_before_an_upgrade_are_found_and_tell_the_time(tmp_path: Path) -> None:
    families = {
        PLAIN: {window_key(b"a", 5): b"old", window_key(b"b", RETENTION + 5): b"newest"},
        TIMESTAMPED: {window_key(b"a", 6): bytes(8) + b"new"},
    }
    make_families(tmp_path / "0_0/win/win.0", families)
    definition = StoreDefinition("kafka-streams.timestamped-window", retention_ms=RETENTION)
    view = stores_of(tmp_path, definition).store("win", QueryableStoreTypes.timestamped_window())
    assert [(each.key.window.start, each.value) for each in view.all()] == [
        (6, (b"new", 0)),
        (RETENTION + 5, (b"newest", -1)),
    ]


def test_the_newest_time_is_read_once_for_all_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    window_view(tmp_path, {window_key(b"k", 5): b"v"})
    stores = stores_of(tmp_path, StoreDefinition("kafka-streams.window", retention_ms=RETENTION))
    scans: list[BatchSource] = []

    def counted(source: BatchSource, pulls: Pulls | None = None) -> Iterator[Record]:
        scans.append(source)
        return records(source, pulls)

    monkeypatch.setattr(segments, "records", counted)
    assert [_asked(stores), _asked(stores)] == [[(5, b"v")]] * 2
    assert len(scans) == 3, "one for the newest time, and one of each query"


def _asked(stores: QueryableStores) -> list[object]:
    query = WindowKeyQuery.with_key_and_window_start_range(b"k", 0, MAX_TIME)
    (found,) = stores.query(StateQueryRequest.in_store("win").with_query(query)).partition_results.values()
    return list(found.result)
