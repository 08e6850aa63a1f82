"""Reading the old stores: what lies there, a sample of it tried, a piece of it timed, all of it where that is asked."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from formats import Conversion
from migrate.checks import CheckReport, failed
from migrate.dry_run.costing import NOT_MEASURED, Measured, measure
from migrate.dry_run.finding import find_database
from migrate.dry_run.looking import FullLook
from migrate.dry_run.report import DatabaseFound
from migrate.dry_run.sampled import Sampled, Sampler
from migrate.dry_run.trial import Trial
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, RefusedError
from migrate.inputs import Records, inputs_of, open_inputs
from migrate.looking_again import explained, look_again
from migrate.plan_model import Chunk, DatabasePlan, Lane
from migrate.planning import check_sample, cut_database
from migrate.segment_keys import check_segments
from migrate.source import Source
from migrate.steps.context import Context
from migrate.stores.rocksdb import open_read_only
from migrate.system_errors import system_errors_explained

_Place = tuple[str, str]
"""A RocksDB directory of the source: its store partition and its name there."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to read, and how."""

    context: Context
    source: Source
    databases: tuple[DatabasePlan, ...]
    sample: int
    """Records of each store partition."""
    seed: int
    is_full: bool
    is_running: bool
    """The owner may remove files meanwhile."""

    @property
    def conversion(self) -> Conversion:
        """To be tried."""
        return self.context.conversion

    def notify_of(self, records: int) -> None:
        """So many more were read."""
        self.context.notify("dry-run.progressed", records=records)


@dataclass(slots=True)
class Reading:
    """What was read."""

    trial: Trial
    full: FullLook | None
    found: list[DatabaseFound] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    failures: list[CheckReport] = field(default_factory=list)
    unread: int = 0
    """RocksDB directories of which nothing is known."""
    shadowed: float = 0.0
    """Records of an unfinished upgrade that a newer one of the same key stands for."""
    expired: float = 0.0
    """Records older than the new store's retention."""
    rejects: float = 0.0
    """To be expected of all records: each column family's share counts by how many records it has; as the two above."""
    measured: Measured = NOT_MEASURED


def read(request: Request) -> Reading:
    """What each new RocksDB directory is made of, one after the other; what is wrong with one does not hide the others.

    An old directory that several new ones are made of is looked at once, and with `is_full` read for each of them.
    """
    reading = Reading(Trial(request.conversion), FullLook(request.conversion) if request.is_full else None)
    look = _Look(request, reading)
    kept = [plan for plan in request.databases if plan.is_kept]
    largest = max(kept, key=lambda plan: plan.data_bytes, default=None)
    for plan in request.databases:
        look.take(plan, is_timed=plan is largest)
    look.finish()
    return reading


