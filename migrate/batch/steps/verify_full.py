"""Verification in full: every old record is converted again and compared with the new stores."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from migrate.batch.chunk.reader import inputs_of
from migrate.batch.chunk.side_by_side import compare_gaps
from migrate.batch.chunk.verify import CompareTask, VerifyTask
from migrate.batch.steps.verify_ranges import EqualRange, FamilyPlace
from migrate.batch.steps.verify_subject import Subject, as_text, cut_points, ranges_between
from migrate.errors import MigrationError
from migrate.model.comparison import Mismatch, Verified, as_verified, differing
from migrate.model.key_range import KeyRange, tiling_flaw
from migrate.model.plan import DatabasePlan
from migrate.stores.rocksdb.database import open_read_only


@dataclass(frozen=True, slots=True)
class _Compared:
    keys: KeyRange
    ends: tuple[bytes, bytes] | None
    """The first and the last new key of the range; None: no new record comes of it."""


@dataclass(slots=True)
class FullVerification:
    """The ranges that were compared so far, and the proof that they cover every old record."""

    subject: Subject
    before: Iterable[EqualRange] = ()
    """The ranges that an interrupted verification has found equal."""
    _compared: defaultdict[FamilyPlace, list[_Compared]] = field(default_factory=lambda: defaultdict(list))
    _seen: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """Records of (store partition, database of the new store, directory of the source, column family)."""
    _used: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records of (directory of the source, column family) that all new databases together are made of."""

    def __post_init__(self) -> None:
        """Count the ranges that need not be read again."""
        for each in self.before:
            self._add(each.place, each.keys, each.found)

    def tasks_of(self, database: DatabasePlan) -> Iterator[CompareTask]:
        """The comparisons of the database's records that remain to be made."""
        done = {place: [each.keys for each in self._compared.get(place, ())] for place in _places(database)}
        return compare_tasks(self.subject, database, done)

    def further_tasks(self) -> Iterator[CompareTask]:
        """No tasks: the comparisons also find records that are missing."""
        return iter(())

    def add(self, task: VerifyTask, found: Verified) -> None:
        """Record what a task has read."""
        if isinstance(task, CompareTask):
            self._add((task.store_partition, task.database, task.mapping.target), task.keys, found)

    def _add(self, place: FamilyPlace, keys: KeyRange, found: Verified) -> None:
        partition, database, _ = place
        self._compared[place].append(_Compared(keys, found.ends))
        for count in found.counts:
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
                    ends = [each.ends for each in self._compared[place] if each.ends is not None]
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
    snapshots = subject.snapshots_of(database)
    directories = [snapshots[each.database] for each in database.sources]
    is_large = database.data_bytes > subject.range_bytes
    points = cut_points(directories, subject.range_bytes) if is_large else []
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
                conversion=subject.context.ref,
                key_place=subject.plan.key_place(database.store_partition),
                overlay=as_text(subject.overlay_of(database)),
                size=min(database.data_bytes, subject.range_bytes),
            )
