"""The parts of a verification. What is compared in full is cut by the old stores' files, not by plan or receipts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from migrate.batch.chunk.reader import inputs_of
from migrate.batch.chunk.verify import CompareTask, CountTask, DigestTask, target_ranges
from migrate.batch.context import Context
from migrate.batch.plan.cut import cut
from migrate.batch.plan.make import plan_partition
from migrate.batch.steps.assemble import in_order
from migrate.model.key_range import KeyRange
from migrate.model.plan import DatabasePlan, Plan
from migrate.model.receipt import Receipt
from migrate.stores.rocksdb.layout import database_files

LEAST_BYTES = 16 << 20
"""Of a range: less is not worth a task."""
_RANGES_PER_SLOT = 4


@dataclass(frozen=True, slots=True)
class Subject:
    """What is verified."""

    context: Context
    plan: Plan
    databases: tuple[DatabasePlan, ...]
    """All that there should be, as the snapshot says."""
    folders: dict[str, Path]
    """The new stores, by store partition."""
    receipts: Sequence[Receipt]
    range_bytes: int
    """About so much of the old stores is read by one task."""

    def snapshots_of(self, database: DatabasePlan) -> dict[str, Path]:
        """The RocksDB directories of its store partition in the snapshot, by name."""
        return self.context.snapshots_of(self.plan, database.store_partition)

    def target_of(self, database: DatabasePlan) -> Path:
        """Where it lies in the new store."""
        return self.folders[database.store_partition] / database.database


def expected_databases(context: Context, plan: Plan) -> tuple[DatabasePlan, ...]:
    """What there should be, found in the snapshot: of the plan, the names of the store partitions alone."""
    return tuple(
        database
        for partition in plan.store_partitions
        for database in plan_partition(
            context.spec, partition, context.snapshots_of(plan, partition.id), context.conversion
        )
    )


def range_bytes(databases: Sequence[DatabasePlan], slots: int, chunk_size: int) -> int:
    """How much of the old stores one task reads: so much that every slot has some, and none has much more."""
    whole = sum(database.data_bytes for database in databases)
    return min(chunk_size, max(LEAST_BYTES, whole // (_RANGES_PER_SLOT * max(1, slots))))


def compare_tasks(subject: Subject) -> Iterator[CompareTask]:
    """All old records, family by family."""
    for database in subject.databases:
        snapshots = subject.snapshots_of(database)
        directories = [snapshots[each.database] for each in database.sources]
        is_large = database.data_bytes > subject.range_bytes
        points = _cut_points(directories, subject.range_bytes) if is_large else ()
        for mapping in database.mappings:
            for keys in _between(points):
                yield CompareTask(
                    store_partition=database.store_partition,
                    database=database.database,
                    source=inputs_of(database, snapshots),
                    target=str(subject.target_of(database)) if database.is_kept else None,
                    mapping=mapping,
                    keys=keys,
                    conversion=subject.context.ref,
                )


def digest_tasks(subject: Subject) -> Iterator[DigestTask]:
    """All new records, chunk by chunk, since digests cannot be added up."""
    by_place = receipts_by_place(subject.receipts)
    for database in subject.databases:
        mine = by_place[database.store_partition, database.database]
        for number, mapping in enumerate(database.mappings if database.is_kept else ()):
            for receipt, keys in zip(mine, target_ranges(mine, number), strict=True):
                yield DigestTask(
                    store_partition=database.store_partition,
                    database=database.database,
                    source=inputs_of(database, subject.snapshots_of(database)),
                    target=str(subject.target_of(database)),
                    mapping=mapping,
                    keys=receipt.keys,
                    written=receipt.written[number],
                    target_keys=keys,
                    conversion=subject.context.ref,
                )


def count_tasks(partition: str, database: str, directory: Path, family: str, size: int) -> Iterator[CountTask]:
    """All records of one column family of the source."""
    for keys in _between(_cut_points([directory], size)):
        yield CountTask(
            store_partition=partition, database=database, directory=str(directory), family=family, keys=keys
        )


def receipts_by_place(receipts: Sequence[Receipt]) -> defaultdict[tuple[str, str], list[Receipt]]:
    """By store partition and database, in key order."""
    found: defaultdict[tuple[str, str], list[Receipt]] = defaultdict(list)
    for receipt in in_order(list(receipts)):
        found[receipt.store_partition, receipt.database].append(receipt)
    return found


def _cut_points(directories: Sequence[Path], size: int) -> tuple[bytes, ...]:
    """Only points, in key order: what lies between two of them can leave nothing out."""
    files = [file for each in directories for file in database_files(each).immutable if file.suffix == ".sst"]
    sizes = [file.stat().st_size for file in files]
    starts = [keys.start for keys in cut(zip(files, sizes, strict=True), size).ranges]
    return tuple(sorted({start for start in starts if start}))


def _between(points: tuple[bytes, ...]) -> Iterator[KeyRange]:
    """From the first to the last possible key."""
    for start, end in pairwise([None, *points, None]):
        yield KeyRange(start=start, end=end)
