"""Verification in full: every old record is converted again and compared with the new stores.

What to compare is found in the snapshot's files, each time again: neither the plan nor the receipts say what to read.
Equal ranges are committed as they come, and a resume leaves out those of the same conversion and files, on both sides.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from migrate.batch.changelog.store_changelogs import position_entries
from migrate.batch.chunk.compare_stores import (
    ComparePartsTask,
    CompareTask,
    CountTask,
    OverlayTask,
    VerifyTask,
    compare_gaps,
)
from migrate.batch.chunk.rewrite_chunk import MOST_PARTS
from migrate.batch.context import Context
from migrate.batch.identity import spec_identity
from migrate.batch.plan.cut import cut_points, key_ranges, ranges_between, slot_share
from migrate.batch.plan.new_stores import overlay_of, plan_of
from migrate.batch.plan.planned_databases import plan_partition
from migrate.batch.plan.repartition import plan_shares
from migrate.batch.plan.target_layout import PositionEntries
from migrate.batch.source.restored_source import import_record
from migrate.batch.source.snapshot import present_snapshot
from migrate.batch.source.source import Reading, read_store
from migrate.engine.chunk_source import inputs_of
from migrate.errors import MigrationError
from migrate.model.comparison import Mismatch, Verified, as_verified, differing
from migrate.model.key_range import KeyRange, tiling_flaw
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import DatabasePlan, store_of
from migrate.model.values import Stored
from migrate.stores.rocksdb.database import StoreContent, family_names, open_read_only
from migrate.stores.rocksdb.layout import database_files, file_states
from migrate.stores.rocksdb.openings import open_pooled
from migrate.stores.rocksdb.table_digests import Tables

_ENOUGH_BYTES = 64 << 20
"""No range is larger: while it is compared, no progress shows, and a kill loses it."""
_MOST_RANGES = 4096
"""In larger stores the ranges grow instead: each range is a row of the ledger, which `status` reads."""
SECONDS_BETWEEN_COMMITS = 2.0
"""A commit takes some 20 ms. A verification that takes less time commits only its result."""
FamilyPlace = tuple[str, str, str]
"""(store partition, database, column family) of the new store."""


@dataclass(frozen=True)
class Subject:
    """The new stores to verify, with what they were made of."""

    context: Context
    databases: tuple[DatabasePlan, ...]
    """Every RocksDB directory that there should be, according to the snapshot."""
    range_bytes: int = 0
    """About how many bytes of the old stores one task reads."""
    tables: Tables = field(default_factory=dict)
    """The digests of the new tables, from before any record of them was compared."""

    @cached_property
    def folders(self) -> Mapping[str, Path]:
        """The new stores, by store partition."""
        return self.context.new_stores

    @cached_property
    def entries(self) -> PositionEntries:
        """What states changelog offsets in them."""
        return position_entries(self.context)

    def target_of(self, database: DatabasePlan) -> Path:
        return self.folders[database.store_partition] / database.database

    def overlay_of(self, database: DatabasePlan) -> Path | None:
        """What tails have changed in a RocksDB directory of the new store; None: nothing."""
        return overlay_of(self.context.standing.overlays.get(database.store_partition), database.database)

    def overlay_tasks(self) -> Iterator[OverlayTask]:
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


def databases_with_tails(context: Context, databases: Sequence[DatabasePlan]) -> tuple[DatabasePlan, ...]:
    """These, which are made of the snapshot, and what tails make of them: segments that expire, and further ones."""
    plan, overlays, found = context.plan, context.standing.overlays, list[DatabasePlan]()
    for partition in plan.store_partitions:
        mine = [each for each in databases if each.store_partition == partition.id]
        names = plan.new_partition(partition).databases
        if partition.id in overlays:
            mine = [each.model_copy(update={"is_kept": each.is_kept and each.database in names}) for each in mine]
            known = {each.database for each in mine}
            mine += [plan_of(plan, partition.id, name) for name in names if name not in known]
        found += mine
    return tuple(found)


def expected_databases(context: Context) -> tuple[DatabasePlan, ...]:
    """The new RocksDB directories according to the snapshot; only the names of store partitions are the plan's."""
    how = (context.conversion, _list_store)
    if olds := context.plan.old_partitions:
        return plan_shares(context.spec, olds, lambda each: present_snapshot(context.home, each), *how)
    return tuple(
        database
        for partition in context.plan.store_partitions
        for database in plan_partition(context.spec, partition, context.snapshots_of(partition.id), *how)
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


class _StoreComparison(Stored):
    """The `detail` of a row: one range that was found equal."""

    subject: str
    """A digest of everything that was compared, and by which conversion."""
    began_at_ms: int
    """When the command began to compare records."""
    family: str
    found: Verified


class ComparedRange(NamedTuple):
    """A range of the old keys of one family that was compared with the new store."""

    place: FamilyPlace
    keys: KeyRange
    found: Verified


@dataclass(slots=True)
class EqualRanges:
    """Reads the ranges that an interrupted verification has committed, and commits further ones."""

    subject: Subject
    _subjects: dict[str, str] = field(init=False)
    """By store partition."""
    _began_at_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _waiting: list[tuple[CompareTask, Row]] = field(default_factory=list)
    _committed_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Record the state of the files before the first record is read."""
        self._subjects = dict(states_of(self.subject))

    def committed(self) -> Iterator[ComparedRange]:
        """The ranges in the ledger that count; those of other files or another conversion do not."""
        for row in self.subject.context.standing.compared_so_far:
            try:
                comparison = _StoreComparison.model_validate_json(row.detail)
            except ValidationError:  # of a newer release: the range is compared again
                continue
            if comparison.subject == self._subjects.get(str(row.store_partition)):
                place = (str(row.store_partition), str(row.database), comparison.family)
                yield ComparedRange(place, row.keys, comparison.found)

    def add(self, task: VerifyTask, found: Verified) -> None:
        """Keep a range for the next commit, unless a difference was found in it."""
        if found.mismatches or not isinstance(task, CompareTask):
            return
        comparison = _StoreComparison(
            subject=self._subjects[task.store_partition],
            began_at_ms=self._began_at_ms,
            family=task.mapping.target,
            found=found,
        )
        row = Row(
            migration_id=self.subject.context.plan.migration_id,
            run_id=self.subject.context.run_id,
            step=Step.COMPARED,
            store_partition=task.store_partition,
            database=task.database,
            start_key=task.keys.start,
            end_key=task.keys.end,
            records_in=sum(count.seen for count in found.counts),
            records_out=found.records,
            seconds=found.seconds,
            detail=comparison.model_dump_json(exclude_defaults=True),
        )
        self._waiting.append((task, row))

    def commit_some(self) -> None:
        """Commit the ranges that wait, if the last commit is a while ago or the run is to stop."""
        context = self.subject.context
        is_due = time.monotonic() - self._committed_at >= SECONDS_BETWEEN_COMMITS
        if not self._waiting or not (is_due or context.stop.is_requested):
            return
        context.commit(*(row for _, row in self._waiting))
        tasks = [task for task, _ in self._waiting]
        self._waiting, self._committed_at = [], time.monotonic()
        context.notify("verify.ranges-committed", ranges=tasks)


def states_of(subject: Subject) -> Iterator[tuple[str, str]]:
    """For each store partition, a digest of everything on which its comparison depends."""
    context, plan = subject.context, subject.context.plan
    conversion = (plan.migration_id, spec_identity(context.spec, context.ref))
    layout: defaultdict[str, list[str]] = defaultdict(list)
    for database in subject.databases:
        layout[database.store_partition].append(database.model_dump_json())
    for partition in plan.store_partitions:
        new = plan.new_partition(partition).below(subject.folders[partition.id])
        files = _states(context.snapshots_of(partition.id)), _states(new)
        text = json.dumps((conversion, layout[partition.id], files, subject.tables.get(partition.id)))
        yield partition.id, hashlib.sha256(text.encode()).hexdigest()[:32]


def _states(directories: dict[str, Path]) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """The files of RocksDB directories, and the places of these."""
    return [(str(directory), file_states(directory)) for directory in directories.values()]


@dataclass(slots=True)
class FullVerification:
    """The ranges that were compared so far, and the proof that they cover every old record."""

    subject: Subject
    before: Iterable[ComparedRange] = ()
    """The ranges that an interrupted verification has found equal."""
    _compared: defaultdict[FamilyPlace, list[ComparedRange]] = field(default_factory=lambda: defaultdict(list))
    _seen: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """Records of (store partition, database of the new store, directory of the source, column family)."""
    _used: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records of (directory of the source, column family) that all new databases together are made of."""

    def __post_init__(self) -> None:
        """Count the ranges that need not be read again."""
        for each in self.before:
            self._add(each)

    def tasks_of(self, database: DatabasePlan) -> Iterator[CompareTask]:
        return self._tasks_of(database) if database.share is None else iter(())  # `further_tasks` has those

    def _tasks_of(self, database: DatabasePlan) -> Iterator[CompareTask]:
        done = {place: [each.keys for each in self._compared.get(place, ())] for place in _places(database)}
        return compare_tasks(self.subject, database, done)

    def further_tasks(self) -> Iterator[ComparePartsTask]:
        """Where the number of partitions changes, a task for all new ones that are made from the same records."""
        together: defaultdict[object, list[CompareTask]] = defaultdict(list)
        for database in self.subject.databases:
            for task in self._tasks_of(database) if database.share is not None else ():
                keys = task.keys.start, task.keys.end
                together[task.source.directories, task.mapping.source, keys].append(task)
        for tasks in together.values():
            for at in range(0, len(tasks), MOST_PARTS):
                yield ComparePartsTask(tuple(tasks[at : at + MOST_PARTS]))

    def add(self, task: VerifyTask, found: Verified) -> None:
        if isinstance(task, CompareTask):
            place = (task.store_partition, task.database, task.mapping.target)
            self._add(ComparedRange(place, task.keys, found))

    def _add(self, compared: ComparedRange) -> None:
        partition, database, _ = compared.place
        self._compared[compared.place].append(compared)
        for count in compared.found.counts:
            self._seen[partition, database, count.directory, count.family] += count.seen
            self._used[count.directory, count.family] += count.used

    def end(self) -> Iterator[Verified]:
        """The mismatches that no range could find.

        Raises MigrationError unless every family was read from the first to the last possible key.
        """
        self._check_whole()
        yield from self._between()
        yield from map(as_verified, self._unused())

    def _check_whole(self) -> None:
        for plan in self.subject.databases:
            for place in _places(plan):
                ranges = self._compared[place] = sorted(self._compared[place], key=lambda each: each.keys.start or b"")
                if (flaw := tiling_flaw([each.keys for each in ranges])) is not None:
                    raise MigrationError(
                        f"the verification was not whole: the ranges of {plan.store_partition}, {plan.database}, "
                        f"column family {place[2]!r} {flaw}",
                        hint="this is a bug: nothing counts as verified; please report it",
                    )

    def _between(self) -> Iterator[Verified]:
        """Extra keys of the new stores before, between and behind the ranges that were compared."""
        for plan in self.subject.databases:
            # a task that compares a whole family also checks what lies outside its keys
            places = [place for place in _places(plan) if len(self._compared[place]) > 1]
            if not plan.is_kept or not places:
                continue
            overlay = self.subject.overlay_of(plan)
            with ExitStack() as stack:
                target = stack.enter_context(open_read_only(self.subject.target_of(plan)))
                touched = None if overlay is None else stack.enter_context(open_read_only(overlay))
                for place in places:
                    ends = [each.found.ends for each in self._compared[place] if each.found.ends is not None]
                    left_out = self.subject.context.conversion.position_keys
                    for count, found in compare_gaps(target, *place[::2], ends, left_out=left_out, touched=touched):
                        yield as_verified(found, count)

    def _unused(self) -> Iterator[Mismatch]:
        """Families of the source of which some records were used by no new store, or by more than one."""
        for (partition, _, directory, family), seen in sorted(self._seen.items()):
            if (used := self._used[directory, family]) != seen:
                where = f"records of {Path(directory).name}"
                yield differing(partition, where, f"{seen:,}, each once", f"{used:,}", family=family)


def _places(plan: DatabasePlan) -> Iterator[FamilyPlace]:
    return ((plan.store_partition, plan.database, mapping.target) for mapping in plan.mappings)


def compare_tasks(
    subject: Subject, database: DatabasePlan, done: Mapping[FamilyPlace, list[KeyRange]]
) -> Iterator[CompareTask]:
    """Comparisons of all old records but those in `done`, family by family, in ranges of the old stores' keys."""
    snapshots = subject.context.snapshots_of(database.store_partition)
    directories = [snapshots[each.place] for each in database.sources]
    is_large = database.data_bytes > subject.range_bytes
    points = cut_points(directories, subject.range_bytes) if is_large else []
    engine = "portable" if database.is_of_tails else subject.context.engine.setting  # there is nothing to convert
    for mapping in database.mappings:
        place = (database.store_partition, database.database, mapping.target)
        for keys in ranges_between(points, done.get(place, ())):
            yield CompareTask(
                store_partition=database.store_partition,
                database=database.database,
                source=inputs_of(database, snapshots, subject.context.times_of(database.store_partition)),
                target=str(subject.target_of(database)) if database.is_kept else None,
                mapping=mapping,
                keys=keys,
                conversion=subject.context.ref_of(database.store_partition),
                partitioner=subject.context.partitioner,
                key_place=subject.context.plan.key_place(database.store_partition),
                overlay=subject.overlay_of(database),
                home=str(subject.context.home),
                engine=engine,
                size=min(database.data_bytes, subject.range_bytes),
            )


@dataclass(slots=True)
class OldCounts:
    """The number of records of the old stores, by store partition, regardless of the plan."""

    subject: Subject
    _records: Counter[str] = field(default_factory=Counter)

    def tasks(self) -> Iterator[CountTask]:
        """Tasks for the old records whose number no metadata proves."""
        context = self.subject.context
        if (record := import_record(context.spec)) is not None:
            self._records[context.spec.source.store_names[0]] = sum(file.rows for file in record.files)
            return
        metadata = context.conversion.source.metadata_families
        for partition in context.plan.olds:
            for name, directory in present_snapshot(context.home, partition).items():
                with open_pooled(directory) as opened:
                    families = [family for family in opened.families if family not in metadata]
                    proven = {family: opened.proven_records(family) for family in families}
                for family, records in proven.items():
                    if records is None:
                        yield from _count(partition.id, name, directory, family, self.subject.range_bytes)
                    else:
                        self._records[self.whole(partition.id)] += records

    def add(self, task: CountTask, found: Verified) -> None:
        self._records[self.whole(task.store_partition)] += sum(count.seen for count in found.counts)

    def mismatches(self, read: Counter[str]) -> Iterator[Mismatch]:
        """Store partitions of which more or fewer records were `read` than there are."""
        for partition in sorted(self._records.keys() | read.keys()):
            expected, actual = self._records[partition], read[partition]
            if expected != actual:
                yield differing(partition, "records that the chunks read", f"{expected:,}", f"{actual:,}")

    def of_receipts(self) -> Counter[str]:
        """How many the receipts say were read.

        Records that a newer one shadows, in a store in upgrade mode, are not converted, but were read. So were those
        that are expired, dropped or rejected.
        """
        read: Counter[str] = Counter()
        for receipt in self.subject.context.standing.receipts:
            read[self.whole(receipt.store_partition)] += receipt.records_in + receipt.shadowed
        return read

    def whole(self, partition_id: str) -> str:
        """Whose records are counted together: a store partition, or the store, where their number changes."""
        return store_of(partition_id) if self.subject.context.plan.old_partitions else partition_id


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
