"""Whether the keys of a segment are of its time: the format that is named says where in them the time lies (I10)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise, product

from formats import Conversion, EntryError, Format
from formats.function import describe_error
from formats.likeness import FormatSample
from migrate.batch.source.sampling import SampleSize, read_sample
from migrate.batch.source.source import Source
from migrate.errors import RefusedError
from migrate.model.key_range import show_key
from migrate.model.plan import DatabasePlan, Lane, TimeSlice
from migrate.model.store_partition import Segment
from migrate.spec.allowed import LOOKS_CONVERTED, allowing
from migrate.stores.rocksdb.database import Database

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


Entry = tuple[bytes, bytes]
"""A key and its value, as they lie in a store."""


def convert_twice(conversion: Conversion, key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    """What it becomes; None: dropped. Raises EntryError for a reject, RefusedError where two results differ."""
    if conversion.function is None:  # it is ours, and pure
        return conversion.convert(key, value)
    try:
        first, second = conversion.convert(key, value), conversion.convert(key, value)
    except OSError as error:
        raise RefusedError(
            f"the function cannot reach what it needs: for the key {show_key(key)} it raised {describe_error(error)}",
            hint="put that where the function looks for it; a file that lies beside the spec it finds by "
            "Path(__file__), and [conversion] files names it",
        ) from error
    if first != second:
        raise RefusedError(
            f"the function is not pure: it gave two results for the key {show_key(key)}",
            hint="a chunk may be converted again at any time: no clock, no random numbers, no state between records",
        )
    return first


def check_not_converted(conversion: Conversion, pairs: Sequence[tuple[Entry, Entry | None]], where: str) -> None:
    """Sampled records and what they become, where neither place nor column family tells old from new (I10).

    Raises RefusedError where every record decodes as the target's format, and one would be changed.
    """
    if not _holds_more(conversion) or all(new in (None, old) for old, new in pairs):
        return
    sample = FormatSample(conversion.target)
    for old, _ in pairs:
        sample.add(*old, now_ms=0)
    if sample.decoded == sample.sampled:
        raise RefusedError(
            f"each of {sample.sampled} sampled records of {where} could be one of the new form already: was this store "
            "migrated before?",
            hint=f"if it was not, say so: {allowing(LOOKS_CONVERTED)}",
        )


def _holds_more(conversion: Conversion) -> bool:
    """Whether a converted record could be converted once more; what a function does is not known."""
    source, target = conversion.source, conversion.target
    is_same = source.id == target.id and conversion.changes_payloads
    carries_more = source.system == target.system and bool(target.carries - source.carries)
    return (is_same or carries_more) and conversion.function is None


def none_converted(where: str, count: int, first: str, conversion: Conversion) -> RefusedError:
    """The refusal where no record of a sample could be converted."""
    return RefusedError(
        f"none of {count} sampled records of {where} can be converted from "
        f"{conversion.source.id} to {conversion.target.id}; the first one, {first}",
        hint="is [source] format the format that the store has?"
        + (" does the function fit its records?" if conversion.function is not None else ""),
    )


SAMPLE_RECORDS = 256
SAMPLE_SHARE = 0.01
SAMPLE_MIN_BYTES = 1 << 16


def check_sample(
    opened: Sequence[Database], database: DatabasePlan, conversion: Conversion, allowed: Collection[str]
) -> None:
    """Convert a few records from all over the key range, twice.

    Raises RefusedError where none of them is what the source's format says, where all of them may be converted already
    and would be once more (I10), or where the function does not give the same result twice.
    """
    converted: list[tuple[Lane, Entry, Entry | None]] = []
    reasons: list[str] = []
    budget = max(SAMPLE_MIN_BYTES, int(SAMPLE_SHARE * database.data_bytes)) // (len(database.lanes) * len(opened))
    size = SampleSize(SAMPLE_RECORDS // len(opened) or 1, budget)
    for each, lane in product(opened, database.lanes):
        for batch in read_sample(each, lane.source, size).batches:
            for key, value in zip(batch.keys, batch.values, strict=True):
                try:
                    converted.append((lane, (key, value), convert_twice(conversion, key, value)))
                except EntryError as error:
                    reasons.append(f"{show_key(key)}: {error}")
    if reasons and not converted:
        raise none_converted(database.store_partition, len(reasons), reasons[0], conversion)
    if LOOKS_CONVERTED not in allowed:
        pairs = [(old, new) for lane, old, new in converted if lane.source == lane.target]
        check_not_converted(conversion, pairs, database.store_partition)
