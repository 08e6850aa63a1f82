"""Which known formats fit a RocksDB directory, by column families; a sample of the records only rules one out, or is a
hint for a person."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from formats import FORMATS, Format, get_format
from formats.likeness import SURE, FormatSample, leaves_marks, looks_closed_first
from migrate.batch.source.sampling import SampleSize, read_sample
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database
from migrate.survey.report import DatabaseReport, Likeness
from migrate.systems import System, get_system

_SAMPLE = SampleSize(records=100, max_bytes=1 << 18)


def formats_that_fit(families: Iterable[str], *, is_segmented: bool | None = None) -> tuple[str, ...]:
    """Ids of the formats that keep their records in exactly these families, an unfinished upgrade's among them.

    `is_segmented`: those that lie so, where the directory's place tells.
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
    """Those that fit every RocksDB directory that could be opened: segments of an unfinished upgrade differ.

    `system`: those of one system only.
    """
    fitting = [
        formats_that_fit([family.name for family in database.families], is_segmented=is_segmented)
        for database in databases
        if database.families
    ]
    common = (name for name in next(iter(fitting), ()) if all(name in others for others in fitting))
    return tuple(name for name in common if system in (None, get_format(name).system))


def system_of_metadata(family: str, fitting: Iterable[str]) -> System | None:
    """The system whose metadata it holds, by the formats that fit; None: it holds records."""
    known = (get_format(format_id) for format_id in fitting)
    return next((get_system(f.system) for f in known if family in f.metadata_families), None)


@dataclass(frozen=True, slots=True)
class Looks:
    """What a sample of a column family looks like."""

    likeness: tuple[Likeness, ...] = ()
    closed_first: float = 0.0


def look(database: Database, family: str, fitting: Iterable[str]) -> Looks:
    """Some records from all over a column family, under each format that keeps its records there."""
    formats = [get_format(format_id) for format_id in fitting]
    counts = [FormatSample(known) for known in formats if family in (known.column_families or ())]
    if not counts:
        return Looks()
    now_ms = int(time.time() * 1000)
    closed_first = 0
    for batch in read_sample(database, family, _SAMPLE).batches:
        for key, value in zip(batch.keys, batch.values, strict=True):
            closed_first += looks_closed_first(key, now_ms=now_ms)
            for count in counts:
                count.add(key, value, now_ms=now_ms)
    return Looks(
        likeness=tuple(
            Likeness(format=count.known.id, sampled=count.sampled, decoded=count.decoded, alike=count.alike)
            for count in counts
        ),
        closed_first=closed_first / max(1, counts[0].sampled),
    )


def likeness_of(databases: Iterable[DatabaseReport], format_ids: Iterable[str]) -> tuple[Likeness, ...]:
    """For each of these formats, over the samples of all column families that it keeps records in."""
    found = [each for database in databases for family in database.families for each in family.likeness]
    by_format = {name: [each for each in found if each.format == name] for name in format_ids}
    return tuple(
        Likeness(
            format=name,
            sampled=sum(each.sampled for each in mine),
            decoded=sum(each.decoded for each in mine),
            alike=sum(each.alike for each in mine),
        )
        for name, mine in by_format.items()
        if mine
    )


def could_be(format_ids: Iterable[str], databases: Sequence[DatabaseReport]) -> list[str]:
    """Those that a sampled record decodes as, or of which none was sampled.

    That a record can be read as a format proves nothing; that none can be rules it out.
    """
    ids = tuple(format_ids)
    ruled_out = {each.format for each in likeness_of(databases, ids) if each.sampled and not each.decoded}
    return [name for name in ids if name not in ruled_out]


def hint(likeness: Iterable[Likeness]) -> str:
    """What distinguishes formats of the same column families; empty: nothing does, or there is no sample."""
    found = [each for each in likeness if each.sampled]
    marked = [each for each in found if leaves_marks(get_format(each.format))]
    if len(found) < 2 or not marked:
        return ""
    alike = [each.format for each in marked if each.alike >= SURE * each.sampled]
    if alike:
        return f"its records look like {' or '.join(alike)}"
    unlike = [each.format for each in marked if each.alike <= (1 - SURE) * each.sampled]
    return f"its records do not look like {' or '.join(unlike)}" if len(unlike) == len(marked) else ""
