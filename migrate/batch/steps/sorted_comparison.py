"""Verification of what was sorted: the old records, converted again, and the new ones, read from disk, in any order.

Both are added up by target range. Ranges that differ are read again, in parts by the hashes of keys, until the records
that differ are few enough to be compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, pairwise

from migrate.batch.chunk.compare_stores import CountTask
from migrate.batch.chunk.executor import Executor, run_all
from migrate.batch.chunk.sorting import Targets, age
from migrate.batch.chunk.sum_ranges import Sieve, SumNewTask, SumOldTask
from migrate.batch.chunk.task import Task, TaskResult
from migrate.batch.steps.assemble import by_place
from migrate.batch.steps.comparisons import OldCounts, Subject
from migrate.batch.steps.sort import sort_inputs, work_of
from migrate.batch.steps.sums_so_far import SumsOfTasks, SumsSoFar, add_sums
from migrate.engine.sums import FoundRecord, RangeSum, Summed
from migrate.model.comparison import Kind, Verified, as_verified, difference, differing
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk, DatabasePlan, store_of
from migrate.model.receipt import Receipt
from migrate.model.store_partition import place_name

Sums = dict[int, RangeSum]
_NOTHING = RangeSum()
_MOST_PLACES = 1 << 16
"""So many sums a task returns at most."""
_MOST_RECORDS = 20_000
"""So many are compared at once, of both sides together; or all of one place."""
_MOST_PASSES = 3
"""So often records are compared to name a difference: places where keys collide differ too, and may be right."""


@dataclass(slots=True)
class _Read:
    """What one pass over both sides has found."""

    counts: OldCounts
    olds: Sums = field(default_factory=dict)
    news: Sums = field(default_factory=dict)
    expected: list[FoundRecord] = field(default_factory=list)
    actual: list[FoundRecord] = field(default_factory=list)
    digests: dict[int, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    read: Counter[str] = field(default_factory=Counter)
    """Old records, by the store partition that they are counted in."""
    dropped: int = 0
    misplaced: list[Verified] = field(default_factory=list)

    def go_on(self, so_far: SumsOfTasks) -> None:
        """Add what tasks of an interrupted verification have found."""
        add_sums(self.olds, so_far.old_sums)
        add_sums(self.news, so_far.new_sums)
        self.dropped += so_far.dropped
        for source, records in so_far.read.items():
            self.read[self.counts.whole(source)] += records

    def add(self, task: Task, found: TaskResult) -> None:
        """Add what a task has found."""
        if isinstance(task, CountTask):
            assert isinstance(found, Verified)
            self.counts.add(task, found)
            return
        assert isinstance(found, Summed)
        if isinstance(task, SumNewTask):
            add_sums(self.news, found.sums)
            self.actual += found.records
            self.digests[task.number] = found.digests
            self.misplaced.append(found.misplaced)
        elif isinstance(task, SumOldTask):
            add_sums(self.olds, found.sums)
            self.expected += found.records
            self.dropped += found.dropped
            self.read[self.counts.whole(task.part.source)] += found.read

    @property
    def records(self) -> int:
        """New records that were read."""
        by_digest = sum(records for families in self.digests.values() for records, _ in families)
        return by_digest + sum(each.records for each in self.news.values())


class SortedComparison:
    """The new stores of a sorted plan, and what they should be."""

    def __init__(self, subject: Subject, executor: Executor) -> None:
        """Find what there is to read in the snapshot's files."""
        self._subject, self._executor, self._context = subject, executor, subject.context
        ranges = [*_ranges(subject)]
        self._chunks, self._receipts = [chunk for chunk, _ in ranges], [receipt for _, receipt in ranges]
        self._how = replace(work_of(self._context), targets=Targets(tuple(self._chunks)))
        self._inputs = sort_inputs(self._context, subject.databases, executor.slots)
        self._all = Sieve(range(len(ranges)))
        self._may_collide = self._context.spec.conversion.on_collision is not None
        self._databases = {(each.store_partition, each.database): each for each in subject.databases}
        self.records_before = 0
        """New records that an interrupted verification had read."""

    def in_full(self) -> Iterator[Verified]:
        """Compare all old records, converted again, with the new ones; the result, and the mismatches."""
        so_far = SumsSoFar(self._subject, self._chunks, self._inputs)
        found = self._read(self._all, self._olds(self._all), counts_old=True, so_far=so_far)
        yield Verified(records=found.records, dropped=found.dropped)
        wrong = [number for number in self._all.ranges if self._differs(number, found)]
        yield from self._narrowed(wrong, "records") if wrong else found.misplaced
        yield from map(as_verified, found.counts.mismatches(found.read))

    def by_digest(self) -> Iterator[Verified]:
        """Compare the new records with the digests of the receipts; the result, and the mismatches."""
        found = self._read(None, (), counts_old=True)
        yield Verified(records=found.records)
        wrong = [number for number, digests in found.digests.items() if digests != _digests(self._receipts[number])]
        yield from self._narrowed(sorted(wrong), "receipt") if wrong else found.misplaced
        yield from map(as_verified, found.counts.mismatches(found.counts.of_receipts()))

    def _differs(self, number: int, found: _Read) -> bool:
        receipt, new = self._receipts[number], found.news.get(number, _NOTHING)
        if receipt is not None and self._may_collide:
            new = new.plus(RangeSum(receipt.collided, int(receipt.collided_sum or "0", 16)))
        return new != found.olds.get(number, _NOTHING)

    def _read(
        self,
        sieve: Sieve | None,
        olds: Iterable[SumOldTask],
        *,
        counts_old: bool = False,
        so_far: SumsSoFar | None = None,
    ) -> _Read:
        """One pass. `sieve`: of the new records, which are digested without one; `olds`: tasks of the other side.

        `so_far`: what needs not be read again; the rest is committed as it comes.
        """
        found, context = _Read(OldCounts(self._subject)), self._context
        olds = [*olds]
        news = [self._new(number, sieve) for number in self._all.ranges if sieve is None or number in sieve.ranges]
        if so_far is not None:
            olds, news = self._left(olds, news, so_far, found)
        tasks: Iterable[Task] = chain(olds, news, found.counts.tasks() if counts_old else ())
        for finished in run_all(self._executor, tasks, name=context.spec.name, stop=context.stop):
            for task, result in finished:
                found.add(task, result)
                if so_far is not None:
                    so_far.add(task, result)
            if finished and counts_old:
                context.notify("verify.progressed", records=found.records)
            if so_far is not None:
                so_far.commit_some()
        context.stop.check()  # what was not compared must not count as missing
        return found

    def _left(
        self, olds: list[SumOldTask], news: list[SumNewTask], so_far: SumsSoFar, found: _Read
    ) -> tuple[list[SumOldTask], list[SumNewTask]]:
        """The tasks whose sums are not in the ledger; `found` gets those that are."""
        read_olds, read_news = set[int](), set[int]()
        for each in so_far.committed():
            if read_olds.intersection(each.olds) or read_news.intersection(each.news):
                continue  # it would be added twice
            found.go_on(each)
            read_olds.update(each.olds)
            read_news.update(each.news)
        if read_olds or read_news:
            self.records_before = found.records
            self._context.notify("verify.resumed", records=found.records)
        return (
            [task for task in olds if task.number not in read_olds],
            [task for task in news if task.number not in read_news],
        )

    def _olds(self, sieve: Sieve) -> Iterator[SumOldTask]:
        return (SumOldTask(self._how, each, sieve, number) for number, each in enumerate(self._inputs))

    def _new(self, number: int, sieve: Sieve | None) -> SumNewTask:
        database = self._database(number)
        families = tuple(mapping.target for mapping in database.mappings)
        target = str(self._subject.target_of(database))
        return SumNewTask(self._how, number, self._store(number), target, families, sieve)

    def _database(self, number: int) -> DatabasePlan:
        chunk = self._chunks[number]
        return self._databases[chunk.store_partition, chunk.database]

    def _store(self, number: int) -> str:
        name = store_of(self._chunks[number].store_partition)
        return name if name in self._how.stores else ""

    def _narrowed(self, wrong: Sequence[int], what: str) -> Iterator[Verified]:
        """The mismatches of these ranges, the first ones named; where no record differs, `what` does."""
        ranges = tuple(wrong[:_MOST_PLACES])
        sieve = Sieve(ranges, max(2, _MOST_PLACES // len(ranges)))
        found = self._read(sieve, self._olds(sieve))
        left = _differing(sieve, found)
        for _ in range(_MOST_PASSES):
            some, left = _first(left, found)
            named = self._named(replace(sieve, wanted=frozenset(some))) if some else Verified(records=0)
            if named.mismatches:
                yield named
                yield from () if self._may_collide else self._further(left, found)
                return
        chunk = self._chunks[ranges[0]]
        where = place_name(chunk.store_partition, chunk.database)
        yield as_verified(differing(where, f"{what} of chunk {chunk.number}", "those of the old store", "others"))

    def _further(self, places: Sequence[int], found: _Read) -> Iterator[Verified]:
        """How many records at least are wrong at places whose records were not compared."""
        kind: Kind
        for place in places:
            more = found.news.get(place, _NOTHING).records - found.olds.get(place, _NOTHING).records
            kind = "extra" if more > 0 else "missing" if more < 0 else "differing"
            yield Verified(records=0).model_copy(update={kind: max(1, abs(more))})

    def _named(self, sieve: Sieve) -> Verified:
        """The mismatches among the records at the places that the sieve wants."""
        found = self._read(sieve, self._olds(sieve))
        expected: defaultdict[tuple[int, int, bytes], list[bytes]] = defaultdict(list)
        for each in found.expected:
            expected[each.range, each.family, each.key].append(each.value)
        actual = {(each.range, each.family, each.key): each.value for each in found.actual}
        named = Verified(records=0)
        for number, family, key in sorted(expected.keys() | actual.keys()):
            database, target = self._database(number), self._how.stores[self._store(number)].load().target
            wanted, there = expected.get((number, family, key), []), actual.get((number, family, key))
            right = max(wanted, key=partial(age, target, key)) if wanted else None
            if right == there:
                there = None if len(wanted) > 1 and not self._may_collide else there  # the other one is missing
            if right != there:
                where = (database.store_partition, database.mappings[family].target)
                named = named.with_mismatch(difference(target, where, key, right, there))
        return named


def _ranges(subject: Subject) -> Iterator[tuple[Chunk, Receipt | None]]:
    """Ranges that cover every key of the RocksDB directories, cut where the receipts are, which only may answer for
    them.
    """
    receipts = by_place(subject.context.standing.receipts)
    for each in subject.databases:
        place = (each.store_partition, each.database)
        mine: list[Receipt | None] = [*receipts[place]] or [None]
        starts = [None if receipt is None else receipt.keys.start for receipt in mine]
        for number, (start, end) in enumerate(pairwise([None, *starts[1:], None])):
            size = each.data_bytes // len(mine)
            keys = KeyRange(start=start, end=end)
            chunk = Chunk(store_partition=place[0], database=place[1], number=number, keys=keys, estimated_bytes=size)
            yield chunk, mine[number]


def _differing(sieve: Sieve, found: _Read) -> list[int]:
    """The places that differ; those of a key that is in another range than it should be are neighbours."""
    every = found.olds.keys() | found.news.keys()
    some = (place for place in every if found.olds.get(place, _NOTHING) != found.news.get(place, _NOTHING))
    return sorted(some, key=lambda place: (place % sieve.buckets, place))


def _first(places: list[int], found: _Read) -> tuple[list[int], list[int]]:
    """As many places as can be compared at once, and the others."""
    sizes = [found.olds.get(each, _NOTHING).records + found.news.get(each, _NOTHING).records for each in places]
    count = max(1, bisect_right([*accumulate(sizes)], _MOST_RECORDS))
    return places[:count], places[count:]


def _digests(receipt: Receipt | None) -> tuple[tuple[int, str], ...]:
    return () if receipt is None else tuple((each.records, each.digest) for each in receipt.written)
