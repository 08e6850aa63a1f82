"""Versioned views: versions at a bound, deletions, and what the retention leaves of the former ones."""

from pathlib import Path
from typing import Any

import pytest

from formats import EntryError
from formats.kafka_streams.versioned import default_segment_ms
from formats.serdes.text import StringSerde
from migrate.errors import ConversionError
from migrate.queries.views.composite import VersionedRecord
from migrate.queries.views.versioned_view import VersionedView
from migrate.queries.views.view_types import QueryableStoreTypes as Types
from migrate.stores.state_store import BatchSource
from tests.queries.views.made import NAME, former, key_value, latest, stores

VERSIONED = "kafka-streams.versioned"
SEGMENT_MS = 100
FIRST, SECOND, THIRD, LATEST = (
    VersionedRecord(b"1", 10, 50),
    VersionedRecord(b"2", 50, 90),
    VersionedRecord(b"3", 120, 250),
    VersionedRecord(b"4", 250),
)
RECORDS = dict(
    [
        former(0, b"a", 90, (50, b"2"), (10, b"1")),
        former(2, b"a", 250, (120, b"3"), (90, None)),
        latest(b"a", 250, b"4"),
        former(3, b"gone", 300, (200, b"x")),
        latest(b"other", 400, b"y"),
    ]
)
ALL = [LATEST, THIRD, SECOND, FIRST]


def view_of(base: Path, retention_ms: int | None = None, **definition: Any) -> VersionedView:  # noqa: ANN401
    app = key_value(base, RECORDS)
    definition = {"retention_ms": retention_ms, "segment_ms": SEGMENT_MS, **definition}
    return stores(app, VERSIONED, **definition).store(NAME, Types.versioned())


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [
        (None, LATEST),
        (9, None),
        (10, FIRST),
        (49, FIRST),
        (50, SECOND),
        (89, SECOND),
        (90, None),
        (119, None),
        (120, THIRD),
        (249, THIRD),
        (250, LATEST),
        (1 << 70, LATEST),
        (-(1 << 70), None),
    ],
)
def test_a_version_holds_from_its_time_until_the_next_one(
    as_of: int | None, expected: VersionedRecord | None, tmp_path: Path
) -> None:
    assert view_of(tmp_path).get(b"a", as_of) == expected


def test_a_deleted_key_has_former_versions_only(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    assert [view.get(b"gone", as_of) for as_of in (None, 300, 299)] == [None, None, VersionedRecord(b"x", 200, 300)]
    assert view.get(b"never") is None
    assert [*view.versions(b"gone")] == [VersionedRecord(b"x", 200, 300)]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((None, None), ALL),
        ((None, 249), ALL[1:]),
        ((250, None), ALL[:1]),
        ((249, None), ALL[:2]),
        ((49, 50), [SECOND, FIRST]),
        ((50, 50), [SECOND]),
        ((49, 49), [FIRST]),
        ((90, 119), []),
        ((60, 130), [THIRD, SECOND]),
        ((None, 9), []),
        ((1 << 70, 1 << 71), ALL[:1]),
    ],
)
def test_versions_are_those_that_held_within_both_ends(
    times: tuple[int | None, int | None], expected: list[VersionedRecord], tmp_path: Path
) -> None:
    view = view_of(tmp_path)
    assert [*view.versions(b"a", *times)] == expected
    assert [*view.versions(b"a", *times, ascending=True)] == expected[::-1]


def test_a_range_of_time_begins_with_its_earlier_end(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="from_time 51 is later than to_time 50"):
        view_of(tmp_path).versions(b"a", 51, 50)


@pytest.mark.parametrize(
    ("retention_ms", "as_of", "expected"),
    [(350, 50, SECOND), (350, 49, None), (150, 250, LATEST), (150, 249, None), (151, 249, THIRD), (0, 399, LATEST)],
)
def test_no_former_version_is_known_of_times_beyond_the_retention(
    retention_ms: int, as_of: int, expected: VersionedRecord | None, tmp_path: Path
) -> None:
    assert view_of(tmp_path, retention_ms).get(b"a", as_of) == expected


@pytest.mark.parametrize(
    ("retention_ms", "to_time", "expected"),
    [
        (301, None, ALL),  # the store's time is 400: the segment from 0 to 99 is live up to a retention of 301
        (300, None, ALL[:2]),
        (301, 99, [SECOND, FIRST]),
        (301, 98, []),
        (101, None, ALL[:2]),
        (100, None, ALL[:1]),
        (100, 300, ALL[:1]),
        (100, 299, ALL[:1]),
        (0, 249, []),
    ],
)
def test_former_versions_go_with_their_segment(
    retention_ms: int, to_time: int | None, expected: list[VersionedRecord], tmp_path: Path
) -> None:
    assert [*view_of(tmp_path, retention_ms).versions(b"a", None, to_time)] == expected


