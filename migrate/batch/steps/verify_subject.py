"""What a verification compares: the databases that there should be, and the ranges in which the old stores are read.

They are found in the snapshot's files: neither the plan nor the receipts say what has to be read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from migrate.batch.changelog.overlay import overlay_of, plan_of
from migrate.batch.chunk.side_by_side import OverlayTask
from migrate.batch.context import Context
from migrate.batch.plan.cut import cut, slot_share
from migrate.batch.plan.make import plan_partition
from migrate.batch.source.reading import Reading, read_store
from migrate.model.key_range import KeyRange, subtract
from migrate.model.plan import DatabasePlan, Plan
from migrate.model.receipt import Receipt
from migrate.stores.rocksdb.database import StoreContent, family_names
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.table_digests import Tables

_ENOUGH_BYTES = 64 << 20
"""No range is larger: while it is compared, no progress shows, and a kill loses it."""
_MOST_RANGES = 4096
"""In larger stores the ranges grow instead: each range is a row of the ledger, which `status` reads."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The new stores to verify, with what they were made of."""

    context: Context
    plan: Plan
    databases: tuple[DatabasePlan, ...]
    """Every RocksDB directory that there should be, according to the snapshot."""
    folders: Mapping[str, Path]
    """The new stores, by store partition."""
    receipts: Sequence[Receipt]
    range_bytes: int
    """About how many bytes of the old stores one task reads."""
    overlays: Mapping[str, Path] = field(default_factory=dict)
    """By store partition, the folder of what its tails have changed."""
    tables: Tables = field(default_factory=dict)
    """The digests of the new tables, from before any record of them was compared."""

    def snapshots_of(self, database: DatabasePlan) -> dict[str, Path]:
        """The snapshots of the RocksDB directories of its store partition, by name."""
        return self.context.snapshots_of(self.plan, database.store_partition)

    def target_of(self, database: DatabasePlan) -> Path:
        """The RocksDB directory in the new store."""
        return self.folders[database.store_partition] / database.database

    def overlay_of(self, database: DatabasePlan) -> Path | None:
        """What tails have changed in a RocksDB directory of the new store; None: nothing."""
        return overlay_of(self.overlays.get(database.store_partition), database.database)

    def overlay_tasks(self) -> Iterator[OverlayTask]:
        """The comparisons of what tails have changed."""
        for database in self.databases:
            overlay = self.overlay_of(database)
            for mapping in database.mappings if overlay is not None else ():
                yield OverlayTask(
                    store_partition=database.store_partition,
                    database=database.database,
                    family=mapping.target,
                    target=str(self.target_of(database)),
                    overlay=str(overlay),
                    conversion=self.context.ref,
                )


def as_text(path: Path | None) -> str | None:
    """The path as a task carries it."""
    return None if path is None else str(path)


def databases_with_tails(
    plan: Plan, databases: Sequence[DatabasePlan], overlays: Mapping[str, Path]
) -> tuple[DatabasePlan, ...]:
    """These, which are made of the snapshot, and what tails make of them: segments that expire, and further ones."""
    found = []
    for partition in plan.store_partitions:
        mine = [each for each in databases if each.store_partition == partition.id]
        names = plan.new_partition(partition).databases
        if partition.id in overlays:
            mine = [each.model_copy(update={"is_kept": each.is_kept and each.database in names}) for each in mine]
            known = {each.database for each in mine}
            mine += [plan_of(plan, partition.id, name) for name in names if name not in known]
        found += mine
    return tuple(found)


def expected_databases(context: Context, plan: Plan) -> tuple[DatabasePlan, ...]:
    """The new RocksDB directories according to the snapshot; only the names of store partitions are the plan's."""
    return tuple(
        database
        for partition in plan.store_partitions
        for database in plan_partition(
            context.spec, partition, context.snapshots_of(plan, partition.id), context.conversion, _list_store
        )
    )


def _list_store(directory: Path) -> Reading:
    """As `read_store`, from the listing: the comparison opens the directory. Obsolete tables only add to the size."""
    try:
        families = family_names(directory)
    except Exception:  # noqa: BLE001 - rocksdict raises a plain Exception; read_store raises one that explains it
        return read_store(directory)
    tables = tuple((table.name, table.stat().st_size) for table in database_files(directory).immutable)
    return Reading(StoreContent(0, families, tables), None)


def range_bytes(databases: Sequence[DatabasePlan], slots: int, chunk_size: int) -> int:
    """How many bytes one task reads, so that each slot gets some tasks of about the same size."""
    whole = sum(database.data_bytes for database in databases)
    most = max(_ENOUGH_BYTES, whole // _MOST_RANGES)
    return min(chunk_size, most, slot_share(whole, slots))


def key_ranges(directories: Sequence[Path], size: int) -> list[KeyRange]:
    """Ranges from the first to the last possible key, with about `size` bytes of the SST files in each."""
    return ranges_between(cut_points(directories, size))


def cut_points(directories: Sequence[Path], size: int) -> list[bytes]:
    """Keys, in order, with about `size` bytes of the SST files between each and the next."""
    files = [file for each in directories for file in database_files(each).immutable if file.suffix == ".sst"]
    cuts = cut([(file, b"") for file in files], size)
    return sorted({keys.start for keys in cuts.ranges if keys.start})


def ranges_between(points: Sequence[bytes], done: Iterable[KeyRange] = ()) -> list[KeyRange]:
    """All possible keys but those in `done`, cut at these points: between two points nothing can be left out."""
    found: list[KeyRange] = []
    for gap in subtract(KeyRange(), done):
        first = bisect_right(points, gap.start or b"")
        last = len(points) if gap.end is None else bisect_left(points, gap.end)
        edges = [gap.start, *points[first:last], gap.end]
        found += [KeyRange(start=start, end=end) for start, end in pairwise(edges)]
    return found
