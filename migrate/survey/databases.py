"""One RocksDB directory: families, options, counts, a few records. Read-only, beside a running owner too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from migrate.batch.preflight.retry import look_again
from migrate.engine.digest import RecordDigest
from migrate.errors import CorruptionError, MigrationError, explain_system_error
from migrate.model.preview import shown
from migrate.stores.cursor_file import half_converged
from migrate.stores.files import present
from migrate.stores.rocksdb.database import Database, open_read_only
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.options_file import FamilyOptions, read_options, rocksdb_version
from migrate.survey.likeness import Looks, formats_that_fit, look, system_of_metadata
from migrate.survey.report import DatabaseReport, FamilyReport, RecordShown

SAMPLES = 3
_MAX_ENTRIES = 100
_DAMAGED = (
    "can its own application read it? then nothing is damaged (a merge operator's records only its owner reads); "
    "else restore this store from a backup or let its owner rebuild it"
)
_ATTEMPTS = 50
"""A running owner may remove a file between the listing and the opening: what it has then is listed again."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a RocksDB directory was found."""

    directory: Path
    path: str
    """As it is reported."""
    role: str = ""
    held_by: int | None = None
    store_partition: str = ""
    segment_start_ms: int | None = None

    @property
    def is_segmented(self) -> bool | None:
        """Whether it is one of several segments; None: its place does not tell."""
        return self.segment_start_ms is not None if self.store_partition else None


def database_report(place: Place, *, digest: bool, strict: bool = False) -> DatabaseReport:
    """What lies in it. `strict`: damage in its records is raised as CorruptionError, else reported.

    Raises RefusedError where it cannot be opened.
    """
    report = look_again(lambda: _read(place, digest=digest), is_in_use=place.held_by is not None, looks=_ATTEMPTS)
    if strict and report.error is not None:
        raise CorruptionError(report.error, hint=report.hint)
    return report


def damaged_database(place: Place, error: MigrationError) -> DatabaseReport:
    """The same for one that cannot be read: its error, and what can be told without opening it."""
    return DatabaseReport(
        path=place.path,
        role=place.role,
        store_partition=place.store_partition,
        segment_start_ms=place.segment_start_ms,
        size=_size(place.directory.iterdir()),
        held_by=place.held_by,
        error=error.message,
        hint=error.hint,
    )


def _size(files: Iterable[Path]) -> int:
    return sum(status.st_size for status in present(files).values())


def as_migration_error(error: Exception) -> MigrationError | None:
    """What can be listed beside what could be read; None: a bug."""
    return error if isinstance(error, MigrationError) else explain_system_error(error)


def _read(place: Place, *, digest: bool) -> DatabaseReport:
    directory = place.directory
    files = database_files(directory)
    options = read_options(directory)
    with open_read_only(directory, all_files=place.held_by is not None) as database:
        fitting = formats_that_fit(database.families, is_segmented=place.is_segmented)
        families = tuple(
            _family_report(database, name, options.get(name), digest=digest, fitting=fitting)
            for name in database.families
        )
        damaged = next((family for family in families if family.error is not None), None)
        return DatabaseReport(
            path=place.path,
            role=place.role,
            store_partition=place.store_partition,
            segment_start_ms=place.segment_start_ms,
            families=families,
            formats=fitting,
            sst_files=len(database.live_files()),
            size=_size(files.every),
            sequence_number=database.sequence_number,
            half_converged=half_converged(directory),
            rocksdb_version=rocksdb_version(directory),
            held_by=place.held_by,
            error=None if damaged is None else damaged.error,
            hint="" if damaged is None else _DAMAGED,
        )


def _family_report(
    database: Database, family: str, options: FamilyOptions | None, *, digest: bool, fitting: tuple[str, ...]
) -> FamilyReport:
    read, looks = RecordDigest(), Looks()
    system = system_of_metadata(family, fitting)
    samples: tuple[RecordShown, ...] = ()
    entries: tuple[str, ...] = ()
    error = None
    try:
        samples = tuple(_show(*record) for record in _first(database, family, SAMPLES))
        if system is None:
            looks = look(database, family, fitting)
        else:
            entries = tuple(system.describe_metadata(*record) for record in _first(database, family, _MAX_ENTRIES))
        for batch in database.batches(family) if digest else ():
            read.update(batch)
    except CorruptionError as damage:
        error = damage.message
    is_counted = digest and error is None
    return FamilyReport(
        name=family,
        records=read.records if is_counted else database.estimated_records(family),
        exact=is_counted,
        record_bytes=read.size if is_counted else None,
        digest=str(read) if is_counted else None,
        comparator=None if options is None else options.comparator,
        merge_operator=None if options is None else options.merge_operator,
        compression=None if options is None else options.compression,
        format_version=None if options is None else options.format_version,
        samples=samples,
        entries=entries,
        likeness=looks.likeness,
        closed_first=looks.closed_first,
        error=error,
    )


def _show(key: bytes, value: bytes) -> RecordShown:
    return RecordShown(key=shown(key), value=shown(value))


def _first(database: Database, family: str, count: int) -> Iterator[tuple[bytes, bytes]]:
    """Raises CorruptionError where fewer came than there are (I4)."""
    records = (record for batch in database.batches(family) for record in zip(batch.keys, batch.values, strict=True))
    return islice(records, count)
