"""Whether the keys of a segment are of its time: the format that is named says where in them the time lies (I10)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

from formats import Format
from migrate.errors import RefusedError
from migrate.plan_model import DatabasePlan, TimeSlice
from migrate.sampling import SampleSize, read_sample
from migrate.source import Source
from migrate.store_partition import Segment
from migrate.stores.rocksdb import Database

_SAMPLE = 100
_SAMPLE_BYTES = 1 << 18
_YEAR_MS = 366 * 86_400_000
_ON_CLOSE = b"\0"
_INDEX = b"\1"


def spans_of(segments: Sequence[Segment]) -> dict[str, TimeSlice]:
    """The times that the records of each may have, by name: up to the next one's start; a year for the newest."""
    starts = [segment.start_ms for segment in segments]
    spans = pairwise([*starts, max(starts) + _YEAR_MS]) if starts else []
    return {
        segment.name: TimeSlice(start_ms=start, end_ms=end)
        for segment, (start, end) in zip(segments, spans, strict=True)
    }


def check_keys(keys: Sequence[bytes], source: Format, span: TimeSlice, where: str) -> None:
    """`keys`: a sample of one segment's. Raises RefusedError where most tell no time of it, or tell it elsewhere."""
    if not keys:
        return
    emitting = [_tells_time_first(key, span) for key in keys]
    if all(emitting) and any(key.startswith(_ON_CLOSE) for key in keys):
        raise RefusedError(
            f"the keys of {where} begin with their time: it is a store that emits when windows or sessions close, "
            "which cannot be converted",
            hint="let the application restore it from its changelog, in a store of the new kind",
        )
    astray = [key for key in keys if not _is_within(key[source.segment_time], span)]
    if 2 * len(astray) > len(keys):
        raise RefusedError(
            f"{len(astray)} of {len(keys)} sampled keys of {where} are not of the time of their segment, {span}",
            hint=f"is {source.id} the format that the store has? `stateferry inspect` shows what is there",
        )


def _tells_time_first(key: bytes, span: TimeSlice) -> bool:
    return key.startswith(_INDEX) or (key.startswith(_ON_CLOSE) and _is_within(key[1:9], span))


def _is_within(time: bytes, span: TimeSlice) -> bool:
    return len(time) == 8 and span.start_ms <= int.from_bytes(time, "big", signed=True) < span.end_ms


def check_segments(opened: Sequence[Database], plan: DatabasePlan, source: Source) -> None:
    """A sample of each segment among the RocksDB directories that are `opened`. Raises RefusedError."""
    partition = next(each for each in source.partitions if each.id == plan.store_partition)
    if not partition.has_segments:
        return
    spans = spans_of(source.system.segments(source.path, partition))
    for each, lane in product(opened, plan.lanes):
        if lane.source not in each.families:
            continue
        name = each.directory.name
        batches = read_sample(each, lane.source, SampleSize(_SAMPLE, _SAMPLE_BYTES)).batches
        keys = [key for batch in batches for key in batch.keys]
        check_keys(keys, source.format, spans[name], f"{plan.store_partition}/{name}")