def test_a_version_that_has_ended_is_kept_with_a_live_segment(tmp_path: Path) -> None:
    """Also where it ended before the retention."""
    assert [*view_of(tmp_path, 110).versions(b"a", 0, 400)] == ALL[:2]
    assert view_of(tmp_path / "again", 110).get(b"a", 249) is None


@pytest.mark.parametrize(
    ("retention_ms", "segment_ms"),
    [
        (1, 2_000),
        (60_000, 20_000),
        (60_001, 20_000),
        (300_000, 60_000),
        (300_001, 60_000),
        (3_600_000, 300_000),
        (3_600_001, 300_000),
        (86_400_000, 3_600_000),
    ],
)
def test_a_segments_time_follows_from_the_retention(retention_ms: int, segment_ms: int) -> None:
    assert default_segment_ms(retention_ms) == segment_ms


@pytest.mark.parametrize(("newest", "kept"), [(3_999, [b"2", b"1"]), (4_000, [b"2"])])
def test_the_time_of_a_segment_is_that_of_the_retention(newest: int, kept: list[bytes], tmp_path: Path) -> None:
    """Of 2 s: the one from 0 to 1,999 is live until the store's time is 4,000."""
    records = dict([former(0, b"a", 1_500, (1, b"1")), latest(b"a", 1_500, b"2"), latest(b"b", newest, b"")])
    view = stores(key_value(tmp_path, records), VERSIONED, retention_ms=2_000).store(NAME, Types.versioned())
    assert [each.value for each in view.versions(b"a", None, 3_000)] == kept


@pytest.mark.parametrize("question", ["latest", "absent", "segment"])
def test_the_store_is_not_read_whole_where_its_segments_tell(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = key_value(tmp_path, RECORDS)
    opened = stores(app, VERSIONED, retention_ms=100, segment_ms=SEGMENT_MS)
    (partition,) = opened.partitions(NAME)
    entries = type(partition.opened().segments[0].entries)
    scan, starts = entries.scan, list[bytes | None]()

    def noted(self: Any, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:  # noqa: ANN401
        starts.append(start)
        return scan(self, start, end, reverse=reverse)

    monkeypatch.setattr(entries, "scan", noted)
    view = opened.store(NAME, Types.versioned())
    assert {"latest": view.get(b"a"), "absent": view.get(b"a", 5), "segment": view.get(b"a", 20)}[question] == (
        LATEST if question == "latest" else None
    )
    assert b"\xff" * 8 not in starts


def test_the_time_of_a_store_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = key_value(tmp_path, RECORDS)
    opened = stores(app, VERSIONED, retention_ms=150, segment_ms=SEGMENT_MS)
    assert opened.store(NAME, Types.versioned()).get(b"a", 249) is None
    entries = type(opened.partitions(NAME)[0].opened().segments[0].entries)
    view = opened.store(NAME, Types.versioned())
    assert view.get(b"gone", 299) == VersionedRecord(b"x", 200, 300)
    monkeypatch.setattr(entries, "scan", None)
    assert view.get(b"gone", 299) == VersionedRecord(b"x", 200, 300)


def test_keys_and_values_have_the_types_of_their_serdes(tmp_path: Path) -> None:
    view = view_of(tmp_path, key=StringSerde(), value=StringSerde())
    assert view.get("a", 20) == VersionedRecord("1", 10, 50)
    assert [each.value for each in view.versions("a")] == ["4", "3", "2", "1"]
    with pytest.raises(EntryError):
        view.versions(b"a")


def test_partitions_follow_each_other(tmp_path: Path) -> None:
    app = key_value(tmp_path, dict([latest(b"a", 1, b"0")]), dict([latest(b"b", 2, b"1")]))
    view = stores(app, VERSIONED).store(NAME, Types.versioned())
    assert (view.get(b"b"), view.get(b"a", 0)) == (VersionedRecord(b"1", 2), None)
    assert [*view.versions(b"a")] == [VersionedRecord(b"0", 1)]


@pytest.mark.parametrize(
    "entry", [(latest(b"a", 1, b"")[0], b"1234567"), (former(1, b"a", 5, (1, b"x"))[0], b"12345678901234567")]
)
def test_an_entry_that_is_none_is_named(entry: tuple[bytes, bytes], tmp_path: Path) -> None:
    view = stores(key_value(tmp_path, dict([entry])), VERSIONED).store(NAME, Types.versioned())
    with pytest.raises(ConversionError) as refused:
        list(view.versions(b"a"))
    assert refused.value.key == entry[0]


def test_a_key_without_a_segment_is_named(tmp_path: Path) -> None:
    view = stores(key_value(tmp_path, {b"short": b"x"}), VERSIONED).store(NAME, Types.versioned())
    with pytest.raises(ConversionError, match="short"):
        view.get(b"a", 5)
