"""One RocksDB directory as `inspect` reports it, read-only, also while its owner runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from formats import FORMATS, Format, get_format
from formats.likeness import FormatSample, looks_closed_first
from migrate.batch.preflight.check import with_retries
from migrate.batch.source.sampling import SampleSize, read_sample
from migrate.engine.portable import RecordDigest
from migrate.errors import CorruptionError, MigrationError
from migrate.model.preview import shown
from migrate.stores.cursor_file import half_converged
from migrate.stores.files import present
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database, open_read_only
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.options_file import FamilyOptions, newest_options, read_options
from migrate.survey.inspect_report import DatabaseReport, FamilyReport, Likeness, RecordShown
from migrate.systems import System, get_system

SAMPLES = 3
_MAX_ENTRIES = 100
_DAMAGED = (
    "can its own application read it? then nothing is damaged (records of a merge operator can be read by their owner "
    "only); else restore this store from a backup or let its owner rebuild it"
)
_ATTEMPTS = 50
"""A running owner may remove a file between the listing and the opening: then the files are listed again."""
_SAMPLE = SampleSize(records=100, max_bytes=1 << 18)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a RocksDB directory was found."""

    directory: Path
    path: str
    """The path as it is reported."""
    role: str = ""
    held_by: int | None = None
    store_partition: str = ""
    segment_start_ms: int | None = None
    system: System | None = None
    """That of the application around it; None: none is known."""

    @property
    def is_segmented(self) -> bool | None:
        """Whether it is one of several segments; None: not known from its place."""
        return self.segment_start_ms is not None if self.store_partition else None

    def report(self, **facts: Any) -> DatabaseReport:  # noqa: ANN401 - pydantic checks them
        """The report of this place with `facts`, which are further fields of it."""
        return DatabaseReport(
            path=self.path,
            role=self.role,
            store_partition=self.store_partition,
            segment_start_ms=self.segment_start_ms,
            held_by=self.held_by,
            **facts,
        )


def database_report(place: Place, *, digest: bool = False) -> DatabaseReport:
    """The content of a directory; `error` reports damaged records. Raises RefusedError if it cannot be opened."""
    return with_retries(lambda: _read(place, digest=digest), is_in_use=place.held_by is not None, attempts=_ATTEMPTS)


def damaged_database(place: Place, error: MigrationError) -> DatabaseReport:
    """The report of a RocksDB directory that cannot be read: its error, and what is known without opening it."""
    return place.report(size=_size(place.directory.iterdir()), error=error.message, hint=error.hint)


def _size(files: Iterable[Path]) -> int:
    return sum(status.st_size for status in present(files).values())


def _read(place: Place, *, digest: bool) -> DatabaseReport:
    directory = place.directory
    files = database_files(directory)
    options = read_options(directory)
    with open_read_only(directory, all_files=place.held_by is not None) as database:
        fitting = formats_that_fit(database.families, is_segmented=place.is_segmented)
        families = tuple(
            _family_report(database, name, options.get(name), digest=digest, fitting=fitting, owner=place.system)
            for name in database.families
        )
        damaged = next((family for family in families if family.error is not None), None)
        return place.report(
            families=families,
            formats=fitting,
            sst_files=len(database.live_files),
            size=_size(files.every),
            sequence_number=database.sequence_number,
            half_converged=half_converged(directory),
            rocksdb_version=newest_options(directory).rocksdb_version,
            error=None if damaged is None else damaged.error,
            hint="" if damaged is None else _DAMAGED,
        )


def _family_report(
    database: Database,
    family: str,
    options: FamilyOptions | None,
    *,
    digest: bool,
    fitting: tuple[str, ...],
    owner: System | None,
) -> FamilyReport:
    read, system = RecordDigest(), system_of_metadata(family, fitting)
    facts: dict[str, Any] = {} if options is None else asdict(options)
    try:
        facts["samples"] = tuple(
            RecordShown(key=shown(key), value=shown(value)) for key, value in _first(database, family, SAMPLES)
        )
        if system is None:
            facts["likeness"], facts["closed_first"] = sample_likeness(database, family, fitting)
            facts["names"] = {} if owner is None else _names(database, family, owner)
        else:
            entries = _first(database, family, _MAX_ENTRIES)
            facts["entries"] = tuple(system.offsets.describe(*entry) for entry in entries)
        for batch in database.batches(family) if digest else ():
            read.update(batch)
    except CorruptionError as damage:
        facts["error"] = damage.message
    is_counted = digest and "error" not in facts
    return FamilyReport(
        name=family,
        records=read.records if is_counted else database.estimated_records(family),
        exact=is_counted,
        record_bytes=read.size if is_counted else None,
        digest=str(read) if is_counted else None,
        **facts,
    )


def _first(database: Database, family: str, count: int) -> Iterator[tuple[bytes, bytes]]:
    """The first records in key order. Raises CorruptionError where RocksDB returns fewer than there are (I4)."""
    records = (record for batch in database.batches(family) for record in zip(batch.keys, batch.values, strict=True))
    return islice(records, count)


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
    likeness = tuple(Likeness.model_validate(count, from_attributes=True) for count in counts)
    return likeness, closed_first / max(1, counts[0].sampled)


def _names(database: Database, family: str, owner: System) -> dict[str, int]:
    """The names of values in a column family's sample, if its owner's keys have some. Raises CorruptionError."""
    batches = read_sample(database, family, _SAMPLE).batches if owner.discovery.names_values else ()
    return dict(Counter(name for batch in batches for name in map(owner.discovery.name_in, batch.keys) if name))


def samples_of(databases: Iterable[DatabaseReport], format_ids: Iterable[str]) -> list[FormatSample]:
    """What the samples of all column families say of each of these formats that they were compared with."""
    found: dict[str, FormatSample] = {}
    likeness = [each for database in databases for family in database.families for each in family.likeness]
    for name, each in ((name, each) for name in format_ids for each in likeness if each.format == name):
        sample = found.setdefault(name, FormatSample(get_format(name)))
        sample.sampled += each.sampled
        sample.decoded += each.decoded
        sample.alike += each.alike
    return list(found.values())


def possible_formats(format_ids: Sequence[str], databases: Iterable[DatabaseReport]) -> list[str]:
    """The formats that the samples do not rule out."""
    ruled_out = {each.format for each in samples_of(databases, format_ids) if each.is_ruled_out}
    return [name for name in format_ids if name not in ruled_out]
