"""Window views: times at their bounds, order over segments and keys of all sizes, duplicates, and what has expired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from formats import EntryError
from formats.serdes.text import StringSerde
from migrate.errors import ConversionError, InvalidStateStoreError
from migrate.queries.views.results import TimeWindow, ValueAndTimestamp, Windowed
from migrate.queries.views.types import QueryableStoreTypes as Types
from migrate.queries.views.window import WindowView
from tests.queries.views.made import NAME, found, segmented, stores, window_key

WINDOW = "kafka-streams.window"
SEGMENTS = {
    0: {window_key(b"a", 0): b"a0", window_key(b"a", 10): b"a10", window_key(b"b", 10): b"b10"},
    60_000: {
        window_key(b"a", 60_000): b"a60",
        window_key(b"ab", 70_000): b"ab70",
        window_key(b"b", 65_000): b"b65",
    },
    120_000: {window_key(b"a", 120_000): b"a120"},
}


def view_of(base: Path, segments: Any = SEGMENTS, **definition: Any) -> WindowView:  # noqa: ANN401
    app = segmented(base, segments)
    return stores(app, WINDOW, **definition).store(NAME, Types.window())


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 120_000), [0, 10, 60_000, 120_000]),
        ((10, 60_000), [10, 60_000]),
        ((11, 59_999), []),
        ((0, 0), [0]),
        ((-5, 9), [0]),
        ((60_000, 10), []),
        ((120_001, 1 << 70), []),
        ((-(1 << 70), 1 << 70), [0, 10, 60_000, 120_000]),
    ],
)
def test_both_ends_of_a_range_of_time_are_included(times: tuple[int, int], expected: list[int], tmp_path: Path) -> None:
    view = view_of(tmp_path)
    assert [each.time for each in view.fetch(b"a", *times)] == expected
    assert [each.time for each in view.backward_fetch(b"a", *times)] == expected[::-1]


def test_one_window_is_found_by_its_start(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    assert [view.fetch(b"a", time) for time in (0, 1, 10, 60_000)] == [b"a0", None, b"a10", b"a60"]
    assert view.fetch(b"ab", 60_000) is None


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ((b"a", b"a"), [b"a0", b"a10", b"a60", b"a120"]),
        ((b"a", b"b"), [b"a0", b"a10", b"b10", b"a60", b"ab70", b"b65", b"a120"]),
        ((b"ab", b"ab"), [b"ab70"]),
        ((b"aa", None), [b"b10", b"ab70", b"b65"]),
        ((None, b"aa"), [b"a0", b"a10", b"a60", b"a120"]),
        ((None, None), [b"a0", b"a10", b"b10", b"a60", b"ab70", b"b65", b"a120"]),
        ((b"b", b"a"), []),
    ],
)
def test_keys_are_in_order_within_a_segment(
    keys: tuple[bytes | None, bytes | None], expected: list[bytes], tmp_path: Path
) -> None:
    view = view_of(tmp_path)
    assert [each.value for each in view.fetch_keys(*keys, 0, 200_000)] == expected
    assert [each.value for each in view.backward_fetch_keys(*keys, 0, 200_000)] == expected[::-1]


def test_all_is_every_window_with_its_end_where_the_size_is_known(tmp_path: Path) -> None:
    view = view_of(tmp_path, {0: {window_key(b"a", 5): b"x"}}, window_size_ms=10)
    assert [*view.all()] == [(Windowed(b"a", TimeWindow(5, 15)), b"x")]
    assert found(view.fetch_all(6, 9)) == []
    assert found(stores(tmp_path / "app", WINDOW).store(NAME, Types.window()).backward_all()) == [(b"a", 5, None, b"x")]


def test_duplicates_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    records = {window_key(b"a", 5, number): b"%d" % number for number in (0, 1, 2, 256)}
    view = view_of(tmp_path, {0: records})
    assert [each.value for each in view.fetch(b"a", 5, 5)] == [b"0", b"1", b"2", b"256"]
    assert [each.value for each in view.backward_fetch(b"a", 5, 5)] == [b"256", b"2", b"1", b"0"]
    assert view.fetch(b"a", 5) == b"0"


@pytest.mark.parametrize(("retention_ms", "oldest"), [(None, 0), (120_001, 0), (120_000, 10), (60_001, 60_000)])
def test_what_the_newest_time_has_left_behind_by_the_retention_has_expired(
    retention_ms: int | None, oldest: int, tmp_path: Path
) -> None:
    view = view_of(tmp_path, retention_ms=retention_ms)
    kept = [time for time in (0, 10, 60_000, 120_000) if time >= oldest]
    assert [each.time for each in view.fetch(b"a", 0, 1 << 62)] == kept
    assert [view.fetch(b"a", time) is not None for time in (0, 10)] == [time in kept for time in (0, 10)]
    assert {each.key.window.start for each in view.all()} >= {*kept}
    assert min(each.key.window.start for each in view.fetch_all(0, 1 << 62)) == oldest


def test_the_newest_time_is_that_of_the_last_segment_with_records(tmp_path: Path) -> None:
    view = view_of(tmp_path, {**SEGMENTS, 180_000: {}}, retention_ms=120_000)
    assert [each.time for each in view.fetch(b"a", 0, 1 << 62)] == [10, 60_000, 120_000]


def test_the_newest_time_is_of_each_partition(tmp_path: Path) -> None:
    app = segmented(tmp_path, {0: {window_key(b"old", 0): b"x"}}, {60_000: {window_key(b"new", 90_000): b"y"}})
    view = stores(app, WINDOW, retention_ms=10_000).store(NAME, Types.window())
    assert [each.value for each in view.all()] == [b"x", b"y"]


def test_the_newest_time_is_found_again_once_the_store_has_grown(tmp_path: Path) -> None:
    app = segmented(tmp_path, SEGMENTS)
    view = stores(app, WINDOW, refresh=0, retention_ms=120_000).store(NAME, Types.window())
    assert view.fetch(b"a", 10) == b"a10"
    segmented(tmp_path / "more", {180_000: {window_key(b"b", 180_000): b"newer"}})
    (tmp_path / "more/app/0_0" / NAME / f"{NAME}.180000").rename(app / "0_0" / NAME / f"{NAME}.180000")
    assert view.fetch(b"a", 10) is None
    assert [each.value for each in view.all()] == [b"ab70", b"b65", b"a120", b"newer"]


def test_an_empty_store_has_nothing(tmp_path: Path) -> None:
    nothing: list[dict[int, dict[bytes, bytes]]] = [{}, {0: {}}]
    for segments in nothing:
        view = view_of(tmp_path / str(len(segments)), segments, retention_ms=10)
        assert (view.fetch(b"a", 0), [*view.all()], view.approximate_num_entries()) == (None, [], 0)


def test_partitions_follow_each_other(tmp_path: Path) -> None:
    app = segmented(tmp_path, {60_000: {window_key(b"a", 60_000): b"late"}}, {0: {window_key(b"b", 0): b"early"}})
    view = stores(app, WINDOW, key=StringSerde(), value=StringSerde()).store(NAME, Types.window())
    assert found(view.all()) == [("a", 60_000, None, "late"), ("b", 0, None, "early")]
    assert found(view.backward_all()) == [("a", 60_000, None, "late"), ("b", 0, None, "early")]
    assert view.fetch("b", 0) == "early"


def test_what_is_no_key_is_refused_at_once(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    for ask in (lambda: view.fetch("a", 0), lambda: view.fetch(None, 0, 1), lambda: view.fetch_keys("a", None, 0, 1)):
        with pytest.raises(EntryError, match="expected bytes"):
            ask()


def test_an_entry_that_is_none_is_named(tmp_path: Path) -> None:
    view = view_of(tmp_path, {0: {b"short": b"x"}})
    with pytest.raises(ConversionError, match="short") as refused:
        next(view.all())
    assert refused.value.key == b"short"


def test_values_have_their_timestamps_where_the_store_has(tmp_path: Path) -> None:
    records = {window_key(b"a", 5): (9).to_bytes(8, "big") + b"x"}
    app = segmented(tmp_path, {0: records}, family="keyValueWithTimestamp")
    opened = stores(app, "kafka-streams.timestamped-window")
    assert opened.store(NAME, Types.window()).fetch(b"a", 5) == b"x"
    assert opened.store(NAME, Types.timestamped_window()).fetch(b"a", 5) == ValueAndTimestamp(b"x", 9)
    with pytest.raises(InvalidStateStoreError, match="not of the type window_with_headers"):
        opened.store(NAME, Types.window_with_headers())


def test_streamiz_writes_its_timestamps_the_other_way_round(tmp_path: Path) -> None:
    value = (9).to_bytes(8, "little") + (1).to_bytes(4, "little") + b"x"
    app = segmented(tmp_path, {0: {window_key(b"a", 5): value}})
    (app / "0_0").rename(app / "0-0")
    view = stores(app, "streamiz.timestamped-window").store(NAME, Types.timestamped_window())
    assert view.fetch(b"a", 5) == ValueAndTimestamp(b"x", 9)
    assert found(view.all()) == [(b"a", 5, None, ValueAndTimestamp(b"x", 9))]
