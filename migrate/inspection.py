"""`inspect`: what lies in a directory, without touching it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from formats import FORMATS
from migrate.digest import RecordDigest
from migrate.dual.mark import half_converged
from migrate.errors import RefusedError
from migrate.report import DatabaseReport, FamilyReport, InspectReport
from migrate.stores.layout import database_files, is_rocksdb
from migrate.stores.options_file import FamilyOptions, read_options
from migrate.stores.rocksdb import DEFAULT_FAMILY, Database, open_read_only
from migrate.system_errors import system_errors_explained


@system_errors_explained()
def inspect(path: str | Path, *, digest: bool = False) -> InspectReport:
    """Every RocksDB directory at or below `path`, with its column families; `digest` reads every record.

    Raises RefusedError where there is none, CorruptionError where a digest meets a damaged block.
    """
    root = Path(path)
    if not root.is_dir():
        raise RefusedError(f"{root} is not a directory", hint="name a state directory or a RocksDB directory")
    databases = tuple(_inspect_database(folder, root, digest=digest) for folder in _databases(root))
    if not databases:
        raise RefusedError(f"no RocksDB directory at or below {root}", hint="name a state directory")
    return InspectReport(path=root.resolve(), databases=databases)


def _databases(root: Path) -> Iterator[Path]:
    if is_rocksdb(root):
        yield root
        return
    for folder in sorted(folder for folder in root.iterdir() if folder.is_dir() and not folder.is_symlink()):
        yield from _databases(folder)


def _inspect_database(directory: Path, root: Path, *, digest: bool) -> DatabaseReport:
    files = database_files(directory)
    options = read_options(directory)
    with open_read_only(directory) as database:
        families = tuple(
            _inspect_family(database, name, options.get(name), digest=digest) for name in database.families
        )
        return DatabaseReport(
            path=str(directory.relative_to(root)),
            families=families,
            formats=_formats_that_fit(database.families),
            sst_files=len(database.live_files()),
            size=sum(file.stat().st_size for file in files.every),
            sequence_number=database.sequence_number,
            half_converged=half_converged(directory),
        )


def _inspect_family(database: Database, family: str, options: FamilyOptions | None, *, digest: bool) -> FamilyReport:
    read = RecordDigest() if digest else None
    if read is not None:
        for batch in database.batches(family):
            read.update(batch)
    return FamilyReport(
        name=family,
        records=database.estimated_records(family) if read is None else read.records,
        exact=read is not None,
        record_bytes=None if read is None else read.size,
        digest=None if read is None else str(read),
        comparator=None if options is None else options.comparator,
        merge_operator=None if options is None else options.merge_operator,
        compression=None if options is None else options.compression,
        format_version=None if options is None else options.format_version,
    )


def _formats_that_fit(families: tuple[str, ...]) -> tuple[str, ...]:
    """By column families alone: bytes are never guessed at."""
    fitting = []
    for known in FORMATS:
        data = {family for family in families if family not in known.metadata_families}
        if known.column_families is None or {*known.column_families, DEFAULT_FAMILY} == {*data, DEFAULT_FAMILY}:
            fitting.append(known.id)
    return tuple(fitting)
