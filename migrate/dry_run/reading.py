"""Reading the old stores: what lies there, a sample of it tried, a piece of it timed, all of it where that is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from formats import Conversion
from migrate.checks import CheckReport, failed
from migrate.dry_run.finding import find_database
from migrate.dry_run.looking import FullLook
from migrate.dry_run.measuring import Measured, measure
from migrate.dry_run.report import DatabaseFound
from migrate.dry_run.sampled import FamilyPlace, Sampled, Sampler
from migrate.dry_run.trial import Trial
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, RefusedError
from migrate.inputs import Records, inputs_of
from migrate.looking_again import LOOKS, explained
from migrate.plan_model import Chunk, DatabasePlan, Lane
from migrate.planning import check_sample, cut_database
from migrate.segment_keys import check_segments
from migrate.source import Source
from migrate.stores.rocksdb import Database, open_read_only
from migrate.system_errors import system_errors_explained

_Place = tuple[str, str]
"""A RocksDB directory of the source: its store partition and its name there."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to read."""

    source: Source
    conversion: Conversion
    databases: tuple[DatabasePlan, ...]
    chunk_size: int
    sample: int
    """Records of each store partition."""
    seed: int
    allowed: tuple[str, ...]
    """By the spec's name for each."""
    is_full: bool
    is_running: bool
    """The owner may remove files meanwhile."""
    on_progress: Callable[[int], None]


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
    measured: Measured | None = None


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
        self._begun = 0
        self._is_read = False
        """The last one, to its end."""

    def take(self, plan: DatabasePlan, *, is_timed: bool) -> None:
        """Once more where its owner has changed its files before any record was read."""
        is_running = self._request.is_running
        known = self._begun
        self._is_read = False
        for left in reversed(range(LOOKS if is_running else 1)):
            try:
                with system_errors_explained(), ExitStack() as stack:
                    directories = self._directories(plan)
                    opened = [stack.enter_context(open_read_only(each, all_files=is_running)) for each in directories]
                    self._read(plan, opened, is_timed=is_timed)
                    return
            except (MigrationError, FileNotFoundError) as error:
                if not left or self._begun > known:
                    if not self._is_read:
                        self._broken |= set(_places(plan))
                    self._fail(explained(error))
                    return

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

    def _directories(self, plan: DatabasePlan) -> list[Path]:
        directories = self._request.source.directories(self._partitions[plan.store_partition])
        return [directories[each.database] for each in plan.sources]

    def _fail(self, error: MigrationError) -> None:
        name = "source.records" if isinstance(error, RefusedError) else "source.read"
        check = failed(name, "records of every store partition can be read and converted", error)
        if check not in self._reading.failures:  # several new segments may be made of one old one
            self._reading.failures.append(check)

    def _read(self, plan: DatabasePlan, opened: list[Database], *, is_timed: bool) -> None:
        request, partition = self._request, self._partitions[plan.store_partition]
        new = [(place, each) for place, each in zip(_places(plan), opened, strict=True) if place not in self._found]
        found = {place: find_database(request.source, partition, place[1], each, plan) for place, each in new}
        chunks = cut_database(plan, opened, request.chunk_size)
        self._begun += 1
        self._found |= found
        self._reading.chunks += chunks
        for place, database in new:
            self._sample(plan, place, database)
        if self._reading.full is not None:
            self._read_all(self._reading.full, plan, opened)
        self._is_read = True
        if is_timed:
            middle = chunks[len(chunks) // 2].keys.start
            self._reading.measured = self._time(plan, opened, middle)
        check_segments(opened, plan, request.source)
        check_sample(opened, plan, request.conversion, request.allowed)

    def _sample(self, plan: DatabasePlan, place: _Place, database: Database) -> None:
        for lane in plan.lanes:
            for family in [name for name in (lane.source, *lane.older) if name in database.families]:
                sampled = self._sampler.take(
                    FamilyPlace(*place, database, lane, family), self._found[place].record_bytes
                )
                if self._reading.full is None:
                    self._count(place, family, sampled)

    def _count(self, place: _Place, family: str, sampled: Sampled) -> None:
        """A family's sample stands for all of its records."""
        self._counted[place, family] += sampled.read
        if not sampled.is_whole:
            self._not_whole.add((place, family))
        if not sampled.read:
            return
        known = next(each for each in self._found[place].families if each.name == family)
        times = 1.0 if sampled.is_whole else max(sampled.read, known.records) / sampled.read
        self._reading.rejects += sampled.rejected * times
        self._reading.shadowed += sampled.shadowed * times
        self._reading.expired += sampled.expired * times

    def _read_all(self, full: FullLook, plan: DatabasePlan, opened: list[Database]) -> None:
        records = self._records(plan, opened)
        rejected, expired = full.rejects.count, full.expired
        for lane in plan.lanes:
            full.take(records, plan, lane, self._request.on_progress)
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

    def _records(self, plan: DatabasePlan, opened: list[Database]) -> Records:
        directories = dict(zip((each.database for each in plan.sources), self._directories(plan), strict=True))
        return Records(inputs_of(plan, directories), self._request.conversion.source, opened)

    def _time(self, plan: DatabasePlan, opened: list[Database], start: bytes | None) -> Measured | None:
        """Of the column family with the most records."""

        def records_of(lane: Lane) -> int:
            there = [(each, family) for each in opened for family in (lane.source, *lane.older)]
            return sum(each.estimated_records(family) for each, family in there if family in each.families)

        lane = max(plan.lanes, key=records_of)
        try:
            with system_errors_explained():
                for begin in (start, None):
                    measured = measure(self._records(plan, opened), lane, begin, self._request.conversion)
                    if measured is not None:
                        return measured
        except CorruptionError:
            raise
        except (RefusedError, ChunkFailedError):  # the temporary directory's trouble is none of a run's
            return None
        return None


def _places(plan: DatabasePlan) -> list[_Place]:
    return [(plan.store_partition, each.database) for each in plan.sources]
