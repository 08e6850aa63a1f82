"""What a verification has to read, found in the snapshot and not in the plan, and the proof that it was read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from migrate.batch.chunk.side_by_side import compare_gaps
from migrate.batch.chunk.verify import CompareTask, Verified, VerifyTask, as_verified
from migrate.batch.steps.verify_tasks import Subject, compare_tasks
from migrate.errors import MigrationError
from migrate.model.comparison import Mismatch, differing
from migrate.model.key_range import KeyRange, tiling_flaw
from migrate.model.plan import DatabasePlan
from migrate.stores.rocksdb.database import open_read_only

_FamilyPlace = tuple[str, str, str]
"""(store partition, database, column family) of the new store."""


@dataclass(frozen=True, slots=True)
class _Compared:
    keys: KeyRange
    ends: tuple[bytes, bytes] | None
    """The first and the last new key that came of it."""


@dataclass(slots=True)
class Coverage:
    """What was read so far of the old stores, and compared."""

    subject: Subject
    _compared: defaultdict[_FamilyPlace, list[_Compared]] = field(default_factory=lambda: defaultdict(list))
    _seen: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """Records of (store partition, database of the new store, directory of the source, column family)."""
    _used: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records of (directory of the source, column family), by all that is made of it."""

    def tasks(self) -> Iterator[CompareTask]:
        """What is still to be read and compared."""
        return compare_tasks(self.subject)

    def add(self, task: VerifyTask, found: Verified) -> None:
        """What a task has read."""
        if isinstance(task, CompareTask):
            place = (task.store_partition, task.database, task.lane.target)
            self._compared[place].append(_Compared(task.keys, found.ends))
        for count in found.counts:
            self._seen[task.store_partition, task.database, count.directory, count.family] += count.seen
            self._used[count.directory, count.family] += count.used

    def end(self) -> Iterator[Verified]:
        """What no range could find.

        Raises MigrationError unless every family was read from the first to the last possible key.
        """
        self._check_whole()
        yield from self._between()
        yield from map(as_verified, self._unused())

    def _check_whole(self) -> None:
        for plan, place in self._places():
            ranges = self._compared[place] = sorted(self._compared[place], key=lambda each: each.keys.start or b"")
            if (flaw := tiling_flaw([each.keys for each in ranges])) is not None:
                raise MigrationError(
                    f"the verification was not whole: the ranges of {plan.store_partition}, {plan.database}, column "
                    f"family {place[2]!r} {flaw}",
                    hint="this is a bug: nothing counts as verified; please report it",
                )

    def _between(self) -> Iterator[Verified]:
        """What the new stores have before, between and behind the ranges that were compared: nothing, or extra keys."""
        for plan in self.subject.databases:
            if not plan.is_kept or len(self._compared[plan.store_partition, plan.database, plan.lanes[0].target]) == 1:
                continue  # a task that compares everything looks everywhere itself
            with open_read_only(self.subject.target_of(plan)) as target:
                for lane in plan.lanes:
                    place = (plan.store_partition, plan.database, lane.target)
                    ends = [each.ends for each in self._compared[place] if each.ends is not None]
                    left_out = self.subject.context.conversion.position_keys
                    for count, found in compare_gaps(target, plan.store_partition, lane.target, ends, left_out):
                        yield as_verified(found, count)

    def _unused(self) -> Iterator[Mismatch]:
        """Families of the source of which some records were used by no new store, or by more than one."""
        for (partition, _, directory, family), seen in sorted(self._seen.items()):
            if (used := self._used[directory, family]) != seen:
                where = f"records of {Path(directory).name}"
                yield differing(partition, where, f"{seen:,}, each once", f"{used:,}", family=family)

    def _places(self) -> Iterator[tuple[DatabasePlan, _FamilyPlace]]:
        for plan in self.subject.databases:
            for lane in plan.lanes:
                yield plan, (plan.store_partition, plan.database, lane.target)