class _Look:
    """One pass over all of them."""

    def __init__(self, request: Request, reading: Reading) -> None:
        self._request = request
        self._reading = reading
        self._partitions = {partition.id: partition for partition in request.source.partitions}
        self._sampler = Sampler(reading.trial, request.databases, request.sample, request.seed)
        self._found: dict[_Place, DatabaseFound] = {}
        self._counted: Counter[tuple[_Place, str]] = Counter()
        self._not_whole: set[tuple[_Place, str]] = set()
        """Column families of which a sample was read."""
        self._broken: set[_Place] = set()
        """What could not be read to its end."""
        self._is_read = False
        """The last one, to its end."""

    def take(self, plan: DatabasePlan, *, is_timed: bool) -> None:
        """Opened once more where its owner has changed its files before any record was read."""
        self._is_read = False
        try:
            with system_errors_explained(), ExitStack() as stack:
                records, chunks = look_again(lambda: self._open(plan, stack), is_in_use=self._request.is_running)
                self._read(plan, records, chunks, is_timed=is_timed)
        except (MigrationError, FileNotFoundError) as error:
            if not self._is_read:
                self._broken |= set(_places(plan))
            self._fail(explained(error))

    def finish(self) -> None:
        """What is known in the end of each RocksDB directory."""
        in_order = [
            (partition.id, database) for partition in self._partitions.values() for database in partition.databases
        ]
        self._reading.found = [
            self._with_counts(place, self._found[place]) for place in in_order if place in self._found
        ]
        everywhere = {place for plan in self._request.databases for place in _places(plan)}
        self._reading.unread = len(everywhere - {*self._found})

    def _fail(self, error: MigrationError) -> None:
        name = "source.records" if isinstance(error, RefusedError) else "source.read"
        check = failed(name, "records of every store partition can be read and converted", error)
        if check not in self._reading.failures:  # several new segments may be made of one old one
            self._reading.failures.append(check)

    @system_errors_explained()
    def _open(self, plan: DatabasePlan, stack: ExitStack) -> tuple[Records, list[Chunk]]:
        stack.close()  # of what was opened before
        request, partition = self._request, self._partitions[plan.store_partition]
        inputs = inputs_of(plan, request.source.directories(partition))
        opening = partial(open_read_only, all_files=request.is_running)
        records = stack.enter_context(open_inputs(inputs, request.conversion.source, opening))
        found = {
            place: find_database(request.source, partition, place[1], database, plan)
            for place, database in zip(_places(plan), records.databases, strict=True)
            if place not in self._found
        }
        chunks = cut_database(plan, records.databases, int(request.context.spec.run.chunk_size))
        self._found |= found
        return records, chunks

    def _read(self, plan: DatabasePlan, records: Records, chunks: list[Chunk], *, is_timed: bool) -> None:
        request = self._request
        self._reading.chunks += chunks
        self._sample(plan, replace(records))
        if self._reading.full is not None:
            self._read_all(self._reading.full, plan, replace(records))
        self._is_read = True
        if is_timed:
            self._reading.measured = self._time(plan, records, chunks[len(chunks) // 2].keys.start)
        check_segments(records.databases, plan, request.source)
        check_sample(records.databases, plan, request.conversion, request.context.spec.conversion.allow)

    def _sample(self, plan: DatabasePlan, records: Records) -> None:
        places = _places(plan)
        sizes = [self._found[place].record_bytes for place in places]
        for sampled in self._sampler.take(plan, records, sizes):
            if self._reading.full is None:
                self._count(places[sampled.number], sampled)

    def _count(self, place: _Place, sampled: Sampled) -> None:
        """A family's sample stands for all of its records."""
        family = sampled.family
        self._counted[place, family] += sampled.read
        if not sampled.is_whole:
            self._not_whole.add((place, family))
        known = next(each for each in self._found[place].families if each.name == family)
        times = 1.0 if sampled.is_whole else max(1.0, known.records / max(1, sampled.seen))
        self._reading.rejects += sampled.rejected * times
        self._reading.shadowed += sampled.shadowed * times
        self._reading.expired += sampled.expired * times

    def _read_all(self, full: FullLook, plan: DatabasePlan, records: Records) -> None:
        rejected, expired = full.rejects.count, full.expired
        for lane in plan.lanes:
            full.take(records, plan, lane, self._request.notify_of)
        self._reading.rejects += full.rejects.count - rejected
        self._reading.expired += full.expired - expired
        self._reading.shadowed += records.shadowed
        places = _places(plan)
        for (number, family), count in records.read.items():
            self._counted[places[number], family] += count

    def _with_counts(self, place: _Place, found: DatabaseFound) -> DatabaseFound:
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
                tried = (measure(records, lane, begin, self._request.conversion) for begin in (start, None))
                return next((measured for measured in tried if measured.records), NOT_MEASURED)
        except CorruptionError:
            raise
        except (RefusedError, ChunkFailedError):  # the temporary directory's trouble is none of a run's
            return NOT_MEASURED


def _places(plan: DatabasePlan) -> list[_Place]:
    return [(plan.store_partition, each.database) for each in plan.sources]
