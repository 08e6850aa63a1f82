"""Reading the old stores: what lies there, a sample of it tried, a piece of it timed, all of it where that is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from formats import Conversion
from migrate.checks import CheckReport, failed
from migrate.dry_run.finding import find_database
from migrate.dry_run.looking import FullLook
from migrate.dry_run.measuring import Measured, measure
from migrate.dry_run.report import DatabaseFound, FamilyFound
from migrate.dry_run.trial import Trial
from migrate.errors import MigrationError, RefusedError
from migrate.plan_model import Chunk, DatabasePlan, Lane
from migrate.planning import cut_database
from migrate.sampling import RUN_LENGTH, SampleSize, read_sample
from migrate.source import Source
from migrate.stores.rocksdb import Database, open_read_only
from migrate.trying import none_converted

MOST_SAMPLE_BYTES = 64 << 20
"""Of one store partition: huge values are sampled more thinly."""


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
    measured: Measured | None = None


def read(request: Request) -> Reading:
    """Every RocksDB directory, one after the other; what is wrong with one does not hide the others."""
    reading = Reading(Trial(request.conversion), FullLook(request.conversion) if request.is_full else None)
    largest = max(request.databases, key=lambda plan: plan.data_bytes, default=None)
    for plan, directory in _places(request):
        try:
            with open_read_only(directory, all_files=request.is_running) as database:
                _read_database(request, reading, plan, database, is_timed=plan is largest)
        except MigrationError as error:
            reading.failures.append(_unread(error))
    return reading


def _places(request: Request) -> Iterator[tuple[DatabasePlan, Path]]:
    partitions = {partition.id: partition for partition in request.source.partitions}
    for plan in request.databases:
        yield plan, request.source.directories(partitions[plan.store_partition])[plan.database]


def _read_database(
    request: Request, reading: Reading, plan: DatabasePlan, database: Database, *, is_timed: bool
) -> None:
    partition = next(each for each in request.source.partitions if each.id == plan.store_partition)
    found = find_database(request.source, partition, database, plan)
    chunks = cut_database(plan, database, request.chunk_size)
    reading.chunks += chunks
    counted = {lane.source: _try_sample(request, reading, plan, lane, database) for lane in plan.lanes}
    if is_timed:
        middle = chunks[len(chunks) // 2].keys.start
        reading.measured = measure(database, plan.lanes[0], middle, request.conversion)
    if reading.full is not None:
        for lane in plan.lanes:
            counted[lane.source] = reading.full.take(database, plan.store_partition, lane, request.on_progress)
    families = tuple(_counted(family, counted.get(family.name)) for family in found.families)
    reading.found.append(found.model_copy(update={"families": families}))


def _try_sample(request: Request, reading: Reading, plan: DatabasePlan, lane: Lane, database: Database) -> int | None:
    """How many records there are, where the sample was all of them."""
    share = len(plan.lanes) * sum(other.store_partition == plan.store_partition for other in request.databases)
    size = SampleSize(max(1, request.sample // share), MOST_SAMPLE_BYTES // share, request.seed)
    trial = reading.trial
    before, converted, rejected = trial.records, trial.converted + trial.dropped, trial.rejects.count
    is_whole = database.estimated_records(lane.source) <= size.records
    stands_for = plan.data_bytes / share / max(1, size.records // RUN_LENGTH)
    trial.begin(plan.store_partition)
    for batch in read_sample(database, lane.source, size):
        trial.take(batch, lane, weight=1.0 if is_whole else stands_for / max(1, batch.size))
    tried = trial.records - before
    if tried and trial.converted + trial.dropped == converted:
        rejected = trial.rejects.count - rejected
        reason = trial.rejects.first_of_partition
        reading.failures.append(_unread(none_converted(plan.store_partition, rejected, reason, request.conversion)))
    return tried if is_whole and tried < size.records else None


def _counted(family: FamilyFound, records: int | None) -> FamilyFound:
    if records is None:
        return family
    return family.model_copy(update={"records": records, "exact": True, "at_least": records, "at_most": records})


def _unread(error: MigrationError) -> CheckReport:
    name = "source.records" if isinstance(error, RefusedError) else "source.read"
    return failed(name, "records of every store partition can be read and converted", error)
