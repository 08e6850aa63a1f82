"""Verification by digest: the new stores against the receipts, and these against the number of old records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from migrate.batch.chunk.verify import CountTask, DigestTask, Verified, VerifyTask, as_verified
from migrate.batch.steps.verify_tasks import Subject, count_tasks, digest_tasks, receipts_by_place
from migrate.model.comparison import Mismatch, differing
from migrate.model.key_range import tiling_flaw
from migrate.model.plan import DatabasePlan
from migrate.model.receipt import Receipt
from migrate.model.store_partition import place_name
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.record_count import proven_records


class SourceCount:
    """Digests of the new stores, and the number of records of the old ones, by store partition."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._records: Counter[str] = Counter()

    def tasks(self) -> Iterator[DigestTask | CountTask]:
        """What is still to be read: all new records, and the old ones where no metadata proves how many there are."""
        yield from digest_tasks(self._subject)
        yield from self._scans()

    def _scans(self) -> Iterator[CountTask]:
        context, plan = self._subject.context, self._subject.plan
        metadata = context.conversion.source.metadata_families
        for partition in plan.store_partitions:
            for name, directory in context.snapshots_of(plan, partition.id).items():
                with open_read_only(directory) as opened:
                    families = [family for family in opened.families if family not in metadata]
                    proven = {family: proven_records(opened, family) for family in families}
                for family, records in proven.items():
                    if records is None:
                        yield from count_tasks(partition.id, name, directory, family, self._subject.range_bytes)
                    else:
                        self._records[partition.id] += records

    def add(self, task: VerifyTask, found: Verified) -> None:
        """What a scan has counted."""
        if isinstance(task, CountTask):
            self._records[task.store_partition] += sum(count.seen for count in found.counts)

    def end(self) -> Iterator[Verified]:
        """Store partitions of which the chunks read more or fewer records than there are.

        Left out on purpose, and counted: what a newer record of an unfinished upgrade stands for. Records that are
        expired, dropped or rejected were read.
        """
        read: Counter[str] = Counter()
        for receipt in self._subject.receipts:
            read[receipt.store_partition] += receipt.records_in + receipt.shadowed
        for partition in sorted(self._records.keys() | read.keys()):
            expected, actual = self._records[partition], read[partition]
            if expected != actual:
                yield as_verified(differing(partition, "records that the chunks read", f"{expected:,}", f"{actual:,}"))


def receipt_mismatches(databases: Sequence[DatabasePlan], receipts: Sequence[Receipt]) -> Iterator[Mismatch]:
    """What the committed chunks leave out (I3), whatever the plan says of it."""
    by_place = receipts_by_place(receipts)
    for plan in databases:
        mine = by_place.pop((plan.store_partition, plan.database), [])
        where = place_name(plan.store_partition, plan.database)
        if (flaw := tiling_flaw([receipt.keys for receipt in mine])) is not None:
            yield differing(where, "committed chunks", "of every possible key, once", f"not: they {flaw}")
        for receipt in mine:
            for what, expected, actual in _sums(plan, receipt):
                if expected != actual:
                    yield differing(where, f"{what} of chunk {receipt.number}", str(expected), str(actual))
    for place in by_place:
        yield differing(place_name(*place), "committed chunks", "none", f"{len(by_place[place])}")


def _sums(plan: DatabasePlan, receipt: Receipt) -> Iterator[tuple[str, object, object]]:
    """(what, as it should be, as the receipt has it)."""
    families = tuple((mapping.source, mapping.target) for mapping in plan.mappings)
    done = tuple((old.family, new.family) for old, new in zip(receipt.scanned, receipt.written, strict=True))
    yield "column families", families, done
    yield "records that are expired", 0 if plan.is_kept else receipt.records_in, receipt.expired
    left_out = receipt.dropped + receipt.rejected + receipt.expired
    yield "records written or left out", receipt.records_in, receipt.records_out + left_out
