"""Both sides of a sort, in any order: the old records, converted again, and the new ones, added up by target range.

A sieve says what counts. The first one adds up whole ranges; a finer one adds up what differs by the keys' hashes; the
last one yields the records of the hashes that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from migrate.batch.chunk.sorting import OldRange, PlacedRecords, SortedStore, SortInput, SortWork
from migrate.batch.chunk.task import PlainTask
from migrate.batch.stop import never_stop
from migrate.engine.chunk_source import Inputs, open_inputs
from migrate.engine.portable import RecordDigest
from migrate.engine.split import Payloads
from migrate.engine.sums import FoundRecord, RangeSums, Summed, key_hashes, record_hashes
from migrate.model.comparison import Verified, differing
from migrate.model.plan import Chunk
from migrate.spec.fingerprint import tracking_imports
from migrate.stores.batch import Batch
from migrate.stores.merge import batches_without
from migrate.stores.rocksdb.openings import open_pooled

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sieve:
    """Which records count, and at which place: each range has as many places as `buckets`."""

    ranges: Sequence[int]
    buckets: int = 1
    wanted: frozenset[int] = frozenset()
    """The places whose records are yielded, and not added up; empty: all are added up."""


class _Sifter:
    def __init__(self, sieve: Sieve) -> None:
        self._buckets, self._wanted = sieve.buckets, np.array(sorted(sieve.wanted))
        self._first = np.full(max(sieve.ranges) + 2, -1)
        """The first place of each range by number; the last one, also by -1, stands for those that do not count."""
        self._first[np.array(sieve.ranges)] = np.arange(len(sieve.ranges)) * sieve.buckets
        self._sums = RangeSums(len(sieve.ranges) * sieve.buckets)
        self._records: list[FoundRecord] = []

    def add(self, numbers: Numbers, records: Batch, family: int) -> None:
        """Records of one column family, and the number of the range that each belongs to; -1: it does not count."""
        places = self._places(numbers, records.keys, family)
        if len(self._wanted):
            for at in np.flatnonzero(np.isin(places, self._wanted)).tolist():
                self._records.append(FoundRecord(int(numbers[at]), family, records.keys[at], records.values[at]))
            return
        taken = places >= 0
        some = records.where(taken.tolist())
        self._sums.add(places[taken], record_hashes(some.keys, some.values, family))

    def _places(self, numbers: Numbers, keys: Sequence[bytes], family: int) -> Numbers:
        first = self._first[np.minimum(numbers, len(self._first) - 1)]
        if self._buckets == 1:
            return first
        buckets = key_hashes(keys, family) % np.uint64(self._buckets)
        return np.where(first < 0, -1, first + buckets.astype(np.int64))

    def summed(self) -> Summed:
        return Summed(self._sums.found(), tuple(self._records))


@dataclass(frozen=True, slots=True)
class SumOldTask(PlainTask):
    """A part of the old records, to be converted again."""

    how: SortWork
    part: SortInput
    sieve: Sieve
    number: int
    """Of the part."""

    def __str__(self) -> str:
        return f"{self.part}, converted again"

    @property
    def size(self) -> int:
        return self.part.size

    def work(self, check: Callable[[], None] = never_stop) -> Summed:
        """Read all, as `SortInput.placed`; what the rewriting has left out is left out again."""
        sifter, read, dropped = _Sifter(self.sieve), 0, 0
        for placed in self.part.placed(self.how.unlimited(), check):
            dropped += sum(note.dropped for note in placed.of.notes or () if note is not None)
            read += len(placed.of.records)
            sifter.add(_written(placed), placed.of.records, placed.of.family)
        return sifter.summed()._replace(read=read, dropped=dropped)


@dataclass(frozen=True, slots=True)
class SumNewTask(PlainTask):
    """One target range of the new store."""

    how: SortWork
    number: int
    """Of the range."""
    store: str
    """The old store; empty: there is one."""
    target: str
    """The RocksDB directory."""
    families: tuple[str, ...]
    sieve: Sieve | None
    """None: digests are wanted, and no sums."""

    def __str__(self) -> str:
        return f"{self.chunk}, in the new store"

    @property
    def size(self) -> int:
        return self.chunk.estimated_bytes

    @property
    def chunk(self) -> Chunk:
        return self.how.targets.chunks[self.number]

    def work(self, check: Callable[[], None] = never_stop) -> Summed:
        """Read the range; each key must be where the partitioner puts it."""
        with tracking_imports(self.how.stores[self.store].conversion):
            return self._summed(check)

    def _summed(self, check: Callable[[], None]) -> Summed:
        sifter, placement = None if self.sieve is None else _Sifter(self.sieve), _Placement(self)
        digests = []
        for number, family in enumerate(self.families):
            digest = RecordDigest()
            for batch in self._batches(family):
                check()
                placement.check(batch, family)
                if sifter is None:
                    digest.update(batch)
                else:
                    sifter.add(np.full(len(batch), self.number), batch, number)
            digests.append((digest.records, str(digest)))
        summed = Summed({}, digests=tuple(digests)) if sifter is None else sifter.summed()
        return summed._replace(misplaced=placement.found)

    def _batches(self, family: str) -> Iterator[Batch]:
        left_out = self.how.stores[self.store].load().position_keys
        keys = self.chunk.keys
        with open_pooled(Path(self.target)) as opened:
            yield from batches_without(left_out, opened, family, keys)


@dataclass(slots=True)
class _Placement:
    """Checks that new keys belong in their store partition, by the partitioner alone."""

    task: SumNewTask
    found: Verified = field(default_factory=lambda: Verified(records=0))
    _store: SortedStore = field(init=False)
    _payloads: Payloads = field(init=False)

    def __post_init__(self) -> None:
        self._store = self.task.how.stores[self.task.store]
        self._payloads = Payloads(self._store.load().target)

    def check(self, batch: Batch, family: str) -> None:
        share = self._store.share
        if share is None:
            return
        there = self.task.chunk.store_partition
        own = self._store.partitions.index(there)
        (right,) = self._payloads.partitions(share.partitioner, batch, (share.new,), self.task.how.function_of(share))
        for at in np.flatnonzero(right != own).tolist():
            wrong = differing(there, "store partition", self._store.partitions[int(right[at])], there, family=family)
            self.found = self.found.with_mismatch(wrong.model_copy(update={"key": batch.keys[at]}))


@dataclass(frozen=True, slots=True)
class FindTask(PlainTask):
    """A part of what is sorted, among which those records are looked for that get one new key."""

    how: SortWork
    part: SortInput
    number: int
    """Of the range that the key belongs to."""
    family: int
    key: bytes

    def __str__(self) -> str:
        return f"{self.part}, for a key that several records get"

    @property
    def size(self) -> int:
        return self.part.size

    def work(self, check: Callable[[], None] = never_stop) -> Summed:
        """The records with their old keys and new values; with the new key, where they had none."""
        how = self.how.unlimited()
        found: list[FoundRecord] = []
        for placed, olds in self._placed(how, check):
            of = placed.of
            if of.family == self.family:
                for at in np.flatnonzero(_written(placed) == self.number).tolist():
                    if of.records.keys[at] == self.key:
                        found.append(FoundRecord(self.number, self.family, olds[at], of.records.values[at]))
        return Summed({}, tuple(found))

    def _placed(self, how: SortWork, check: Callable[[], None]) -> Iterator[tuple[PlacedRecords, Sequence[bytes]]]:
        if not isinstance(self.part, OldRange):
            yield from ((each, each.of.records.keys) for each in self.part.placed(how, check))
            return
        store, mapping = how.stores[self.part.store], self.part.mappings[self.family]
        inputs = Inputs(directories=(self.part.directory,))
        with tracking_imports(store.conversion), open_inputs(inputs, store.load().source) as source:
            for batch in source.batches(mapping, self.part.keys):
                for placed in self.part.converted(how, self.family, iter([batch]), check):
                    yield placed, batch.keys


def _written(placed: PlacedRecords) -> Numbers:
    """The ranges of records; -1: it is left out."""
    numbers = placed.numbers.astype(np.int64)
    numbers[placed.of.left_out] = -1
    return numbers
