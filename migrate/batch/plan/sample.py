"""The sample conversion, with times from the changelog, and a check that keys of a segment lie in its time (I10)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product, repeat

from formats import Conversion, EntryError, Format, LossError
from formats.errors import FunctionError
from formats.function import describe_error
from formats.likeness import FormatSample
from migrate.batch.source.sampling import Sample, SampleSize, read_named, read_sample
from migrate.batch.source.source import Source
from migrate.engine.columns import unpacked_times
from migrate.engine.key_times import TimesColumn, keys_of
from migrate.engine.portable import Converter
from migrate.engine.rejects import RejectsByReason, loss_not_allowed
from migrate.errors import RefusedError
from migrate.model.display import listed
from migrate.model.key_range import show_key
from migrate.model.plan import DatabasePlan, FamilyMapping, TimeSlice
from migrate.model.store_partition import Segment
from migrate.spec.allowed import LOOKS_CONVERTED, allowing
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.scan import OnColumns

_SAMPLE = 100
_SAMPLE_BYTES = 1 << 18
_YEAR_MS = 366 * 86_400_000
_ON_CLOSE = b"\0"
_INDEX = b"\1"
_SHOWN = 5
"""Store partitions that a finding names."""


class SampleError(RefusedError):
    """Sampled records are not what the spec says; other store partitions may have the same fault."""


def so_in(partitions: Collection[str], of: int) -> str:
    """Where one fault was found, for the end of its sentence; nothing where that is one of `of` store partitions."""
    where = f"; so in {len(partitions)} of {of} store partitions: {listed(partitions, _SHOWN)}"
    return where if len(partitions) > 1 else ""


def with_places(found: Mapping[str, SampleError], of: int) -> SampleError:
    """The first error, with the store partitions that have the same fault, which its hint tells."""
    first = next(iter(found.values()))
    first.message += so_in([each for each, error in found.items() if error.hint == first.hint], of)
    return first


def spans_of(segments: Sequence[Segment]) -> dict[str, TimeSlice]:
    """The possible times of each segment's records, by name: up to the next segment's start; a year for the newest."""
    starts = [segment.start_ms for segment in segments]
    spans = pairwise([*starts, max(starts) + _YEAR_MS]) if starts else []
    return {
        segment.name: TimeSlice(start_ms=start, end_ms=end)
        for segment, (start, end) in zip(segments, spans, strict=True)
    }


def check_keys(keys: Sequence[bytes], source: Format, span: TimeSlice, where: str) -> None:
    """Raises RefusedError where most sampled keys of a segment hold no time of it, or hold one in another place."""
    if not keys:
        return
    emitting = [_begins_with_time(key, span) for key in keys]
    if all(emitting) and any(key.startswith(_ON_CLOSE) for key in keys):
        raise SampleError(
            f"the keys of {where} begin with their time: it is a store that emits when windows or sessions close, "
            "which cannot be converted",
            hint="let the application restore it from its changelog, in a store of the new kind",
        )
    misplaced = [key for key in keys if not _is_within(key[source.segment_time], span)]
    if 2 * len(misplaced) > len(keys):
        raise SampleError(
            f"{len(misplaced)} of {len(keys)} sampled keys of {where} lie outside the time of their segment, {span}",
            hint=f"is {source.id} the format that the store has? `stateferry inspect` shows what is there",
        )


def _begins_with_time(key: bytes, span: TimeSlice) -> bool:
    return key.startswith(_INDEX) or (key.startswith(_ON_CLOSE) and _is_within(key[1:9], span))


def _is_within(time: bytes, span: TimeSlice) -> bool:
    return len(time) == 8 and span.start_ms <= int.from_bytes(time, "big", signed=True) < span.end_ms


def check_segments(opened: Sequence[Database], plan: DatabasePlan, source: Source, known: Format) -> None:
    """Check the keys, of the `known` format, of a sample of each segment that is `opened`. Raises RefusedError."""
    partition = next(each for each in source.partitions if each.id == plan.store_partition)
    if not partition.has_segments:
        return
    spans = spans_of(source.system.segments.of(source.path, partition))
    for each, mapping in product(opened, plan.mappings):
        if mapping.source not in each.families:
            continue
        name = each.directory.name
        batches = read_sample(each, mapping.source, SampleSize(_SAMPLE, _SAMPLE_BYTES)).batches
        keys = [key for batch in batches for key in batch.keys]
        check_keys(keys, known, spans[name], f"{plan.store_partition}/{name}")


Entry = tuple[bytes, bytes]
"""A key and its value, as stored."""


def convert_sample(
    conversion: Conversion, key: bytes, value: bytes, time_ms: int | None = None
) -> tuple[Entry | None, int]:
    """The converted record, if there is one, and the number of values that the function drops; it is called twice.

    `time_ms`: the record's, from the changelog.

    Raises EntryError for a reject, RefusedError where two results differ, or for a loss that is not allowed.
    """
    if conversion.function is None:  # our own conversions are pure
        return conversion.convert_counting(key, value, time_ms)
    try:
        first, second = (conversion.convert_counting(key, value, time_ms) for _ in range(2))
    except LossError as error:
        raise loss_not_allowed("a sampled record", key, error) from error
    except OSError as error:
        raise RefusedError(
            f"the function cannot reach what it needs: for the key {show_key(key)} it raised {describe_error(error)}",
            hint="put that where the function expects it; a file beside the spec is found by Path(__file__), and named "
            "in [conversion] files",
        ) from error
    if first != second:
        raise RefusedError(
            f"the function is not pure: it gave two results for the key {show_key(key)}",
            hint="a chunk may be converted again at any time: no clock, no random numbers, no state between records",
        )
    return first


def check_not_already_converted(
    conversion: Conversion, pairs: Sequence[tuple[Entry, Entry | None]], where: str
) -> None:
    """Check records whose place and column family do not distinguish old from new ones (I10).

    Raises RefusedError where every record decodes as the target's format, and one would be changed. `pairs`: sampled
    records, each with the one that it becomes.
    """
    if not _holds_more(conversion) or all(new in (None, old) for old, new in pairs):
        return
    sample = FormatSample(conversion.target)
    for old, _ in pairs:
        sample.add(*old, now_ms=0)
    if sample.decoded == sample.sampled:
        raise SampleError(
            f"each of {sample.sampled} sampled records of {where} could be one of the new form already: was this store "
            "migrated before?",
            hint=f"if it was not, accept that: {allowing(LOOKS_CONVERTED)}",
        )


def _holds_more(conversion: Conversion) -> bool:
    """Whether a converted record could be converted once more; unknown, and taken as no, for a function."""
    source, target = conversion.source, conversion.target
    is_same = source.id == target.id and conversion.changes_payloads
    carries_more = source.system == target.system and bool(target.carries - source.carries)
    return (is_same or carries_more) and conversion.function is None


SAMPLE_RECORDS = 256
SAMPLE_SHARE = 0.01
SAMPLE_MIN_BYTES = 1 << 16


def _hint(conversion: Conversion, entry: Entry, error: EntryError) -> str:
    """What to look at, by where the reason comes from."""
    if isinstance(error, FunctionError):
        return "mend the function, or let it return the record as it is"
    if error.part:
        source = conversion.source
        serde = source.key_serde if error.part == "key" else source.value_serde
        frame = f", frame {serde.frame!r}" if hasattr(serde, "frame") else ""
        wanted = "the serde, the frame and the schema ids" if frame else "the serde"
        asked = f"does [conversion.{error.part}] name {wanted} that the bytes show? It names {serde.name!r}{frame}"
        way = f"no serde reads what these bytes look like: without [conversion.{error.part}] a [conversion] function "
        way += "gets the bytes (docs/serdes.md); if they are something else: "
        return f"{way if error.is_for_a_function else ''}{asked}"
    if can_be_read(conversion.source, entry):
        mend = "name" if conversion.function is None else "mend what the function returns, or name"
        return f"the old record can be read: {mend} in [conversion.key] or [conversion.value] a serde that can hold it"
    return "is [source] format the format that the store has?"


def can_be_read(source: Format, entry: Entry) -> bool:
    """Whether a record decodes as its format."""
    try:
        source.decode(*entry)
    except EntryError:
        return False
    return True


def check_sample(
    opened: Sequence[Database],
    database: DatabasePlan,
    conversion: Conversion,
    allowed: Collection[str],
    times: KnownTimes | None = None,
    *,
    on_columns: OnColumns | None = None,
) -> None:
    """Convert a sample of records from the whole key range; with `times`, of records whose times are known.

    `on_columns`: for wide-column records.

    Raises RefusedError where none can be converted, where all may be converted already and would be once more (I10),
    or where the function gives two results for a record.
    """
    converted: list[tuple[FamilyMapping, Entry, Entry | None]] = []
    reasons: list[tuple[Entry, EntryError]] = []
    budget = max(SAMPLE_MIN_BYTES, int(SAMPLE_SHARE * database.data_bytes)) // (len(database.mappings) * len(opened))
    size = SampleSize(SAMPLE_RECORDS // len(opened) or 1, budget)
    for each, mapping in product(opened, database.mappings):
        convert = Converter(conversion, conversion.program, RejectsByReason(), mapping.source)
        column = None if times is None else times.column()
        sampled = (each, mapping.source, size)
        sample = read_sample(*sampled, on_columns) if times is None else times.sample(*sampled)
        for batch in sample.batches:
            entries = list(zip(batch.keys, batch.values, strict=True))
            if conversion.function is None and len(new := convert(batch)) == len(batch):
                converted += zip(repeat(mapping), entries, zip(new.keys, new.values, strict=True), strict=False)
                continue
            seen = unpacked_times(None if column is None else column(batch.keys), len(batch))
            for (key, value), time_ms in zip(entries, seen, strict=True):
                try:
                    converted.append((mapping, (key, value), convert_sample(conversion, key, value, time_ms)[0]))
                except EntryError as error:
                    reasons.append(((key, value), error))
    if reasons and not converted:
        entry, first = reasons[0]
        raise SampleError(
            f"none of {len(reasons)} sampled records of {database.store_partition} can be converted from "
            f"{conversion.source.id} to {conversion.target.id}; the first one, {show_key(entry[0])}: {first}"
            + (f" ({first.place})" if first.place else ""),
            hint=_hint(conversion, entry, first),
        )
    if LOOKS_CONVERTED not in allowed:
        pairs = [(old, new) for mapping, old, new in converted if mapping.source == mapping.target]
        check_not_already_converted(conversion, pairs, database.store_partition)


@dataclass(frozen=True, slots=True)
class KnownTimes:
    """A run of times for the sample of one store partition."""

    run: Database
    is_whole: bool
    """Whether it has what the changelog tells of every key; else only keys that its last records name."""
    unknown_ms: int
    """The time of keys that are not in the changelog."""

    def sample(self, database: Database, family: str, size: SampleSize) -> Sample:
        if self.is_whole:
            return read_sample(database, family, size)
        return read_named(database, family, keys_of(self.run), size)

    def column(self) -> TimesColumn:
        """The look-up for one scan, in key order."""
        return TimesColumn(self.run, self.unknown_ms)
