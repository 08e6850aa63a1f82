"""Which segments a windowed store falls into under another retention: the arithmetic of Kafka Streams, by itself."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from migrate.batch.plan.target_layout import EXPIRED, NewSegment, Retention, as_they_are, re_segmented, share
from migrate.model.plan import Input, TimeSlice
from migrate.model.store_partition import Segment
from migrate.systems.kafka_streams import KAFKA_STREAMS
from migrate.systems.task_tree import KAFKA_STREAMS_TREE

RETENTION = st.integers(1, 500).map(lambda size: Retention(size, max(size // 2, 60)))
ODD_RETENTION = st.builds(Retention, st.integers(1, 500), st.integers(1, 500))


def _segments(old: Retention, numbers: set[int]) -> list[Segment]:
    starts = [number * old.segment_ms for number in sorted(numbers)]
    return [Segment(f"win.{start}", start) for start in starts]


def _holders(found: list[NewSegment], segment: Segment, time_ms: int) -> list[NewSegment]:
    """Those that take a record of this time from that segment."""
    return [
        new
        for new in found
        if new.times is not None
        and new.times.start_ms <= time_ms < new.times.end_ms
        and segment.name in {source.database for source in new.inputs}
    ]


def _oldest_live(reached_ms: int, new: Retention) -> int:
    """AbstractSegments.getOrCreateSegmentIfLive: segmentId(streamTime - retention), of Java's division."""
    before = reached_ms - new.retention_ms
    return (before // new.segment_ms if before > 0 else 0) * new.segment_ms


@given(
    old=st.one_of(RETENTION, ODD_RETENTION),
    new=st.one_of(RETENTION, ODD_RETENTION),
    numbers=st.sets(st.integers(0, 40), min_size=1, max_size=8),
    data=st.data(),
)
def test_each_record_belongs_to_one_new_segment_or_is_what_the_owner_would_destroy(
    old: Retention, new: Retention, numbers: set[int], data: st.DataObject
) -> None:
    segments = _segments(old, numbers)
    newest = segments[-1].start_ms
    reached = data.draw(st.integers(newest, newest + old.segment_ms - 1))
    found = re_segmented("win", segments, old, new, reached_ms=reached)
    segment = data.draw(st.sampled_from(segments))
    time = data.draw(st.integers(segment.start_ms, min(segment.start_ms + old.segment_ms - 1, reached)))
    (holder,) = _holders(found, segment, time)
    start = time // new.segment_ms * new.segment_ms
    if start < _oldest_live(reached, new):
        assert (holder.name, holder.is_kept) == (EXPIRED, False)
    else:
        assert (holder.name, holder.is_kept) == (f"win.{start}", True)
        assert holder.times == TimeSlice(start_ms=start, end_ms=start + new.segment_ms)


@given(
    old=ODD_RETENTION, new=ODD_RETENTION, numbers=st.sets(st.integers(0, 40), min_size=1, max_size=8), data=st.data()
)
def test_inputs_are_the_newest_first_and_tell_their_own_times(
    old: Retention, new: Retention, numbers: set[int], data: st.DataObject
) -> None:
    segments = _segments(old, numbers)
    newest = segments[-1].start_ms
    reached = data.draw(st.integers(newest, newest + old.segment_ms - 1))
    found = re_segmented("win", segments, old, new, reached_ms=reached)
    assert [each.name for each in found if not each.is_kept] in ([], [EXPIRED])
    starts = [each.times.start_ms for each in found if each.times]
    assert starts == sorted(set(starts))
    by_name = {segment.name: segment for segment in segments}
    for each in found:
        assert each.inputs, "a segment that is made of nothing"
        own = [source.times for source in each.inputs if source.times is not None]
        assert [times.start_ms for times in own] == [by_name[source.database].start_ms for source in each.inputs]
        assert {times.end_ms - times.start_ms for times in own} == {old.segment_ms}
        assert [times.start_ms for times in own] == sorted((times.start_ms for times in own), reverse=True)


@given(old=ODD_RETENTION, new=ODD_RETENTION, numbers=st.sets(st.integers(0, 40), min_size=1, max_size=8))
@example(old=Retention(100, 50), new=Retention(40, 20), numbers={0, 1, 2})
def test_the_shares_of_a_segment_that_was_filled_make_it_whole(
    old: Retention, new: Retention, numbers: set[int]
) -> None:
    segments = _segments(old, numbers)
    reached = segments[-1].start_ms + old.segment_ms - 1
    found = re_segmented("win", segments, old, new, reached_ms=reached)
    for segment in segments:
        mine = [(source, new_.times) for new_ in found for source in new_.inputs if source.database == segment.name]
        assert sum(share(source, times) for source, times in mine) == pytest.approx(1)


def test_a_share_without_times_is_the_whole() -> None:
    assert share(Input(database="win.0"), None) == 1.0


def test_no_segments_are_none() -> None:
    assert re_segmented("win", [], Retention(2, 1), Retention(4, 2), reached_ms=5) == []


def test_a_gap_in_time_makes_no_segments() -> None:
    """Years without a record: neither are there segments for them, nor does it take years to find out."""
    week = Retention(1_000_000_000_000_000, 60_000)
    segments = [Segment("win.0", 0), Segment("win.999999960000", 999_999_960_000)]
    found = re_segmented("win", segments, week, Retention(week.retention_ms, 30_000), reached_ms=999_999_999_999)
    assert [each.name for each in found] == ["win.0", "win.30000", "win.999999960000", "win.999999990000"]


def test_segments_as_they_are_bear_the_name_of_today() -> None:
    found = as_they_are("win", [Segment("win-197001010010", 600_000), Segment("win:1200000", 1_200_000)])
    assert [(each.name, each.inputs, each.times, each.is_kept) for each in found] == [
        ("win.600000", (Input(database="win-197001010010"),), None, True),
        ("win.1200000", (Input(database="win:1200000"),), None, True),
    ]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("win.0", 0),
        ("win.1700000000000", 1_700_000_000_000),
        ("win:1700000000000", 1_700_000_000_000),
        ("win-202311142213", 1_699_999_980_000),
        ("win.999999999999999999", 999_999_999_999_999_999),
        ("win.9999999999999999999", None),
        ("win.-60000", None),
        ("win.expired", None),
        ("expired", None),
        ("win.", None),
        ("win", None),
        ("win.0.bak", None),
        ("win-20231114", None),
        ("wins.0", None),
        ("lose.0", None),
    ],
)
def test_a_segments_name_has_its_start(name: str, start: int | None) -> None:
    assert KAFKA_STREAMS_TREE.segment_start("win", name) == start


@pytest.mark.parametrize(
    ("retention_ms", "segment_ms", "size"), [(3_600_000, None, 1_800_000), (1000, None, 60_000), (1000, 7, 7)]
)
def test_a_segment_covers_half_the_retention_unless_configured(
    retention_ms: int, segment_ms: int | None, size: int
) -> None:
    assert KAFKA_STREAMS.segments.size(retention_ms, segment_ms) == size
