"""Windowed stores of several partitions, types and segments, and what cannot be read."""

from pathlib import Path
from typing import Any

import pytest

from formats import EntryError
from formats.serdes.text import StringSerde
from migrate.errors import ConversionError, InvalidStateStoreError
from migrate.queries.views.composite import ValueAndTimestamp
from migrate.queries.views.view_types import QueryableStoreTypes as Types
from migrate.queries.views.windowed_views import WindowView
from tests.queries.views.made import NAME, SESSION, WINDOW, found, segmented, stores
from tests.shared.windowed import session_key, window_key

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


def test_duplicates_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    records = {window_key(b"a", 5, number): b"%d" % number for number in (0, 1, 2, 256)}
    view = view_of(tmp_path, {0: records})
    assert [each.value for each in view.fetch(b"a", 5, 5)] == [b"0", b"1", b"2", b"256"]
    assert [each.value for each in view.backward_fetch(b"a", 5, 5)] == [b"256", b"2", b"1", b"0"]
    assert view.fetch(b"a", 5) == b"0"


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


def test_partitions_of_sessions_follow_each_other(tmp_path: Path) -> None:
    app = segmented(tmp_path, {0: {session_key(b"a", 0, 5): b"1"}}, {0: {session_key(b"a", 1, 2): b"other"}})
    view = stores(app, SESSION).store(NAME, Types.session())
    assert [each.value for each in view.fetch(b"a")] == [b"1", b"other"]
    assert view.fetch_session(b"a", 1, 2) == b"other"


def test_no_key_is_not_every_key(tmp_path: Path) -> None:
    view = stores(segmented(tmp_path, {0: {}}), SESSION).store(NAME, Types.session())
    with pytest.raises(EntryError, match="expected bytes"):
        view.fetch(None)
    with pytest.raises(EntryError, match="expected bytes"):
        view.find_sessions(None, 0, 1)
    with pytest.raises(EntryError, match="expected bytes"):
        view.fetch("a", b"b")


def test_an_entry_that_is_no_session_is_named(tmp_path: Path) -> None:
    app = segmented(tmp_path, {0: {b"shorter than 16": b"x"}})
    with pytest.raises(ConversionError, match="shorter than 16"):
        next(stores(app, SESSION).store(NAME, Types.session()).all())
