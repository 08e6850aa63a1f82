"""Verification by digest: the new stores against the receipts, and these against the number of old records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from migrate.batch.chunk.compare_stores import CompareTask, CountTask, DigestTask, VerifyTask, target_ranges
from migrate.batch.plan.cut import key_ranges
from migrate.batch.steps.assemble import by_place
from migrate.batch.steps.comparisons import Subject, as_text, compare_tasks
from migrate.engine.chunk_source import inputs_of
from migrate.model.comparison import Mismatch, Verified, as_verified, differing
from migrate.model.key_range import tiling_flaw
from migrate.model.plan import DatabasePlan
from migrate.model.receipt import Receipt
from migrate.model.store_partition import place_name
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.openings import open_pooled


class DigestVerification:
    """Digests of the new stores, and the number of records of the old ones, by store partition."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._receipts = by_place(subject.receipts)
        self._records: Counter[str] = Counter()

    def tasks_of(self, database: DatabasePlan) -> Iterator[DigestTask | CompareTask]:
        """All new records of the database, chunk by chunk, since digests cannot be added up."""
        if database.is_of_tails:
            return compare_tasks(self._subject, database, {})  # no chunk answers for what does not belong in it
        mine = self._receipts[database.store_partition, database.database]
        return _digest_tasks(self._subject, database, mine)

    def further_tasks(self) -> Iterator[CountTask]:
        """Tasks for the old records whose number no metadata proves."""
        context, plan = self._subject.context, self._subject.context.plan
        metadata = context.conversion.source.metadata_families
        for partition in plan.store_partitions:
            for name, directory in context.snapshots_of(partition.id).items():
                with open_pooled(directory) as opened:
                    families = [family for family in opened.families if family not in metadata]
                    proven = {family: opened.proven_records(family) for family in families}
                for family, records in proven.items():
                    if records is None:
                        yield from _count(partition.id, name, directory, family, self._subject.range_bytes)
                    else:
                        self._records[partition.id] += records

    def add(self, task: VerifyTask, found: Verified) -> None:
        if isinstance(task, CountTask):
            self._records[task.store_partition] += sum(count.seen for count in found.counts)

    def end(self) -> Iterator[Verified]:
        """Store partitions of which the chunks read more or fewer records than there are.

        Records that a newer one shadows, in a store in upgrade mode, are not converted, but were read. So were those
        that are expired, dropped or rejected.
        """
        read: Counter[str] = Counter()
        for receipt in self._subject.receipts:
            read[receipt.store_partition] += receipt.records_in + receipt.shadowed
        for partition in sorted(self._records.keys() | read.keys()):
            expected, actual = self._records[partition], read[partition]
            if expected != actual:
                yield as_verified(differing(partition, "records that the chunks read", f"{expected:,}", f"{actual:,}"))


def _digest_tasks(subject: Subject, database: DatabasePlan, receipts: list[Receipt]) -> Iterator[DigestTask]:
    snapshots = subject.context.snapshots_of(database.store_partition)
    for number, mapping in enumerate(database.mappings if database.is_kept else ()):
        for receipt, keys in zip(receipts, target_ranges(receipts, number), strict=True):
            yield DigestTask(
                store_partition=database.store_partition,
                database=database.database,
                source=inputs_of(database, snapshots, subject.context.times_of(database.store_partition)),
                target=str(subject.target_of(database)),
                mapping=mapping,
                keys=receipt.keys,
                written=receipt.written[number],
                target_keys=keys,
                conversion=subject.context.ref,
                key_place=subject.context.plan.key_place(database.store_partition),
                overlay=as_text(subject.overlay_of(database)),
            )


def _count(partition: str, database: str, directory: Path, family: str, size: int) -> Iterator[CountTask]:
    """All records of one column family of the source."""
    whole = sum(file.stat().st_size for file in database_files(directory).immutable)
    for keys in (ranges := key_ranges([directory], size)):
        yield CountTask(
            store_partition=partition,
            database=database,
            directory=str(directory),
            family=family,
            keys=keys,
            size=whole // len(ranges),
        )


def receipt_mismatches(databases: Sequence[DatabasePlan], receipts: Sequence[Receipt]) -> Iterator[Mismatch]:
    """Where the committed chunks do not add up to the databases (I3), regardless of the plan."""
    places = by_place(receipts)
    for plan in databases:
        mine = places.pop((plan.store_partition, plan.database), [])
        where = place_name(plan.store_partition, plan.database)
        if (flaw := tiling_flaw([receipt.keys for receipt in mine])) is not None:
            yield differing(where, "committed chunks", "of every possible key, once", f"not: they {flaw}")
        for receipt in mine:
            for what, expected, actual in _sums(plan, receipt):
                if expected != actual:
                    yield differing(where, f"{what} of chunk {receipt.number}", str(expected), str(actual))
    for place in places:
        yield differing(place_name(*place), "committed chunks", "none", f"{len(places[place])}")


def _sums(plan: DatabasePlan, receipt: Receipt) -> Iterator[tuple[str, object, object]]:
    """(name, expected, actual) of each figure that a receipt must have right."""
    families = tuple((mapping.source, mapping.target) for mapping in plan.mappings)
    done = tuple((old.family, new.family) for old, new in zip(receipt.scanned, receipt.written, strict=True))
    yield "column families", families, done
    yield "records that are expired", 0 if plan.is_kept else receipt.records_in, receipt.expired
    yield "records written or left out", receipt.records_in, receipt.records_out + receipt.left_out
