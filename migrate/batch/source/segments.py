"""Segments: the RocksDB directories of a windowed store, and which ones they become under another retention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migrate.errors import RefusedError
from migrate.model.plan import Input, TimeSlice
from migrate.model.store_partition import Segment, segment_name

MOST_SEGMENTS = 1000
"""The most segments of a store partition: each is a RocksDB directory that its owner keeps open."""
EXPIRED = "expired"
"""The name, in place of a segment's, for records that are older than the new store's retention."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a windowed store keeps records, and the time that one of its segments covers."""

    retention_ms: int
    segment_ms: int


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment of the new store and its inputs, the newest first."""

    name: str
    inputs: tuple[Input, ...]
    times: TimeSlice | None = None
    is_kept: bool = True


def as_they_are(store: str, segments: Sequence[Segment]) -> list[NewSegment]:
    """The same segments, under the names that current releases use."""
    return [NewSegment(segment_name(store, each.start_ms), (Input(database=each.name),)) for each in segments]


def emptied(store: str, segments: Sequence[Segment], new: Retention) -> NewSegment:
    """The one segment made of segments without records: since 4.3 a store without segments forgets its position."""
    name = segment_name(store, _floor(segments[-1].start_ms, new.segment_ms))
    return NewSegment(name, tuple(Input(database=each.name) for each in reversed(segments)))


def re_segmented(
    store: str, segments: Sequence[Segment], old: Retention, new: Retention, *, reached_ms: int
) -> list[NewSegment]:
    """The segments that hold the same records under another retention, and one of expired records that is not kept.

    `reached_ms`: the time of the newest record. Raises RefusedError for too many segments.
    """
    if not segments:
        return []
    first = _floor(min(each.start_ms for each in segments), new.segment_ms)
    oldest = max(first, _floor(max(reached_ms - new.retention_ms, 0), new.segment_ms))
    found = []
    if first < oldest:
        found.append(_new_segment(EXPIRED, segments, old, TimeSlice(start_ms=first, end_ms=oldest)))
    runs = [
        range(
            max(oldest, _floor(each.start_ms, new.segment_ms)),
            min(each.start_ms + old.segment_ms, reached_ms + 1),
            new.segment_ms,
        )
        for each in segments
    ]
    for start in sorted(_starts(runs, new)):
        times = TimeSlice(start_ms=start, end_ms=start + new.segment_ms)
        found.append(_new_segment(segment_name(store, start), segments, old, times))
    return found


def _starts(runs: Sequence[range], new: Retention) -> set[int]:
    """Where the new segments begin: as many as there may be records for, whatever the retention has room for.

    Raises RefusedError for more than their owner should keep open, and than it had.
    """
    most, longest = max(MOST_SEGMENTS, len(runs)), max(map(len, runs))
    starts = set().union(*runs) if longest <= most else set()
    if max(longest, len(starts)) > most:
        raise RefusedError(
            f"the records there, in segments of {new.segment_ms:,} ms, would be {max(longest, len(starts)):,} or more "
            "RocksDB directories for each task",
            hint=f"check retention_ms and segment_ms: at most {most:,} segments are made",
        )
    return starts


def share(source: Input, times: TimeSlice | None) -> float:
    """The fraction of an input's time that lies in `times`."""
    own = source.times
    if own is None or times is None:
        return 1.0
    common = min(own.end_ms, times.end_ms) - max(own.start_ms, times.start_ms)
    return max(0, common) / (own.end_ms - own.start_ms)


def _new_segment(name: str, segments: Sequence[Segment], old: Retention, times: TimeSlice) -> NewSegment:
    inputs = tuple(
        Input(database=each.name, times=TimeSlice(start_ms=each.start_ms, end_ms=each.start_ms + old.segment_ms))
        for each in reversed(segments)
        if each.start_ms < times.end_ms and each.start_ms + old.segment_ms > times.start_ms
    )
    return NewSegment(name, inputs, times, is_kept=name != EXPIRED)


def _floor(time_ms: int, size_ms: int) -> int:
    return time_ms // size_ms * size_ms
