"""Verify: compare the new stores, read from disk, with the old ones or with the receipts, before they go live."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from formats import Format
from migrate.batch.chunk.compare_stores import (
    ComparePartsTask,
    CompareTask,
    CountTask,
    DigestTask,
    VerifyTask,
    target_ranges,
)
from migrate.batch.chunk.executor import Executor, Finished, run_all
from migrate.batch.context import Context
from migrate.batch.ledger.gates import after_replay
from migrate.batch.steps.assemble import Entries, by_place, carried_records
from migrate.batch.steps.comparisons import (
    EqualRanges,
    FullVerification,
    OldCounts,
    Subject,
    compare_tasks,
    databases_with_tails,
    expected_databases,
    range_bytes,
)
from migrate.batch.steps.sorted_comparison import SortedComparison
from migrate.engine.chunk_source import inputs_of
from migrate.engine.portable import RecordDigest
from migrate.errors import MigrationError, VerificationError
from migrate.model.comparison import Mismatch, Verification, Verified, as_verified, differing
from migrate.model.display import plural
from migrate.model.key_range import tiling_flaw
from migrate.model.ledger_row import Step
from migrate.model.plan import DatabasePlan, Plan
from migrate.model.receipt import Receipt
from migrate.model.store_partition import place_name
from migrate.stores.merge import batches_without
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database, family_names, open_read_only
from migrate.stores.rocksdb.openings import open_pooled
from migrate.stores.rocksdb.table_digests import Tables, table_digests

Mode = Literal["full", "digest"]
_AS_IT_WAS = "nothing was published and the old store is as it was"
_KEEP = (
    f"{_AS_IT_WAS}; a rerun assembles the new store again from its chunks; if "
    "it ends here once more: is the function pure, if there is one? else keep the work_dir and report this"
)


def verify(context: Context, executor: Executor) -> Verification:
    """Verify as `[run] verify` says, also where an earlier run did: files may have changed on disk since.

    Raises VerificationError.
    """
    standing = context.standing
    is_revised = standing.revision is not None
    mode = "full" if is_revised else context.spec.run.verify
    if mode != context.spec.run.verify:
        context.warn(f'the new stores are verified in full, as after every replay, and not "{context.spec.run.verify}"')
    if mode == "off":
        return Verification(mode="off")
    found = compare(context, executor, mode)
    hint = f"{after_replay(standing)}; {_AS_IT_WAS}" if is_revised else _KEEP
    if not found.ok:
        raise mismatch_error(found, hint=hint)
    return found


def record(context: Context, found: Verification, tables: Tables) -> None:
    """Commit the result for the stores that were assembled last, wherever they are now, and their tables' digests."""
    folders = context.standing.newest.values()
    detail: dict[str, object] = {
        "folders": sorted(str(folder.relative_to(context.home)) for folder in folders),
        "verification": found.model_dump(mode="json"),
        "tables": tables,
    }
    context.record(Step.VERIFIED if found.ok else Step.MISMATCH, detail=detail)
    context.notify("verify.committed", verification=found)


def compare(context: Context, executor: Executor, mode: Mode) -> Verification:
    """Compare the new stores with what they should be according to the snapshot, regardless of the plan; and commit it.

    The executor compares records. This process compares RocksDB directories and column families, and checks that all
    was read. In full, ranges that are equal are committed to the ledger as they come, and those of a verification that
    was interrupted are not read again.
    """
    folders, receipts = context.new_stores, context.standing.receipts
    tables = table_digests(folders)  # before: what is damaged later differs from them, or is compared
    started = time.monotonic()
    context.notify("verify.started", mode=mode, records=sum(receipt.records_out for receipt in receipts))
    databases = expected_databases(context)
    total = Verification(mode=mode, dropped=0 if mode == "full" else sum(receipt.dropped for receipt in receipts))
    for mismatch in _outer_mismatches(context, databases, mode):
        total = with_result(total, as_verified(mismatch))
    if total.ok:  # else the directories that the records belong to may not be there
        size = range_bytes(databases, executor.slots, context.spec.run.chunk_size)
        subject = Subject(context, databases_with_tails(context, databases), size, tables)
        how = _compare_sorted if context.plan.is_sorted else _compare_records
        total = how(subject, executor, total)
    found = total.model_copy(update={"seconds": round(time.monotonic() - started, 3)})
    record(context, found, tables)
    return found


def _compare_sorted(subject: Subject, executor: Executor, total: Verification) -> Verification:
    """As `_compare_records`, for a sorted plan: sums are committed, and a digest begins again."""
    for database in subject.databases:
        if (found := _families_mismatch(subject, database)) is not None:
            return with_result(total, as_verified(found))
    comparison = SortedComparison(subject, executor)
    for result in comparison.in_full() if total.mode == "full" else comparison.by_digest():
        total = with_result(total, result)
    return total.model_copy(update={"records_before": comparison.records_before})


