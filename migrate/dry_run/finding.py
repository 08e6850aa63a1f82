"""What lies in a RocksDB directory: families, bounds for their records, files, versions, changelog positions."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from migrate.dry_run.report import ChangelogPosition, DatabaseFound, FamilyFound, Role
from migrate.plan_model import DatabasePlan
from migrate.planning import record_bytes
from migrate.source import Source
from migrate.store_partition import StorePartition
from migrate.stores.layout import database_files
from migrate.stores.options_file import rocksdb_version
from migrate.stores.rocksdb import Database, LiveFile
from migrate.stores.sst import SstFile, SstFormatError, TableProperties
from migrate.systems import System

_MOST_METADATA = 16
_Positions = tuple[ChangelogPosition, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """An SST file and what it says of itself."""

    file: LiveFile
    properties: TableProperties


def read_tables(directory: Path, files: Iterable[LiveFile]) -> list[Table]:
    """Every file whose properties can be read; a scan says what is wrong with the others."""
    tables = []
    for file in files:
        try:
            with SstFile(directory / file.name) as sst:
                tables.append(Table(file, sst.properties()))
        except (SstFormatError, FileNotFoundError):
            continue
    return tables


def find_database(
    source: Source, partition: StorePartition, name: str, database: Database, plan: DatabasePlan
) -> DatabaseFound:
    """Everything that can be told of a RocksDB directory without reading its records; `plan`: what becomes of it."""
    directory = database.directory
    files = database_files(directory)
    tables = {family: read_tables(directory, database.files_of(family)) for family in database.families}
    properties = [table.properties for of_family in tables.values() for table in of_family]
    sizes = {path: status for path in files.every if (status := _status(path)) is not None}
    statuses = sizes.values()
    return DatabaseFound(
        store_partition=plan.store_partition,
        database=name,
        path=directory,
        families=tuple(_find_family(source, database, family, tables[family], plan) for family in tables),
        size=sum(status.st_size for status in statuses),
        record_bytes=record_bytes(database),
        sst_files=len(database.live_files()),
        wal_bytes=sum(status.st_size for path, status in sizes.items() if path.suffix == ".log"),
        table_formats=tuple(sorted({each.format_version for each in properties})),
        compressions=tuple(sorted({each.compression for each in properties})),
        rocksdb_version=rocksdb_version(directory),
        owner=source.system.owner_version(directory),
        newest_file_ms=max((status.st_mtime_ns // 1_000_000 for status in statuses), default=None),
        positions=_positions(source, partition, database),
    )


def _find_family(
    source: Source, database: Database, family: str, tables: list[Table], plan: DatabasePlan
) -> FamilyFound:
    at_least, at_most = _bounds(database, family, tables)
    estimate = min(max(database.estimated_records(family), at_least), at_most)
    is_metadata = family in source.format.metadata_families
    return FamilyFound(
        name=family,
        role=_role(family, plan, is_metadata=is_metadata),
        records=estimate,
        exact=at_most == 0,
        at_least=at_least,
        at_most=at_most,
        entries=_entries(source.system, database, family) if is_metadata else (),
    )


def _role(family: str, plan: DatabasePlan, *, is_metadata: bool) -> Role:
    if is_metadata:
        return "metadata"
    if any(family in lane.older for lane in plan.lanes):
        return "older"
    return "records" if any(family == lane.source for lane in plan.lanes) else "other"


def _entries(system: System, database: Database, family: str) -> tuple[str, ...]:
    batch = database.sample(family, None, _MOST_METADATA)
    return tuple(system.metadata_in_words(key, value) for key, value in zip(batch.keys, batch.values, strict=True))


def _bounds(database: Database, family: str, tables: list[Table]) -> tuple[int, int]:
    """(at least, at most) so many records: no scan tells it cheaper.

    Within a sorted run (a level, or a file of level 0) no key comes twice; anywhere else, the log included, it may.
    """
    entries, deletions = database.unflushed_entries(family)
    runs: defaultdict[object, list[int]] = defaultdict(lambda: [0, 0])
    for table in tables:
        run = runs[table.file.level or table.file.name]
        run[0] += table.properties.entries - table.properties.deletions
        run[1] += table.properties.deletions
    at_most = entries - deletions + sum(puts for puts, _ in runs.values())
    all_deletions = deletions + sum(deleted for _, deleted in runs.values())
    surely = max((puts - (all_deletions - deleted) for puts, deleted in runs.values()), default=0)
    # RocksDB does not tell how many of the log's entries are deletions of ranges.
    if entries > deletions or any(table.properties.range_deletions for table in tables):
        surely = 0
    if len(tables) < len(database.files_of(family)):  # one cannot be read here, or its owner has removed it
        surely, at_most = 0, entries - deletions + database.table_puts(family)
    return max(0, min(surely, at_most)), at_most


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:  # its owner runs, and has removed it meanwhile
        return None


def _positions(source: Source, partition: StorePartition, database: Database) -> _Positions:
    where = next(map(str, source.system.side_files(partition)), "the store")
    found = [(line, where) for line in source.system.positions(source.path, partition).lines]
    for family in [name for name in source.format.metadata_families if name in database.families]:
        batch = database.sample(family, None, _MOST_METADATA)
        entries = zip(batch.keys, batch.values, strict=True)
        found += [(line, f"column family {family!r}") for line in source.system.inner_positions(entries)]
    return tuple(
        ChangelogPosition(topic=topic, partition=number, offset=None if offset < 0 else offset, where=where)
        for (topic, number, offset), where in found
    )
