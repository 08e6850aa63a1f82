"""Read the old stores: inventory, sample conversion, a timed piece, and every record where `--full` asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from migrate.batch.chunk.reader import Records, inputs_of, open_inputs
from migrate.batch.context import Context
from migrate.batch.plan.make import cut_database
from migrate.batch.plan.sample import check_sample, check_segments
from migrate.batch.preflight.check import CheckReport, failed
from migrate.batch.preflight.retry import explained, look_again
from migrate.batch.source.sampling import RUN_LENGTH, SampleSize, read_sample
from migrate.batch.source.source import Source
from migrate.dry_run.cost import NOT_MEASURED, Measured, measure
from migrate.dry_run.full_scan import FullScan
from migrate.dry_run.inventory import database_inventory
from migrate.dry_run.report import DatabaseInventory
from migrate.dry_run.sample_conversion import SampleConverter
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, RefusedError, system_errors_explained
from migrate.model.plan import Chunk, DatabasePlan, Lane
from migrate.stores.rocksdb.database import open_read_only

MOST_SAMPLE_BYTES = 64 << 20
"""Of one store partition: huge values are sampled more thinly."""
_Place = tuple[str, str]
"""A RocksDB directory of the source: its store partition and its name there."""
_Family = tuple[_Place, str]


@dataclass(frozen=True, slots=True)
class Options:
    """How to look; none of it changes what a run would do."""

    sample: int
    """Records of each store partition."""
    seed: int
    is_full: bool
    slots: int | None


class SourceReader:
    """One pass over what the new RocksDB directories are made of, and what it found.

    What is wrong with one does not hide the others. An old directory that several new ones are made of is looked at
    once, and its records are read for each of them. `is_running`: the owner may remove files meanwhile.
    """

    def __init__(
        self,
        context: Context,
        source: Source,
        databases: tuple[DatabasePlan, ...],
        options: Options,
        *,
        is_running: bool,
    ) -> None:
        self.trial = SampleConverter(context.conversion)
        self.full = FullScan(context.conversion) if options.is_full else None
        self.chunks: list[Chunk] = []
        self.failures: list[CheckReport] = []
        self.shadowed = 0.0
        """Records of an unfinished upgrade that a newer one of the same key stands for."""
        self.expired = 0.0
        """Records older than the new store's retention."""
        self.rejects = 0.0
        """To be expected of all records: each column family's share counts by how many it has; as the two above."""
        self.measured = NOT_MEASURED
        self._context = context
        self._source = source
        self._is_running = is_running
        self._databases = databases
        self._partitions = {partition.id: partition for partition in source.partitions}
        self._options = options
        self._sharing = Counter(partition for partition, _, _ in {*_sampled_families(databases)})
        """Column families that share the sample of a store partition."""
        self._found: dict[_Place, DatabaseInventory] = {}
        self._counted: Counter[_Family] = Counter()
        self._not_whole: set[_Family] = set()
        """Column families of which a sample was read."""
        self._broken: set[_Place] = set()
        """What could not be read to its end."""

    def read(self) -> SourceReader:
        """All of them; a piece of the largest one is timed."""
        kept = [plan for plan in self._databases if plan.is_kept]
        largest = max(kept, key=lambda plan: plan.data_bytes, default=None)
        for plan in self._databases:
            self._take(plan, is_timed=plan is largest)
        return self

    @property
    def found(self) -> tuple[DatabaseInventory, ...]:
        """Each RocksDB directory of which anything is known, in the order of the source."""
        in_order = ((partition.id, name) for partition in self._partitions.values() for name in partition.databases)
        return tuple(self._with_counts(place) for place in in_order if place in self._found)

    @property
    def is_whole(self) -> bool:
        """Something is known of every RocksDB directory."""
        return all(place in self._found for plan in self._databases for place in _places(plan))

    def _take(self, plan: DatabasePlan, *, is_timed: bool) -> None:
        """Opened once more where its owner has changed its files before any record was read."""
        is_read = False
        try:
            with system_errors_explained(), ExitStack() as stack:
                records, chunks = look_again(lambda: self._open(plan, stack), is_in_use=self._is_running)
                self.chunks += chunks
                self._read(plan, records)
                is_read = True
                if is_timed:
                    self.measured = self._time(plan, records, chunks[len(chunks) // 2].keys.start)
                check_segments(records.databases, plan, self._source)
                allowed = self._context.spec.conversion.allow
                check_sample(records.databases, plan, self._context.conversion, allowed)
        except (MigrationError, FileNotFoundError) as error:
            if not is_read:
                self._broken |= set(_places(plan))
            self._fail(explained(error))

    @system_errors_explained()
    def _open(self, plan: DatabasePlan, stack: ExitStack) -> tuple[Records, list[Chunk]]:
        stack.close()  # of what was opened before
        source, partition = self._source, self._partitions[plan.store_partition]
        inputs = inputs_of(plan, source.directories(partition))
        opening = partial(open_read_only, all_files=self._is_running)
        records = stack.enter_context(open_inputs(inputs, self._context.conversion.source, opening))
        found = {
            place: database_inventory(source, partition, place[1], database, plan)
            for place, database in zip(_places(plan), records.databases, strict=True)
            if place not in self._found
        }
        chunks = cut_database(plan, records.databases, int(self._context.spec.run.chunk_size))
        self._found |= found
        return records, chunks

    def _fail(self, error: MigrationError) -> None:
        name = "source.records" if isinstance(error, RefusedError) else "source.read"
        check = failed(name, "records of every store partition can be read and converted", error)
        if check not in self.failures:  # several new segments may be made of one old one
            self.failures.append(check)

    def _read(self, plan: DatabasePlan, records: Records) -> None:
        sampled = replace(records)
        for lane, number in product(plan.lanes, range(len(records.databases))):
            for family in records.families(number, lane):
                self._sample(plan, lane, sampled, number, family)
        if self.full is not None:
            self._read_all(self.full, plan, replace(records))

    def _sample(self, plan: DatabasePlan, lane: Lane, records: Records, number: int, family: str) -> None:
        """A column family's sample, read and tried as a run would: it stands for all of its records."""
        place, trial = _places(plan)[number], self.trial
        found, share = self._found[place], self._sharing[plan.store_partition]
        size = SampleSize(max(1, self._options.sample // share), MOST_SAMPLE_BYTES // share, self._options.seed)
        stands_for = max(1.0, found.record_bytes / share / max(1, size.records // RUN_LENGTH))
        sample = read_sample(records.databases[number], family, size)
        rejected, expired, shadowed = trial.rejects.count, trial.expired, records.shadowed
        trial.begin(plan.store_partition)
        for batch in records.sampled(number, lane, family, sample.batches):
            if plan.is_kept:
                trial.take(batch, lane, weight=1.0 if sample.is_whole else stands_for / max(1, batch.size))
            else:
                trial.expired += len(batch)
        if self.full is not None:
            return
        self._counted[place, family] += records.read[number, family]
        times = 1.0
        if not sample.is_whole:
            self._not_whole.add((place, family))
            known = next(each.records for each in found.families if each.name == family)
            times = max(1.0, known / max(1, records.seen[number, family]))
        self.rejects += (trial.rejects.count - rejected) * times
        self.expired += (trial.expired - expired) * times
        self.shadowed += (records.shadowed - shadowed) * times

    def _read_all(self, full: FullScan, plan: DatabasePlan, records: Records) -> None:
        for lane in plan.lanes:
            full.take(records, plan, lane, lambda read: self._context.notify("dry-run.progressed", records=read))
        self.rejects, self.expired = full.rejects.count, full.expired
        self.shadowed += records.shadowed
        places = _places(plan)
        for (number, family), count in records.read.items():
            self._counted[places[number], family] += count

    def _with_counts(self, place: _Place) -> DatabaseInventory:
        found = self._found[place]
        families = tuple(
            family.read(self._counted[place, family.name], is_all=self._is_counted(place, family.name))
            if family.role in ("records", "older")
            else family
            for family in found.families
        )
        return found.model_copy(update={"families": families})

    def _is_counted(self, place: _Place, family: str) -> bool:
        return place not in self._broken and (place, family) not in self._not_whole

    def _time(self, plan: DatabasePlan, records: Records, start: bytes | None) -> Measured:
        """Of the column family with the most records."""

        def records_of(lane: Lane) -> int:
            there = [(each, family) for number, each in enumerate(opened) for family in records.families(number, lane)]
            return sum(database.estimated_records(family) for database, family in there)

        opened = records.databases
        lane = max(plan.lanes, key=records_of)
        try:
            with system_errors_explained():
                tried = (measure(records, lane, begin, self._context.conversion) for begin in (start, None))
                return next((measured for measured in tried if measured.records), NOT_MEASURED)
        except CorruptionError:
            raise
        except (RefusedError, ChunkFailedError):  # the temporary directory's trouble is none of a run's
            return NOT_MEASURED


def _places(plan: DatabasePlan) -> list[_Place]:
    return [(plan.store_partition, each.database) for each in plan.sources]


def _sampled_families(databases: tuple[DatabasePlan, ...]) -> Iterator[tuple[str, str, str]]:
    """(store partition, RocksDB directory, column family) of everything that may be read."""
    for plan in databases:
        for (partition, name), lane in product(_places(plan), plan.lanes):
            yield from ((partition, name, family) for family in (lane.source, *lane.older))
