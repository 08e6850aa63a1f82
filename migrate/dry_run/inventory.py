"""The inventory of a RocksDB directory: column families, bounds of their record counts, files, changelog offsets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from migrate.batch.plan.make_plan import record_bytes
from migrate.batch.source.source import Source
from migrate.dry_run.dry_run_report import ChangelogPosition, DatabaseInventory, FamilyInventory, Inventory, Role
from migrate.dry_run.sample_conversion import RecordSizes
from migrate.model.plan import DatabasePlan
from migrate.model.store_partition import StorePartition
from migrate.stores.files import present
from migrate.stores.rocksdb.database import Database, LiveFile
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.options_file import rocksdb_version
from migrate.stores.rocksdb.sst import SstFormatError, TableProperties, table_properties

_MOST_METADATA = 16
_Table = tuple[LiveFile, TableProperties]
"""An SST file and its properties."""
Place = tuple[str, str]
"""A RocksDB directory of the source: its store partition and its name there."""


@dataclass(slots=True)
class Tally:
    """The numbers of one reading of the old stores. Of a sample, each share is multiplied to all records."""

    rejects: float = 0.0
    dropped: float = 0.0
    shadowed: float = 0.0
    """Records of an unfinished upgrade whose keys were written again since."""
    expired: float = 0.0
    """Records older than the new store's retention."""
    counted: Counter[tuple[Place, str]] = field(default_factory=Counter)
    """Records that were read, by column family."""
    sampled: set[tuple[Place, str]] = field(default_factory=set)
    """Column families of which not all records were read."""
    broken: set[Place] = field(default_factory=set)
    """RocksDB directories that could not be read to the end."""

    def added_to(self, found: DatabaseInventory) -> DatabaseInventory:
        place = (found.store_partition, found.database)
        families = tuple(
            family.with_count(
                self.counted[place, family.name],
                is_all=place not in self.broken and (place, family.name) not in self.sampled,
            )
            if family.role in ("records", "older")
            else family
            for family in found.families
        )
        return found.model_copy(update={"families": families})


def places_of(plan: DatabasePlan) -> list[Place]:
    """The RocksDB directories that a new one is made of."""
    return [(plan.store_partition, each.database) for each in plan.sources]


def inventory_of(
    found: Sequence[DatabaseInventory], tally: Tally, sizes: RecordSizes, *, is_complete: bool
) -> Inventory:
    """Totals over all store partitions; `is_complete`: no RocksDB directory is missing in `found`."""
    databases = tuple(map(tally.added_to, found))
    data = [family for database in databases for family in database.families if family.role == "records"]
    older = [family for database in databases for family in database.families if family.role == "older"]
    exact = is_complete and all(family.exact for family in (*data, *older))
    shadowed, unfinished = round(tally.shadowed), sum(family.records for family in older)
    return Inventory(
        databases=databases,
        store_partitions=len({database.store_partition for database in databases}),
        records=sum(family.records for family in data) + unfinished - shadowed,
        exact=exact,
        at_least=sum(family.at_least for family in data) + (unfinished - shadowed if exact else 0),
        at_most=sum(family.at_most for family in (*data, *older)) - (shadowed if exact else 0),
        unfinished=unfinished,
        shadowed=shadowed,
        expired=round(tally.expired),
        size=sum(database.size for database in databases),
        record_bytes=sum(database.record_bytes for database in databases),
        key_sizes=sizes.keys.sizes(),
        value_sizes=sizes.values.sizes(),
    )


def _tables(directory: Path, files: Iterable[LiveFile]) -> Iterator[_Table]:
    """Every file whose properties can be read; a scan reports what is wrong with the others."""
    for file in files:
        with suppress(SstFormatError, FileNotFoundError):
            yield file, table_properties(directory / file.name)


