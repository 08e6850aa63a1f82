"""Reading a chunk: the old store's records as their owner would read them, from all directories and families."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from formats import Format
from formats.conversion import upgrade_program
from formats.partitioners import Partitioner
from formats.program import IDENTITY, ByteProgram
from migrate.engine.columns import compile_program
from migrate.engine.key_times import open_times
from migrate.engine.split import OldPartition, Split
from migrate.errors import ChunkFailedError
from migrate.model.comparison import FamilyCount
from migrate.model.key_range import KeyRange, show_key
from migrate.model.plan import DatabasePlan, FamilyMapping, Share, TimeSlice
from migrate.stores.batch import Batch
from migrate.stores.merge import MergedScan
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.openings import open_pooled

_INT64 = np.dtype(">i8")
WRONG_INTERVAL = (
    "name the interval that they were made with in [source] segment_ms (where Kafka Streams itself derived it: the "
    "retention_ms of that time); where the application changed it since, it finds only some of these records"
)
"""The hint about a record in a segment of another time."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """RocksDB directories that are read as one, in a form that a task can carry."""

    directories: tuple[str, ...]
    times_of: tuple[TimeSlice | None, ...] = ()
    """The time slice of each directory; None: unknown."""
    times: TimeSlice | None = None
    """The time slice of the records to read; None: all records."""
    known_times: str | None = None
    """The run of times that new records take theirs from; None: they have some, or get the default."""
    share: Share | None = None
    """Which records to read, where the number of partitions changes; None: all."""
    olds: tuple[OldPartition, ...] = ()
    """The old store partition of each directory, with a `share`."""


def inputs_of(plan: DatabasePlan, directories: dict[str, Path], known_times: str | None = None) -> Inputs:
    """The inputs of one new database; `directories`: those of the source's store partition, by database."""
    return Inputs(
        directories=tuple(str(directories[source.place]) for source in plan.sources),
        times_of=tuple(source.times for source in plan.sources),
        times=plan.times,
        known_times=known_times,
        share=plan.share,
        olds=tuple(OldPartition(each.number, each.partition) for each in plan.sources if each.number is not None),
    )


@contextmanager
def open_inputs(inputs: Inputs, source: Format, partitioner: Partitioner | None = None) -> Iterator[ChunkSource]:
    """Open the inputs; `partitioner`: the user's, of a share. Raises RefusedError where one cannot be opened."""
    with ExitStack() as stack:
        databases = [stack.enter_context(open_pooled(Path(directory))) for directory in inputs.directories]
        times = stack.enter_context(open_times(inputs.known_times))
        split = None if inputs.share is None else Split(inputs.share, source, partitioner)
        yield ChunkSource(inputs, source, databases, times, split)