def _compare_records(subject: Subject, executor: Executor, total: Verification) -> Verification:
    context, is_full, ranges = subject.context, total.mode == "full", EqualRanges(subject)
    before = [*ranges.committed()] if is_full else []
    if before:
        records = sum(each.found.records for each in before)
        dropped = sum(each.found.dropped for each in before)
        deaths = sum(each.found.is_after_death for each in before)
        counts = {"records": records, "records_before": records, "dropped": dropped, "after_deaths": deaths}
        total = total.model_copy(update=counts)
        context.notify("verify.resumed", records=records)
    comparison = FullVerification(subject, before) if is_full else DigestVerification(subject)
    ended_by: list[Mismatch | MigrationError] = []
    tasks = _tasks(subject, comparison, ended_by)
    for finished in run_all(executor, tasks, name=context.spec.name, stop=context.stop):
        for task, result in _each(finished):
            comparison.add(task, result)
            ranges.add(task, result)
            total = with_result(total, result)
        if finished:
            context.notify("verify.progressed", records=total.records)
        ranges.commit_some()
    context.stop.check()  # what was not compared must not count as missing
    for each in ended_by:
        if isinstance(each, MigrationError):
            raise each
        total = with_result(total, as_verified(each))
    for result in () if ended_by else comparison.end():
        total = with_result(total, result)
    return total


def _tasks(
    subject: Subject, comparison: FullVerification | DigestVerification, ended_by: list[Mismatch | MigrationError]
) -> Iterator[VerifyTask | ComparePartsTask]:
    """The comparisons. Before its records, each RocksDB directory's families are compared here: it is open for both.

    After the first mismatch or error, which is appended to `ended_by`, there are no further tasks: the families of the
    records may be missing. The caller raises an error once no task runs, since a repair uses the executor again.
    """
    for database in subject.databases:
        found: Mismatch | MigrationError | None
        try:
            found = _families_mismatch(subject, database)
        except MigrationError as error:
            found = error
        if found is not None:
            ended_by.append(found)
            return
        yield from comparison.tasks_of(database)
    yield from comparison.further_tasks()
    yield from subject.overlay_tasks()


def _families_mismatch(subject: Subject, database: DatabasePlan) -> Mismatch | None:
    """The first of a RocksDB directory's own column families that is not as it should be."""
    if not database.is_kept:
        return None
    context, partition = subject.context, database.store_partition
    places = context.snapshots_of(partition), subject.target_of(database)
    return compare_families(database, *places, subject.entries.of(partition), context.conversion.position_keys)


def _each(finished: Finished) -> Iterator[tuple[VerifyTask, Verified]]:
    """The tasks and their results; those of each part of a task that has several."""
    for task, result in finished:
        if isinstance(task, ComparePartsTask):
            assert isinstance(result, tuple)
            for part, found in zip(task.parts, result, strict=True):
                assert isinstance(found, Verified)
                yield part, found
        else:
            assert isinstance(result, Verified)
            assert isinstance(task, VerifyTask)
            yield task, result


def _outer_mismatches(context: Context, databases: tuple[DatabasePlan, ...], mode: Mode) -> Iterator[Mismatch]:
    """Directories that are missing or extra, old records that nothing is made of, receipts that do not add up."""
    yield from unread_records(context.plan, databases, context.home / "snapshot", context.conversion.source)
    if mode == "digest":
        yield from receipt_mismatches(databases, context.standing.receipts)
    yield from compare_directories(databases_with_tails(context, databases), context.new_stores)


def mismatch_error(found: Verification, *, hint: str) -> VerificationError:
    """The error that names how many keys are wrong, and the first of each kind."""
    first = "\n".join(f"  - {mismatch}" for mismatch in found.first)
    return VerificationError(
        f"the new store is not what the old one converts to: {plural(found.missing, 'key')} missing, "
        f"{found.differing} differing, {found.extra} extra\n{first}",
        hint=hint,
    )


def with_result(total: Verification, result: Verified) -> Verification:
    """The sums with those of a further task."""
    known = {mismatch.kind for mismatch in total.first}
    return total.model_copy(
        update={
            "records": total.records + result.records,
            "dropped": total.dropped + result.dropped,
            "missing": total.missing + result.missing,
            "differing": total.differing + result.differing,
            "extra": total.extra + result.extra,
            "after_deaths": total.after_deaths + result.is_after_death,
            "first": (*total.first, *(mismatch for mismatch in result.first if mismatch.kind not in known)),
        }
    )


