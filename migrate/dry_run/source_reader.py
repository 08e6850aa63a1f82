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
from migrate.batch.preflight.retry import as_migration_error, with_retries
from migrate.batch.source.sampling import RUN_LENGTH, SampleSize, read_sample
from migrate.batch.source.source import Source
from migrate.dry_run.cost import NOT_MEASURED, Measured, measure
from migrate.dry_run.inventory import database_inventory
from migrate.dry_run.report import DatabaseInventory, Inventory, SampleConversion
from migrate.dry_run.sample_conversion import ConversionCounts, FullScan, SampleConverter
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, RefusedError, system_errors_explained
from migrate.model.plan import Chunk, DatabasePlan, FamilyMapping
from migrate.stores.rocksdb.database import open_read_only

MOST_SAMPLE_BYTES = 64 << 20
"""Bytes of one store partition's sample: of large values fewer are read."""
_Place = tuple[str, str]
"""A RocksDB directory of the source: its store partition and its name there."""
_Family = tuple[_Place, str]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the dry run, which do not change what a run would do."""

    sample: int
    """Records of each store partition."""
    seed: int
    is_full: bool
    slots: int | None


class SourceReader:
    """One pass over the RocksDB directories that the new ones are made of, with its results.

    A failure in one directory does not hide the others. An old directory that several new ones are made of is listed
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
        self.chunks: list[Chunk] = []
        self.failures: list[CheckReport] = []
        self.rejects = 0.0
        """Rejects among all records: of a sample, each column family's share is multiplied to its number of records."""
        self.measured = NOT_MEASURED
        self._shadowed = 0.0
        """Records of an unfinished upgrade whose keys were written again since, estimated as `rejects` are."""
        self._expired = 0.0
        """Records older than the new store's retention, estimated as `rejects` are."""
        self._sample = SampleConverter(context.conversion)
        self._full = FullScan(context.conversion) if options.is_full else None
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
        self._sampled: set[_Family] = set()
        """Column families of which not all records were read."""
        self._broken: set[_Place] = set()
        """RocksDB directories that could not be read to the end."""

    def read(self) -> SourceReader:
        """Read every directory, and time a piece of the largest one."""
        kept = [plan for plan in self._databases if plan.is_kept]
        largest = max(kept, key=lambda plan: plan.data_bytes, default=None)
        for plan in self._databases:
            self._read_database(plan, is_timed=plan is largest)
        return self

    @property
    def _counts(self) -> ConversionCounts:
        return self._full or self._sample

    def inventory(self) -> Inventory:
        """Totals over all store partitions."""
        in_order = ((partition.id, name) for partition in self._partitions.values() for name in partition.databases)
        databases = tuple(self._with_counts(place) for place in in_order if place in self._found)
        data = [family for database in databases for family in database.families if family.role == "records"]
        older = [family for database in databases for family in database.families if family.role == "older"]
        is_complete = all(place in self._found for plan in self._databases for place in _places(plan))
        exact = is_complete and all(family.exact for family in (*data, *older))
        shadowed, unfinished = round(self._shadowed), sum(family.records for family in older)
        sizes = self._counts.old_sizes
        return Inventory(
            databases=databases,
            store_partitions=len({database.store_partition for database in databases}),
            records=sum(family.records for family in data) + unfinished - shadowed,
            exact=exact,
            at_least=sum(family.at_least for family in data) + (unfinished - shadowed if exact else 0),
            at_most=sum(family.at_most for family in (*data, *older)) - (shadowed if exact else 0),
            unfinished=unfinished,
            shadowed=shadowed,
            expired=round(self._expired),
            size=sum(database.size for database in databases),
            record_bytes=sum(database.record_bytes for database in databases),
            key_sizes=sizes.keys.sizes(),
            value_sizes=sizes.values.sizes(),
        )

    def conversion(self, inventory: Inventory) -> SampleConversion:
        """The results of the conversion: of the sample, with counts over all records for `--full`."""
        sample, counts, conversion = self._sample, self._counts, self._context.conversion
        return SampleConversion(
            records=counts.records,
            is_full=inventory.exact and counts.records + counts.expired == inventory.records,
            seed=self._options.seed,
            store_partitions_read=len(sample.store_partitions),
            decoded=sample.decoded,
            sampled=sample.records,
            converted=counts.converted,
            rejected=counts.rejects.count,
            dropped=counts.dropped,
            expired=counts.expired,
            unchanged=counts.unchanged,
            rejects=counts.rejects.reasons,
            look_alikes=sample.format_hints(),
            examples=sample.examples,
            collisions=tuple(counts.order.collisions or sample.order.collisions),
            colliding_keys=max(counts.order.colliding, sample.order.colliding),
            out_of_order=counts.order.out_of_order or sample.order.out_of_order,
            losses=conversion.losses,
            losses_in_words=tuple(
                f"the {loss.removeprefix('loss:')} of every record: the new format has no room for it"
                for loss in conversion.losses
            ),
            both_paths=sample.both_paths,
            differences=tuple(sample.differences),
            program=None if conversion.program is None else str(conversion.program),
            key_sizes=counts.new_sizes.keys.sizes(),
            value_sizes=counts.new_sizes.values.sizes(),
        )

    def _read_database(self, plan: DatabasePlan, *, is_timed: bool) -> None:
        """Read one new directory's sources; they are opened again if their owner changed files before the reading."""
        is_read = False
        try:
            with system_errors_explained(), ExitStack() as stack:
                records, chunks = with_retries(lambda: self._open(plan, stack), is_in_use=self._is_running)
                self.chunks += chunks
                self._read_records(plan, records)
                is_read = True
                if is_timed:
                    self.measured = self._time(plan, records, chunks[len(chunks) // 2].keys.start)
                check_segments(records.databases, plan, self._source)
                allowed = self._context.spec.conversion.allow
                check_sample(records.databases, plan, self._context.conversion, allowed)
        except (MigrationError, FileNotFoundError) as error:
            if not is_read:
                self._broken |= set(_places(plan))
            self._fail(as_migration_error(error))

    @system_errors_explained()
    def _open(self, plan: DatabasePlan, stack: ExitStack) -> tuple[Records, list[Chunk]]:
        stack.close()  # what an earlier attempt opened
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

    def _read_records(self, plan: DatabasePlan, records: Records) -> None:
        sampled = replace(records)
        for mapping, number in product(plan.mappings, range(len(records.databases))):
            for family in records.families(number, mapping):
                self._convert_sample(plan, mapping, sampled, number, family)
        if self._full is not None:
            self._convert_all(self._full, plan, replace(records))

    def _convert_sample(
        self, plan: DatabasePlan, mapping: FamilyMapping, records: Records, number: int, family: str
    ) -> None:
        """Read a column family's sample, convert it, and multiply its counts to all records of the family."""
        place, counts = _places(plan)[number], self._sample
        found, share = self._found[place], self._sharing[plan.store_partition]
        size = SampleSize(max(1, self._options.sample // share), MOST_SAMPLE_BYTES // share, self._options.seed)
        run_bytes = max(1.0, found.record_bytes / share / max(1, size.records // RUN_LENGTH))
        sample = read_sample(records.databases[number], family, size)
        rejected, expired, shadowed = counts.rejects.count, counts.expired, records.shadowed
        counts.begin(plan.store_partition)
        for batch in records.sampled(number, mapping, family, sample.batches):
            if plan.is_kept:
                counts.take(batch, mapping, weight=1.0 if sample.is_whole else run_bytes / max(1, batch.size))
            else:
                counts.expired += len(batch)
        if self._full is not None:
            return
        self._counted[place, family] += records.read[number, family]
        factor = 1.0
        if not sample.is_whole:
            self._sampled.add((place, family))
            known = next(each.records for each in found.families if each.name == family)
            factor = max(1.0, known / max(1, records.seen[number, family]))
        self.rejects += (counts.rejects.count - rejected) * factor
        self._expired += (counts.expired - expired) * factor
        self._shadowed += (records.shadowed - shadowed) * factor

    def _convert_all(self, full: FullScan, plan: DatabasePlan, records: Records) -> None:
        for mapping in plan.mappings:
            full.take(records, plan, mapping, lambda read: self._context.notify("dry-run.progressed", records=read))
        self.rejects, self._expired = full.rejects.count, full.expired
        self._shadowed += records.shadowed
        places = _places(plan)
        for (number, family), count in records.read.items():
            self._counted[places[number], family] += count

    def _with_counts(self, place: _Place) -> DatabaseInventory:
        found = self._found[place]
        families = tuple(
            family.with_count(
                self._counted[place, family.name],
                is_all=place not in self._broken and (place, family.name) not in self._sampled,
            )
            if family.role in ("records", "older")
            else family
            for family in found.families
        )
        return found.model_copy(update={"families": families})

    def _time(self, plan: DatabasePlan, records: Records, start: bytes | None) -> Measured:
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
                return next((measured for measured in attempts if measured.records), NOT_MEASURED)
        except CorruptionError:
            raise
        except (RefusedError, ChunkFailedError):  # a full temporary directory, for example, does not stop a run
            return NOT_MEASURED


def _places(plan: DatabasePlan) -> list[_Place]:
    return [(plan.store_partition, each.database) for each in plan.sources]


def _sampled_families(databases: tuple[DatabasePlan, ...]) -> Iterator[tuple[str, str, str]]:
    """(store partition, RocksDB directory, column family) of each family that may be read."""
    for plan in databases:
        for (partition, name), mapping in product(_places(plan), plan.mappings):
            yield from ((partition, name, family) for family in (mapping.source, *mapping.older))