def database_inventory(
    source: Source, partition: StorePartition, name: str, database: Database, plan: DatabasePlan
) -> DatabaseInventory:
    """What is known of a RocksDB directory without reading its records; `plan`: of a new directory made of it."""
    directory = database.directory
    tables = {family: [*_tables(directory, database.files_of(family))] for family in database.families}
    properties = [each for of_family in tables.values() for _, each in of_family]
    files = present(database_files(directory).every)
    return DatabaseInventory(
        store_partition=plan.store_partition,
        database=name,
        path=directory,
        families=tuple(_family_inventory(source, database, family, tables[family], plan) for family in tables),
        size=sum(status.st_size for status in files.values()),
        record_bytes=record_bytes(database.directory, database.content()),
        sst_files=len(database.live_files()),
        wal_bytes=sum(status.st_size for path, status in files.items() if path.suffix == ".log"),
        table_formats=tuple(sorted({each.format_version for each in properties})),
        compressions=tuple(sorted({each.compression for each in properties})),
        rocksdb_version=rocksdb_version(directory),
        owner=source.system.discovery.owner_version(directory),
        newest_file_ms=max((status.st_mtime_ns // 1_000_000 for status in files.values()), default=None),
        positions=tuple(_positions(source, partition, database)),
    )


def _family_inventory(
    source: Source, database: Database, family: str, tables: list[_Table], plan: DatabasePlan
) -> FamilyInventory:
    at_least, at_most = _bounds(database, family, tables)
    estimate = min(max(database.estimated_records(family), at_least), at_most)
    is_metadata = family in source.format.metadata_families
    entries = _first_entries(database, family) if is_metadata else ()
    return FamilyInventory(
        name=family,
        role=_role(family, plan, is_metadata=is_metadata),
        records=estimate,
        exact=at_most == 0,
        at_least=at_least,
        at_most=at_most,
        entries=tuple(source.system.offsets.describe(*entry) for entry in entries),
    )


def _role(family: str, plan: DatabasePlan, *, is_metadata: bool) -> Role:
    if is_metadata:
        return "metadata"
    if any(family in mapping.older for mapping in plan.mappings):
        return "older"
    return "records" if any(family == mapping.source for mapping in plan.mappings) else "other"


def _first_entries(database: Database, family: str) -> Iterator[tuple[bytes, bytes]]:
    batch = database.sample(family, None, _MOST_METADATA)
    return zip(batch.keys, batch.values, strict=True)


def _bounds(database: Database, family: str, tables: list[_Table]) -> tuple[int, int]:
    """(at least, at most) number of records, computed without a scan.

    Within a sorted run (a level, or a file of level 0) each key occurs once; elsewhere, also in the log, it may repeat.
    """
    entries, deletions = database.unflushed_entries(family)
    runs: defaultdict[object, list[int]] = defaultdict(lambda: [0, 0])
    for file, table in tables:
        run = runs[file.level or file.name]
        run[0] += table.entries - table.deletions
        run[1] += table.deletions
    at_most = entries - deletions + sum(puts for puts, _ in runs.values())
    all_deletions = deletions + sum(deleted for _, deleted in runs.values())
    surely = max((puts - (all_deletions - deleted) for puts, deleted in runs.values()), default=0)
    # RocksDB does not count the deletions of ranges among the log's entries.
    if entries > deletions or any(table.range_deletions for _, table in tables):
        surely = 0
    if len(tables) < len(database.files_of(family)):  # one cannot be read here, or its owner has removed it
        surely, at_most = 0, entries - deletions + database.table_puts(family)
    return max(0, min(surely, at_most)), at_most


def _positions(source: Source, partition: StorePartition, database: Database) -> Iterator[ChangelogPosition]:
    offsets, families = source.system.offsets, source.format.metadata_families
    where = next(map(str, offsets.side_files(partition)), "the store")
    found = [(line, where) for line in offsets.read(source.path, partition).lines]
    inside = (
        "the store" if source.format.position_keys else " and ".join(f"column family {each!r}" for each in families)
    )
    found += [(line, inside) for line in offsets.within(source.application, partition, [database.directory]).lines]
    for (topic, number, offset), where in found:
        stated, position = None if offset < 0 else offset, source.system.offsets.next_record(offset)
        yield ChangelogPosition(topic=topic, partition=number, offset=stated, position=position, where=where)