def compare_directories(databases: Sequence[DatabasePlan], folders: Mapping[str, Path]) -> Iterator[Mismatch]:
    """Store partitions with missing or extra RocksDB directories."""
    expected: defaultdict[str, set[str]] = defaultdict(set)
    for plan in databases:
        if plan.is_kept:
            expected[plan.store_partition].add(plan.database)
    for partition, folder in folders.items():
        if (actual := _databases_in(folder)) != expected[partition]:
            yield differing(partition, "RocksDB directories", _names(expected[partition]), _names(actual))


def unread_records(plan: Plan, databases: Sequence[DatabasePlan], snapshot: Path, source: Format) -> Iterator[Mismatch]:
    """Old records in RocksDB directories or column families from which no new store is made."""
    planned = {str(Path(each.id) / name) for each in plan.olds for name in each.databases}
    if (actual := _databases_in(snapshot)) != planned:
        yield differing("the snapshot", "RocksDB directories", _names(planned), _names(actual))
        return
    read: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for database in databases:
        for each in database.sources:
            read[each.partition or database.store_partition, each.database] |= {
                family for mapping in database.mappings for family in (mapping.source, *mapping.older)
            }
    for partition in plan.olds:
        for name, directory in partition.below(snapshot / partition.id).items():
            unread = set(family_names(directory)) - read[partition.id, name] - {*source.metadata_families}
            if unread:
                yield from _first_records(directory, partition.id, sorted(unread))


def _first_records(directory: Path, partition: str, families: Iterable[str]) -> Iterator[Mismatch]:
    with open_read_only(directory) as opened:
        for family in families:
            if keys := opened.sample(family, None, 1).keys:
                found = differing(partition, "key", "", "", family=family)
                yield found.model_copy(update={"kind": "missing", "key": keys[0]})


def _databases_in(folder: Path) -> set[str]:
    return {str(file.parent.relative_to(folder)) for file in folder.rglob("CURRENT")}


def compare_families(
    plan: DatabasePlan, sources: dict[str, Path], target: Path, entries: Entries, left_out: Sequence[bytes]
) -> Mismatch | None:
    """The first column family that is missing, extra, or does not hold what it should; None: all is well.

    One family too many, even empty, and Kafka Streams does not start; `default` exists always, and is empty unless
    records belong there; the owner's own families are carried as they were (I7). `sources`: by database; `entries`:
    changelog offsets, which lie under keys of `left_out`.
    """
    records = {mapping.target for mapping in plan.mappings}
    expected = {DEFAULT_FAMILY, *records, *plan.carried_families, *entries}
    with open_pooled(target) as new:
        if (actual := set(new.families)) != expected:
            return differing(plan.store_partition, "column families", _names(expected), _names(actual))
        for family in sorted(expected - records):
            carried = carried_records(plan, sources, family, left_out) if family in plan.carried_families else ()
            wanted, found = str(RecordDigest(carried)), str(RecordDigest(batches_without(left_out, new, family)))
            if found != wanted:
                return differing(plan.store_partition, "content", wanted, found, family=family)
        return compare_offsets(plan, new, entries, left_out)


def compare_offsets(plan: DatabasePlan, new: Database, entries: Entries, left_out: Sequence[bytes]) -> Mismatch | None:
    """The first column family with other changelog offsets than it should have; None: all is well."""
    for family in sorted(new.families):
        stated = {key: value for key in left_out if (value := new.get(family, key)) is not None}
        if stated != (offsets := entries.get(family, {})):
            return differing(plan.store_partition, "changelog offsets", str(offsets), str(stated), family=family)
    return None


def _names(found: Iterable[str]) -> str:
    return ", ".join(sorted(found)) or "none"


class DigestVerification:
    """Digests of the new stores, and the number of records of the old ones, by store partition."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._receipts = by_place(subject.context.standing.receipts)
        self._counts = OldCounts(subject)

    def tasks_of(self, database: DatabasePlan) -> Iterator[DigestTask | CompareTask]:
        """All new records of the database, chunk by chunk, since digests cannot be added up."""
        if database.is_of_tails:
            return compare_tasks(self._subject, database, {})  # no chunk answers for what does not belong in it
        mine = self._receipts[database.store_partition, database.database]
        return _digest_tasks(self._subject, database, mine)

    def further_tasks(self) -> Iterator[CountTask]:
        """Tasks for the old records whose number no metadata proves."""
        return self._counts.tasks()

    def add(self, task: VerifyTask, found: Verified) -> None:
        if isinstance(task, CountTask):
            self._counts.add(task, found)

    def end(self) -> Iterator[Verified]:
        """Store partitions of which the chunks read more or fewer records than there are."""
        return map(as_verified, self._counts.mismatches(self._counts.of_receipts()))


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
                conversion=subject.context.ref_of(database.store_partition),
                partitioner=subject.context.partitioner,
                key_place=subject.context.plan.key_place(database.store_partition),
                overlay=subject.overlay_of(database),
                home=str(subject.context.home),
                engine=subject.context.engine.setting,
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
