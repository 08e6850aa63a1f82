"""Read the old stores: inventory, sample conversion, a timed piece, and all records where that is quick or wanted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

from migrate.batch.changelog.take_key_times import SampledTimes
from migrate.batch.context import Context
from migrate.batch.plan.make_plan import cut_database
from migrate.batch.plan.sample import KnownTimes, check_sample, check_segments, so_in
from migrate.batch.preflight.check import CheckReport, as_migration_error, failed, with_retries
from migrate.batch.source.sampling import RUN_LENGTH, SampleSize, read_sample
from migrate.batch.source.source import Source
from migrate.dry_run.dry_run_report import DatabaseInventory, Inventory, SampleConversion
from migrate.dry_run.estimate import MeasuredPiece, measure
from migrate.dry_run.inventory import Place, Tally, database_inventory, inventory_of, places_of
from migrate.dry_run.sample_conversion import ConversionCounts, FullScan, SampleConverter, conversion_results
from migrate.engine.chunk_source import ChunkSource, inputs_of
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, RefusedError, system_errors_explained
from migrate.model.plan import Chunk, DatabasePlan, FamilyMapping, KeyPlace
from migrate.stores.rocksdb.database import open_read_only

MOST_SAMPLE_BYTES = 64 << 20
"""Bytes of one store partition's sample: of large values fewer are read."""
ALL_SECONDS = 10.0
"""All records are converted where that takes no longer than this, by the speed that was measured."""
_PATIENCE = 2.0
"""How much longer it may take than estimated: then the results of the sample are reported."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the dry run, which do not change what a run would do."""

    sample: int
    """Records of each store partition."""
    seed: int
    is_full: bool
    """Convert all records, however long that takes."""
    is_sample: bool
    """Convert a sample, also where all records would take a moment."""
    slots: int


class _TakesTooLongError(Exception):
    """All records take longer than their estimate."""


