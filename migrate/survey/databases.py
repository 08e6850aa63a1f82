"""One RocksDB directory as `inspect` reports it, read-only, also while its owner runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from migrate.batch.preflight.retry import with_retries
from migrate.engine.digest import RecordDigest
from migrate.errors import CorruptionError, MigrationError
from migrate.model.preview import shown
from migrate.stores.cursor_file import half_converged
from migrate.stores.files import present
from migrate.stores.rocksdb.database import Database, open_read_only
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.options_file import FamilyOptions, read_options, rocksdb_version
from migrate.survey.likeness import formats_that_fit, sample_likeness, system_of_metadata
from migrate.survey.report import DatabaseReport, FamilyReport, RecordShown

SAMPLES = 3
_MAX_ENTRIES = 100
_DAMAGED = (
    "can its own application read it? then nothing is damaged (records of a merge operator can be read by their owner "
    "only); else restore this store from a backup or let its owner rebuild it"
)
_ATTEMPTS = 50
"""A running owner may remove a file between the listing and the opening: then the files are listed again."""


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
            _family_report(database, name, options.get(name), digest=digest, fitting=fitting)
            for name in database.families
        )
        damaged = next((family for family in families if family.error is not None), None)
        return place.report(
            families=families,
            formats=fitting,
            sst_files=len(database.live_files()),
            size=_size(files.every),
            sequence_number=database.sequence_number,
            half_converged=half_converged(directory),
            rocksdb_version=rocksdb_version(directory),
            error=None if damaged is None else damaged.error,
            hint="" if damaged is None else _DAMAGED,
        )


def _family_report(
    database: Database, family: str, options: FamilyOptions | None, *, digest: bool, fitting: tuple[str, ...]
) -> FamilyReport:
    read, system = RecordDigest(), system_of_metadata(family, fitting)
    facts: dict[str, Any] = {} if options is None else asdict(options)
    try:
        facts["samples"] = tuple(
            RecordShown(key=shown(key), value=shown(value)) for key, value in _first(database, family, SAMPLES)
        )
        if system is None:
            facts["likeness"], facts["closed_first"] = sample_likeness(database, family, fitting)
        else:
            entries = _first(database, family, _MAX_ENTRIES)
            facts["entries"] = tuple(system.metadata_in_words(*entry) for entry in entries)
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