@dataclass(slots=True)
class ChunkSource:
    """The open inputs of a chunk."""

    inputs: Inputs
    source: Format
    databases: list[Database]
    known_times: Database | None = None
    split: Split | None = None
    """What finds the records of the inputs' share."""
    shadowed: int = field(default=0, init=False)
    """Records read so far of a pre-upgrade family whose key a newer family has too."""
    read: Counter[tuple[int, str]] = field(default_factory=Counter, init=False)
    """Records read so far by RocksDB directory (its index among the inputs) and column family."""
    seen: Counter[tuple[int, str]] = field(default_factory=Counter, init=False)
    """The same counts, including records of other times."""

    def batches(self, mapping: FamilyMapping, keys: KeyRange | None = None) -> Iterator[Batch]:
        """Every record of the family in the range, in key order and in the layout of the source's format.

        Raises CorruptionError where the range cannot be read to its end, ChunkFailedError for a record in a segment of
        another time.
        """
        numbers = range(len(self.databases))
        scans = [scan for number in numbers for scan in self._scans(number, mapping, keys, self.split)]
        merged = MergedScan(scans)
        yield from merged
        self.shadowed += merged.shadowed

    def parts(self, mapping: FamilyMapping, keys: KeyRange, wanted: Sequence[int]) -> Iterator[list[tuple[int, Batch]]]:
        """As `batches`, by the numbers of the new store partitions that the records belong to, of all that are wanted.

        Raises RefusedError, too, for a key that is not in the old store partition where it belongs.
        """
        assert self.split is not None
        scans = defaultdict[OldPartition, list[Iterator[Batch]]](list)
        for number, old in enumerate(self.inputs.olds):
            scans[old] += self._scans(number, mapping, keys, None)
        merged = {old: MergedScan(each) for old, each in scans.items()}
        yield from self.split.of([(old, iter(each)) for old, each in merged.items()], wanted)
        self.shadowed += sum(each.shadowed for each in merged.values())

    @property
    def counts(self) -> tuple[FamilyCount, ...]:
        directories = self.inputs.directories
        return tuple(
            FamilyCount(directory=directories[number], family=family, seen=seen, used=self.read[number, family])
            for (number, family), seen in self.seen.items()
        )

    def counts_of(self, number: int, mapping: FamilyMapping) -> tuple[FamilyCount, ...]:
        """As `counts`, where only the records of one new store partition count as used that `parts` has found."""
        assert self.split is not None
        return tuple(
            FamilyCount(
                directory=directory,
                family=mapping.source,
                seen=self.seen[at, mapping.source],
                used=self.split.used[number, self.inputs.olds[at]],
            )
            for at, directory in enumerate(self.inputs.directories)
        )

    def families(self, number: int, mapping: FamilyMapping) -> list[str]:
        """The column families to read of one RocksDB directory; of a key that several have, the first counts."""
        there = self.databases[number].families
        return [family for family in (mapping.source, *mapping.older) if family in there]

    def sampled(self, number: int, mapping: FamilyMapping, family: str, sample: Iterator[Batch]) -> Iterator[Batch]:
        """The records of a sample of one column family that `batches` would yield; it raises the same errors."""
        families, database = self.families(number, mapping), self.databases[number]
        newer = families[: families.index(family)]
        for batch in self._scan(number, mapping, family, sample, self.split):
            left = batch.where([all(database.get(name, key) is None for name in newer) for key in batch.keys])
            self.shadowed += len(batch) - len(left)
            if len(left):
                yield left

    def _scans(
        self, number: int, mapping: FamilyMapping, keys: KeyRange | None, split: Split | None
    ) -> Iterator[Iterator[Batch]]:
        for family in self.families(number, mapping):
            batches = self.databases[number].batches(family, keys, on_columns=self.source.on_columns)
            yield self._scan(number, mapping, family, batches, split)

    def _scan(
        self, number: int, mapping: FamilyMapping, family: str, batches: Iterator[Batch], split: Split | None
    ) -> Iterator[Batch]:
        scan = _counted(self.seen, batches, (number, family))
        if family != mapping.source:
            scan = _upgraded(scan, self.source, family)
        if self.inputs.times is not None:
            scan = self._within(self.inputs.times, scan, number)
        if split is not None:
            scan = split.own(scan, self.inputs.olds[number])
        return _counted(self.read, scan, (number, family))

    def _within(self, wanted: TimeSlice, scan: Iterator[Batch], number: int) -> Iterator[Batch]:
        database, own = self.databases[number], self.inputs.times_of[number]
        for batch in scan:
            times = _times(batch, self.source.segment_time, database)
            if own is not None and (times.min() < own.start_ms or times.max() >= own.end_ms):
                stray = int(np.flatnonzero((times < own.start_ms) | (times >= own.end_ms))[0])
                raise ChunkFailedError(
                    f"{database.directory} is the segment of {own}, and its key {show_key(batch.keys[stray])} is of "
                    f"{times[stray]}: its segments were made with another interval",
                    hint=WRONG_INTERVAL,
                )
            mask = ((times >= wanted.start_ms) & (times < wanted.end_ms)).tolist()
            if len(left := batch.where(mask)):
                yield left


def _counted(counts: Counter[tuple[int, str]], scan: Iterator[Batch], place: tuple[int, str]) -> Iterator[Batch]:
    for batch in scan:
        counts[place] += len(batch)
        yield batch
        del batch  # or a large value would live on while the next one is read


def _upgraded(scan: Iterator[Batch], source: Format, family: str) -> Iterator[Batch]:
    """The records of a pre-upgrade family, in the layout of `source`."""
    older = next(each for each in source.older_families if each.name == family)
    convert = compile_program(ByteProgram(IDENTITY, upgrade_program(older.value_layout, source)))
    for batch in scan:
        yield convert(batch)


def _times(batch: Batch, place: slice, database: Database) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The time by which each record belongs to a segment. Raises ChunkFailedError for a key without one."""
    shortest = batch.sizes[0] if batch.sizes is not None else min(map(len, batch.keys))
    if shortest < -place.start:
        key = min(batch.keys, key=len)
        raise ChunkFailedError(
            f"{database.directory} has the key {show_key(key)}, which is too short to contain a time",
            hint="is [source] format the format that the store has? without retention_ms each segment stays as it is",
        )
    if batch.sizes is not None:
        size = batch.sizes[0]
        return np.ndarray((len(batch),), _INT64, batch.joined_keys, size + place.start, (size,))
    return np.frombuffer(b"".join([key[place] for key in batch.keys]), _INT64)


def newest_time(database: Database, family: str, place: slice) -> int | None:
    """The time of the newest record, in milliseconds; None: there is no record."""
    return max((int(_times(batch, place, database).max()) for batch in database.batches(family)), default=None)
