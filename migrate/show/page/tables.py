"""Rows of the tables on the dry run's page."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.dry_run.report import Cost, FamilyFound, Found, Segmentation
from migrate.model.units import moment, number, size
from migrate.show.page.key_map import band_name

Rows = list[tuple[str, ...]]
_ROLES = {
    "records": "records: converted",
    "older": "pre-upgrade records: converted",
    "metadata": "metadata of the system: not converted",
    "other": "other: not converted",
}


def databases(found: Found) -> Rows:
    """One row for each RocksDB directory."""
    return [
        (
            band_name(database.store_partition, database.database),
            size(database.size),
            size(database.record_bytes),
            number(database.sst_files),
            size(database.wal_bytes),
            ", ".join(map(str, database.table_formats)),
            ", ".join(database.compressions),
            database.rocksdb_version or "unknown",
            database.owner or "unknown",
            "unknown" if database.newest_file_ms is None else moment(database.newest_file_ms),
            str(database.path),
        )
        for database in found.databases
    ]


def families(found: Found) -> Rows:
    """One row for each column family."""
    return [
        (
            band_name(database.store_partition, database.database),
            family.name,
            _ROLES[family.role],
            number(family.records),
            _bounds(family),
            "; ".join(family.entries),
        )
        for database in found.databases
        for family in database.families
    ]


def positions(found: Found) -> Rows:
    """One row for each changelog offset."""
    return [
        (
            band_name(database.store_partition, database.database),
            position.topic,
            str(position.partition),
            "unknown: the whole topic is replayed" if position.offset is None else number(position.offset),
            position.where,
        )
        for database in found.databases
        for position in database.positions
    ]


def segments(found: Iterable[Segmentation]) -> Rows:
    """One row for each segment of a new store."""
    return [
        (
            each.store_partition,
            segment.name,
            "unknown" if segment.start_ms is None else moment(segment.start_ms),
            ", ".join(segment.made_of),
        )
        for each in found
        for segment in each.new
    ]


def chunks(cost: Cost) -> Rows:
    """One row for each chunk that is planned."""
    return [
        (
            band_name(chunk.store_partition, chunk.database),
            str(chunk.number),
            str(chunk.keys),
            size(chunk.estimated_bytes),
        )
        for chunk in cost.chunks
    ]


def _bounds(family: FamilyFound) -> str:
    return "counted" if family.exact else f"{number(family.at_least)} to {number(family.at_most)}"