class SourceReader:
    """Reads the RocksDB directories that the new ones are made of: samples of all, then all records if wanted.

    A failure in one directory does not hide the others. An old directory that several new ones are made of is listed
    once, and its records are read for each of them. `is_running`: the owner may remove files meanwhile. `times`: where
    the new store takes its times from the changelog; records whose times are not known are in no sample then.
    `key_places`: of the store partitions whose new keys are checked.
    """

    def __init__(
        self,
        context: Context,
        source: Source,
        databases: tuple[DatabasePlan, ...],
        options: Options,
        times: SampledTimes | None = None,
        *,
        key_places: Iterable[KeyPlace] = (),
        is_running: bool,
    ) -> None:
        self.chunks: list[Chunk] = []
        self._failures: dict[CheckReport, dict[str, None]] = {}
        """What failed, with the ids of the store partitions."""
        self.piece: MeasuredPiece | None = None
        self._sample = SampleConverter(context.conversion, source.path)
        self._full: FullScan | None = None
        self.tally = Tally()
        self._context = context
        self._source = source
        self._is_running = is_running
        self._databases = databases
        self._partitions = {partition.id: partition for partition in source.partitions}
        self._options = options
        self._sharing = Counter(partition for partition, _, _ in {*_sampled_families(databases)})
        """Column families that share the sample of a store partition."""
        self._found: dict[Place, DatabaseInventory] = {}
        self._read: list[DatabasePlan] = []
        """The new directories whose sources could be sampled."""
        self._opening_seconds = 0.0
        self._times = times
        self._key_places = {each.store_partition: each for each in key_places}

    def read(self) -> SourceReader:
        """Read a sample of every directory, time a piece of the largest one, and read all where that is wanted."""
        kept = [plan for plan in self._databases if plan.is_kept]
        largest = max(kept, key=lambda plan: plan.data_bytes, default=None)
        for plan in self._databases:
            self._sample_database(plan, is_timed=plan is largest)
        if self._options.is_full:
            self._read_all(deadline=None)
        elif self._may_read_all and self.tally.sampled and self._seconds_for_all() < ALL_SECONDS:
            self._read_all(deadline=time.monotonic() + _PATIENCE * ALL_SECONDS)
        return self

    @property
    def _may_read_all(self) -> bool:
        """Whether all records may be converted without being asked for: their times must be known."""
        return not self._options.is_sample and (self._times is None or self._times.are_whole)

    @property
    def logged_times(self) -> list[tuple[int, float]]:
        """The times that sampled records get in the changelog, each with its weight."""
        return self._sample.logged_times

    def _seconds_for_all(self) -> float:
        """The time to convert all records: to write them, as the measured piece was, takes longer."""
        piece, places = self.piece, [place for plan in self._databases for place in places_of(plan)]
        if piece is None:
            return float("inf")
        size = sum(each.record_bytes + each.wal_bytes for place in places if (each := self._found.get(place)))
        return self._opening_seconds + size * piece.rewrite_seconds / piece.size

    @property
    def _converted(self) -> ConversionCounts:
        return self._full or self._sample

    def inventory(self) -> Inventory:
        in_order = ((partition.id, name) for partition in self._partitions.values() for name in partition.databases)
        databases = [self._found[place] for place in in_order if place in self._found]
        is_complete = all(place in self._found for plan in self._databases for place in places_of(plan))
        return inventory_of(databases, self.tally, self._converted.old_sizes, is_complete=is_complete)

    def conversion(self, inventory: Inventory) -> SampleConversion:
        """The results of the conversion: of the sample, with counts over all records where all were read."""
        times = "" if self._times is None else self._times.in_words
        return conversion_results(self._sample, self._converted, inventory, self._options.seed, times)

    def _sample_database(self, plan: DatabasePlan, *, is_timed: bool) -> None:
        """Sample one new directory's sources; they are opened again if their owner changed files before the reading."""
        with self._failing(plan, self.tally), ExitStack() as stack:
            started = time.monotonic()
            records, chunks = with_retries(partial(self._survey, plan, stack), is_in_use=self._is_running)
            self._opening_seconds += time.monotonic() - started
            self.chunks += chunks
            sampled = replace(records)
            for mapping, number in product(plan.mappings, range(len(records.databases))):
                for family in records.families(number, mapping):
                    self._convert_sample(plan, mapping, sampled, number, family)
            self._read.append(plan)
            if is_timed:
                self.piece = self._time(plan, records, chunks[len(chunks) // 2].keys.start)
            check_segments(records.databases, plan, self._source)
            allowed = self._context.spec.conversion.allow
            check_sample(records.databases, plan, self._context.conversion, allowed, self._times_of(plan))

    def _read_all(self, deadline: float | None) -> None:
        """Convert all records. The results stay the sample's where that does not end by `deadline`."""
        scan, tally = FullScan(self._context.conversion), Tally(broken={*self.tally.broken})

        def count(read: int) -> None:
            if deadline is not None and time.monotonic() > deadline:
                raise _TakesTooLongError
            self._context.notify("dry-run.progressed", records=read)

        try:
            for plan in self._read:
                with self._failing(plan, tally), ExitStack() as stack:
                    records = with_retries(partial(self._open, plan, stack), is_in_use=self._is_running)
                    self._convert_all(scan, tally, plan, records, count)
        except _TakesTooLongError:
            self._add_missed(scan)
        else:
            self._full, self.tally = scan, tally

    def _add_missed(self, scan: FullScan) -> None:
        """Add what the sample missed, however far the scan came: one reject or dropped record can stop a run."""
        sample, tally = self._sample, self.tally
        if (rejected := scan.rejects.count - sample.rejects.count) > 0:
            sample.rejects = scan.rejects
        if (dropped := scan.left_out.dropped - sample.left_out.dropped) > 0:
            sample.left_out = scan.left_out
        sample.records += max(0, rejected) + max(0, dropped)
        tally.rejects = max(tally.rejects, scan.rejects.count)
        tally.dropped = max(tally.dropped, scan.left_out.dropped)

    @contextmanager
    def _failing(self, plan: DatabasePlan, tally: Tally) -> Iterator[None]:
        """Note a failure to read a new directory's sources; one of a check made afterwards leaves their numbers."""
        try:
            with system_errors_explained():
                yield
        except (MigrationError, FileNotFoundError) as error:
            if tally is not self.tally or plan not in self._read:
                tally.broken |= set(places_of(plan))
            self._fail(plan.store_partition, as_migration_error(error))

    @system_errors_explained()
    def _open(self, plan: DatabasePlan, stack: ExitStack) -> ChunkSource:
        stack.close()  # what an earlier attempt opened
        inputs = inputs_of(plan, self._source.directories(self._partitions[plan.store_partition]))
        openings = (open_read_only(Path(each), all_files=self._is_running) for each in inputs.directories)
        opened = [stack.enter_context(each) for each in openings]
        known = self._times_of(plan)
        return ChunkSource(inputs, self._context.conversion.source, opened, None if known is None else known.run)

    def _times_of(self, plan: DatabasePlan) -> KnownTimes | None:
        return None if self._times is None else self._times.of(plan.store_partition)

    @system_errors_explained()
    def _survey(self, plan: DatabasePlan, stack: ExitStack) -> tuple[ChunkSource, list[Chunk]]:
        """The open sources of a new directory, and its chunks; the inventory of each is kept."""
        records, partition = self._open(plan, stack), self._partitions[plan.store_partition]
        found = {
            place: database_inventory(self._source, partition, place[1], database, plan)
            for place, database in zip(places_of(plan), records.databases, strict=True)
            if place not in self._found
        }
        chunks = cut_database(plan, records.databases, int(self._context.spec.run.chunk_size))
        self._found |= found
        return records, chunks

    def _fail(self, partition: str, error: MigrationError) -> None:
        name = "source.records" if isinstance(error, RefusedError) else "source.read"
        check = failed(name, "records of every store partition can be read and converted", error)
        same = (each for each in self._failures if isinstance(error, RefusedError) and each.fix == check.fix)
        self._failures.setdefault(next(same, check), {})[partition] = None

    @property
    def failures(self) -> list[CheckReport]:
        """The checks that failed: one for each cause, with the store partitions in which it was found."""
        found = []
        for check, partitions in self._failures.items():
            detail = check.detail + so_in(partitions, len(self._partitions))
            found.append(check.model_copy(update={"detail": detail}))
        return found

    def _convert_sample(
        self, plan: DatabasePlan, mapping: FamilyMapping, records: ChunkSource, number: int, family: str
    ) -> None:
        """Read a column family's sample, convert it, and multiply its counts to all records of the family."""
        place, counts = places_of(plan)[number], self._sample
        found, share = self._found[place], self._sharing[plan.store_partition]
        size = SampleSize(max(1, self._options.sample // share), MOST_SAMPLE_BYTES // share, self._options.seed)
        run_bytes = max(1.0, found.record_bytes / share / max(1, size.records // RUN_LENGTH))
        run, database = self._times_of(plan), records.databases[number]
        on_columns = records.source.on_columns
        sample = read_sample(database, family, size, on_columns) if run is None else run.sample(database, family, size)
        times = None if run is None else run.column()
        rejected, expired, shadowed = counts.rejects.count, counts.expired, records.shadowed
        dropped = counts.left_out.dropped
        counts.begin(plan.store_partition, self._key_places.get(plan.store_partition))
        for batch in records.sampled(number, mapping, family, sample.batches):
            if plan.is_kept:
                weight = 1.0 if sample.is_whole else run_bytes / max(1, batch.size)
                counts.take(batch, mapping, times, weight=weight)
            else:
                counts.expired += len(batch)
        tally = self.tally
        tally.counted[place, family] += records.read[number, family]
        factor = 1.0
        if not sample.is_whole:
            tally.sampled.add((place, family))
            known = next(each.records for each in found.families if each.name == family)
            factor = max(1.0, known / max(1, records.seen[number, family]))
        tally.rejects += (counts.rejects.count - rejected) * factor
        tally.dropped += (counts.left_out.dropped - dropped) * factor
        tally.expired += (counts.expired - expired) * factor
        tally.shadowed += (records.shadowed - shadowed) * factor

    def _convert_all(
        self, scan: FullScan, tally: Tally, plan: DatabasePlan, records: ChunkSource, on_progress: Callable[[int], None]
    ) -> None:
        key_place = self._key_places.get(plan.store_partition)
        for mapping in plan.mappings:
            scan.take(records, plan, mapping, on_progress, key_place)
        tally.rejects, tally.expired, tally.dropped = scan.rejects.count, scan.expired, scan.left_out.dropped
        tally.shadowed += records.shadowed
        places = places_of(plan)
        for (number, family), count in records.read.items():
            tally.counted[places[number], family] += count

    def _time(self, plan: DatabasePlan, records: ChunkSource, start: bytes | None) -> MeasuredPiece | None:
        """Measure on the column family with the most records."""

        def records_of(mapping: FamilyMapping) -> int:
            there = [
                (each, family) for number, each in enumerate(opened) for family in records.families(number, mapping)
            ]
            return sum(database.estimated_records(family) for database, family in there)

        opened = records.databases
        mapping = max(plan.mappings, key=records_of)
        try:
            with system_errors_explained():
                attempts = (measure(records, mapping, begin, self._context.conversion) for begin in (start, None))
                return next(filter(None, attempts), None)
        except CorruptionError:
            raise
        except (RefusedError, ChunkFailedError):  # a full temporary directory, for example, does not stop a run
            return None


def _sampled_families(databases: tuple[DatabasePlan, ...]) -> Iterator[tuple[str, str, str]]:
    """(store partition, RocksDB directory, column family) of each family that may be read."""
    for plan in databases:
        for (partition, name), mapping in product(places_of(plan), plan.mappings):
            yield from ((partition, name, family) for family in (mapping.source, *mapping.older))
