"""Read the old stores: inventory, sample conversion, a timed piece, and all records where that is quick or wanted.

The inventory of a RocksDB directory: column families, bounds of their record counts, files, changelog offsets.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path

from migrate.batch.changelog.take_key_times import SampledTimes
from migrate.batch.context import Context
from migrate.batch.plan.make_plan import cut_database
from migrate.batch.plan.planned_databases import record_bytes
from migrate.batch.plan.sample import KnownTimes, check_sample, check_segments, so_in
from migrate.batch.preflight.check import CheckReport, as_migration_error, failed, with_retries
from migrate.batch.source.sampling import RUN_LENGTH, SampleSize, read_sample
from migrate.batch.source.source import Source
from migrate.dry_run.dry_run_report import (
    ChangelogPosition,
    DatabaseInventory,
    FamilyInventory,
    Inventory,
    Role,
    SampleConversion,
)
from migrate.dry_run.estimate import MeasuredPiece, measure
from migrate.dry_run.sample_conversion import (
    ConversionCounts,
    FullScan,
    RecordSizes,
    SampleConverter,
    conversion_results,
)
from migrate.engine.chunk_source import ChunkSource, inputs_of
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, RefusedError, system_errors_explained
from migrate.model.plan import Chunk, DatabasePlan, FamilyMapping, KeyPlace
from migrate.model.store_partition import StorePartition
from migrate.stores.batch import Batch
from migrate.stores.files import present
from migrate.stores.rocksdb.database import Database, LiveFile, open_read_only
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.options_file import newest_options
from migrate.stores.rocksdb.sst import SstFormatError, TableProperties, table_properties

MOST_SAMPLE_BYTES = 64 << 20
"""Bytes of one store partition's sample: of large values fewer are read."""
ALL_SECONDS = 10.0
"""All records are converted where that takes no longer than this, by the speed that was measured."""
_PATIENCE = 2.0
"""How much longer it may take than estimated: then the results of the sample are reported."""
_MOST_METADATA = 16
_Table = tuple[LiveFile, TableProperties]
"""An SST file and its properties."""
Place = tuple[str, str]
"""A RocksDB directory of the source: its store partition and its name there."""


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
    `key_places`: of the store partitions whose new keys are checked. `is_sorted`: whether a run sorts the new keys.
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
        is_sorted: bool,
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
        self._is_sorted = is_sorted
        self._databases = databases
        self._partitions = {partition.id: partition for partition in source.partitions}
        self._options = options
        kept_as_they_are = {each.name for each in context.spec.source.moved_stores}
        self._unconverted = {each.id for each in source.partitions if each.store in kept_as_they_are}
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
        kept = [plan for plan in self._databases if plan.is_kept and plan.store_partition not in self._unconverted]
        largest = max(kept, key=lambda plan: plan.data_bytes, default=None)
        for plan in self._databases:
            self._sample_database(plan, is_timed=plan is largest)
        may_read_all = not self._options.is_sample and (self._times is None or self._times.are_whole)
        if self._options.is_full:
            self._read_all(deadline=None)
        elif may_read_all and self.tally.sampled and self._seconds_for_all() < ALL_SECONDS:
            self._read_all(deadline=time.monotonic() + _PATIENCE * ALL_SECONDS)
        return self

    @property
    def logged_times(self) -> list[tuple[int, float]]:
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

    @cached_property
    def found(self) -> Inventory:
        in_order = ((partition.id, name) for partition in self._partitions.values() for name in partition.databases)
        databases = [self._found[place] for place in in_order if place in self._found]
        self.tally.broken |= {place for place in self._found if place[0] in self._unconverted}  # nothing was read there
        is_complete = all(place in self._found for plan in self._databases for place in places_of(plan))
        return inventory_of(databases, self.tally, self._converted.old_sizes, is_complete=is_complete)

    @cached_property
    def tried(self) -> SampleConversion:
        """The results of the conversion: of the sample, with counts over all records where all were read."""
        times = "" if self._times is None else self._times.in_words
        return conversion_results(self._sample, self._converted, self.found, self._options.seed, times)

    def _sample_database(self, plan: DatabasePlan, *, is_timed: bool) -> None:
        """Sample one new directory's sources; they are opened again if their owner changed files before the reading."""
        with self._failing(plan, self.tally), ExitStack() as stack:
            started = time.monotonic()
            records, chunks = with_retries(partial(self._survey, plan, stack), is_in_use=self._is_running)
            self._opening_seconds += time.monotonic() - started
            self.chunks += chunks
            if plan.store_partition in self._unconverted:  # a run samples it, too
                return
            sampled = replace(records)
            for mapping, number in product(plan.mappings, range(len(records.databases))):
                for family in records.families(number, mapping):
                    self._convert_sample(plan, mapping, sampled, number, family)
            self._read.append(plan)
            if is_timed:
                self.piece = self._time(plan, records, chunks[len(chunks) // 2].keys.start)
            check_segments(records.databases, plan, self._source, self._source.format)
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
            there = ((each, name) for number, each in enumerate(opened) for name in records.families(number, mapping))
            return sum(database.estimated_records(family) for database, family in there)

        opened = records.databases
        mapping = max(plan.mappings, key=records_of)
        try:
            with system_errors_explained():
                how = (self._context.conversion, self._is_sorted)
                attempts = (measure(records, mapping, begin, *how) for begin in (start, None))
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


@dataclass(slots=True)
class Tally:
    """The numbers of one reading of the old stores. Of a sample, each share is multiplied to all records."""

    rejects: float = 0.0
    dropped: float = 0.0
    shadowed: float = 0.0
    """Records of an unfinished upgrade whose keys were written again since."""
    expired: float = 0.0
    """Records older than the new store's retention."""
    counted: Counter[tuple[Place, str]] = field(default_factory=Counter)
    """Records that were read, by column family."""
    sampled: set[tuple[Place, str]] = field(default_factory=set)
    """Column families of which not all records were read."""
    broken: set[Place] = field(default_factory=set)
    """RocksDB directories that could not be read to the end."""

    def added_to(self, found: DatabaseInventory) -> DatabaseInventory:
        place = (found.store_partition, found.database)
        families = tuple(
            family.with_count(
                self.counted[place, family.name],
                is_all=place not in self.broken and (place, family.name) not in self.sampled,
            )
            if family.role in ("records", "older")
            else family
            for family in found.families
        )
        return found.model_copy(update={"families": families})


def places_of(plan: DatabasePlan) -> list[Place]:
    """The RocksDB directories that a new one is made of."""
    return [(plan.store_partition, each.database) for each in plan.sources]


def inventory_of(
    found: Sequence[DatabaseInventory], tally: Tally, sizes: RecordSizes, *, is_complete: bool
) -> Inventory:
    """Totals over all store partitions; `is_complete`: no RocksDB directory is missing in `found`."""
    databases = tuple(map(tally.added_to, found))
    data = [family for database in databases for family in database.families if family.role == "records"]
    older = [family for database in databases for family in database.families if family.role == "older"]
    exact = is_complete and all(family.exact for family in (*data, *older))
    shadowed, unfinished = round(tally.shadowed), sum(family.records for family in older)
    return Inventory(
        databases=databases,
        store_partitions=len({database.store_partition for database in databases}),
        records=sum(family.records for family in data) + unfinished - shadowed,
        exact=exact,
        at_least=sum(family.at_least for family in data) + (unfinished - shadowed if exact else 0),
        at_most=sum(family.at_most for family in (*data, *older)) - (shadowed if exact else 0),
        unfinished=unfinished,
        shadowed=shadowed,
        expired=round(tally.expired),
        size=sum(database.size for database in databases),
        record_bytes=sum(database.record_bytes for database in databases),
        key_sizes=sizes.keys.sizes(),
        value_sizes=sizes.values.sizes(),
    )


def _tables(directory: Path, files: Iterable[LiveFile]) -> Iterator[_Table]:
    """Every file whose properties can be read; a scan reports what is wrong with the others."""
    for file in files:
        with suppress(SstFormatError, FileNotFoundError):
            yield file, table_properties(directory / file.name)


def database_inventory(
    source: Source, partition: StorePartition, name: str, database: Database, plan: DatabasePlan
) -> DatabaseInventory:
    """What is known of a RocksDB directory without reading its records; `plan`: of a new directory made of it."""
    directory = database.directory
    tables = {family: [*_tables(directory, database.files_of(family))] for family in database.families}
    properties = [each for of_family in tables.values() for _, each in of_family]
    files = present(database_files(directory).every)
    return DatabaseInventory(
        store_partition=plan.store_partition,
        database=name,
        path=directory,
        families=tuple(_family_inventory(source, database, family, tables[family], plan) for family in tables),
        size=sum(status.st_size for status in files.values()),
        record_bytes=record_bytes(database.directory, database.content()),
        sst_files=len(database.live_files),
        wal_bytes=sum(status.st_size for path, status in files.items() if path.suffix == ".log"),
        table_formats=tuple(sorted({each.format_version for each in properties})),
        compressions=tuple(sorted({each.compression for each in properties})),
        rocksdb_version=newest_options(directory).rocksdb_version,
        owner=source.system.discovery.owner_version(directory),
        newest_file_ms=max((status.st_mtime_ns // 1_000_000 for status in files.values()), default=None),
        positions=tuple(_positions(source, partition, database)),
    )


def _family_inventory(
    source: Source, database: Database, family: str, tables: list[_Table], plan: DatabasePlan
) -> FamilyInventory:
    at_least, at_most = _bounds(database, family, tables)
    estimate = min(max(database.estimated_records(family), at_least), at_most)
    is_metadata = family in source.format.metadata_families
    first = database.sample(family, None, _MOST_METADATA) if is_metadata else Batch([], [])
    return FamilyInventory(
        name=family,
        role=_role(family, plan, is_metadata=is_metadata),
        records=estimate,
        exact=at_most == 0,
        at_least=at_least,
        at_most=at_most,
        entries=tuple(map(source.system.offsets.describe, first.keys, first.values)),
    )


def _role(family: str, plan: DatabasePlan, *, is_metadata: bool) -> Role:
    if is_metadata:
        return "metadata"
    if any(family in mapping.older for mapping in plan.mappings):
        return "older"
    return "records" if any(family == mapping.source for mapping in plan.mappings) else "other"


def _bounds(database: Database, family: str, tables: list[_Table]) -> tuple[int, int]:
    """(at least, at most) number of records, computed without a scan.

    Within a sorted run (a level, or a file of level 0) each key occurs once; elsewhere, also in the log, it may repeat.
    """
    entries, deletions = database.unflushed_entries(family)
    runs: defaultdict[object, list[int]] = defaultdict(lambda: [0, 0])
    for file, table in tables:
        run = runs[file.level or file.name]
        run[0] += table.entries - table.deletions
        run[1] += table.deletions
    at_most = entries - deletions + sum(puts for puts, _ in runs.values())
    all_deletions = deletions + sum(deleted for _, deleted in runs.values())
    surely = max((puts - (all_deletions - deleted) for puts, deleted in runs.values()), default=0)
    # RocksDB does not count the deletions of ranges among the log's entries.
    if entries > deletions or any(table.range_deletions for _, table in tables):
        surely = 0
    if len(tables) < len(database.files_of(family)):  # one cannot be read here, or its owner has removed it
        surely, at_most = 0, entries - deletions + database.table_puts(family)
    return max(0, min(surely, at_most)), at_most


def _positions(source: Source, partition: StorePartition, database: Database) -> Iterator[ChangelogPosition]:
    offsets, families = source.system.offsets, source.format.metadata_families
    where = next(map(str, offsets.side_files(partition)), "the store")
    found = [(line, where) for line in offsets.read(source.path, partition).lines]
    inside = (
        "the store" if source.format.position_keys else " and ".join(f"column family {each!r}" for each in families)
    )
    found += [(line, inside) for line in offsets.within(source.application, partition, [database.directory]).lines]
    for (topic, number, offset), where in found:
        stated, position = None if offset < 0 else offset, source.system.offsets.next_record(offset)
        yield ChangelogPosition(topic=topic, partition=number, offset=stated, position=position, where=where)
