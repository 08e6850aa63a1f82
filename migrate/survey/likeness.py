"""Which known formats fit a RocksDB directory by its column families; a sample of its records rules formats out, and
gives a hint."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from formats import FORMATS, Format, get_format
from formats.likeness import SURE, FormatSample, leaves_marks, looks_closed_first
from migrate.batch.source.sampling import SampleSize, read_sample
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database
from migrate.survey.report import DatabaseReport, Likeness
from migrate.systems import System, get_system

_SAMPLE = SampleSize(records=100, max_bytes=1 << 18)


def formats_that_fit(families: Iterable[str], *, is_segmented: bool | None = None) -> tuple[str, ...]:
    """Ids of the formats that keep their records in exactly these families and those of an unfinished upgrade.

    `is_segmented`: whether the format must be segmented; None: either.
    """
    found = set(families)
    return tuple(known.id for known in FORMATS if is_segmented in (None, known.is_segmented) and _fits(known, found))


def _fits(known: Format, families: set[str]) -> bool:
    if known.column_families is None:
        return True
    older = {family.name for family in known.older_families}
    own = families - {*known.metadata_families}
    return own >= {*known.column_families} and own <= {*known.column_families, *older, DEFAULT_FAMILY}


def formats_of(
    databases: Iterable[DatabaseReport], *, system: str | None, is_segmented: bool | None
) -> tuple[str, ...]:
    """Ids of the formats that fit every RocksDB directory that could be opened: segments in an upgrade may differ.

    `system`, `is_segmented`: of the formats; None: any.
    """
    fitting = [database.formats for database in databases if database.families]
    common = [get_format(name) for name in next(iter(fitting), ()) if all(name in each for each in fitting)]
    return tuple(
        known.id for known in common if system in (None, known.system) and is_segmented in (None, known.is_segmented)
    )


def system_of_metadata(family: str, fitting: Iterable[str]) -> System | None:
    """The system whose metadata the family holds, by the formats that fit; None: it holds records."""
    known = (get_format(format_id) for format_id in fitting)
    return next((get_system(f.system) for f in known if family in f.metadata_families), None)


def sample_likeness(database: Database, family: str, fitting: Iterable[str]) -> tuple[tuple[Likeness, ...], float]:
    """(likeness to each format that keeps its records there, `FamilyReport.closed_first`) of a column family's sample.

    Raises CorruptionError.
    """
    formats = [get_format(format_id) for format_id in fitting]
    counts = [FormatSample(known) for known in formats if family in (known.column_families or ())]
    if not counts:
        return (), 0.0
    now_ms = int(time.time() * 1000)
    closed_first = 0
    for batch in read_sample(database, family, _SAMPLE).batches:
        for key, value in zip(batch.keys, batch.values, strict=True):
            closed_first += looks_closed_first(key, now_ms=now_ms)
            for count in counts:
                count.add(key, value, now_ms=now_ms)
    likeness = tuple(
        Likeness(format=count.known.id, sampled=count.sampled, decoded=count.decoded, alike=count.alike)
        for count in counts
    )
    return likeness, closed_first / max(1, counts[0].sampled)


def likeness_of(databases: Iterable[DatabaseReport], format_ids: Iterable[str]) -> tuple[Likeness, ...]:
    """The likeness to each of these formats, summed over the samples of all column families."""
    found = [each for database in databases for family in database.families for each in family.likeness]
    by_format = {name: [each for each in found if each.format == name] for name in format_ids}
    counted = ("sampled", "decoded", "alike")
    return tuple(
        Likeness(format=name, **{count: sum(getattr(each, count) for each in same) for count in counted})
        for name, same in by_format.items()
        if same
    )


def possible_formats(format_ids: Sequence[str], databases: Iterable[DatabaseReport]) -> list[str]:
    """The formats that the samples do not rule out: a format is ruled out where no sampled record decodes as it.

    A record that decodes as a format proves nothing.
    """
    ruled_out = {each.format for each in likeness_of(databases, format_ids) if each.sampled and not each.decoded}
    return [name for name in format_ids if name not in ruled_out]


def hint(likeness: Iterable[Likeness]) -> str:
    """A sentence that tells formats of the same column families apart; empty: the sample does not."""
    found = [each for each in likeness if each.sampled]
    marked = [each for each in found if leaves_marks(get_format(each.format))]
    if len(found) < 2 or not marked:
        return ""
    alike = [each.format for each in marked if each.alike >= SURE * each.sampled]
    if alike:
        return f"its records look like {' or '.join(alike)}"
    unlike = [each.format for each in marked if each.alike <= (1 - SURE) * each.sampled]
    return f"its records do not look like {' or '.join(unlike)}" if len(unlike) == len(marked) else ""
