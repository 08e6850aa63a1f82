"""Reading the old stores: what lies there, a sample of it tried, a piece of it timed, all of it where that is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from formats import Conversion
from migrate.checks import CheckReport, failed
from migrate.dry_run.finding import find_database
from migrate.dry_run.looking import FullLook
from migrate.dry_run.measuring import Measured, measure
from migrate.dry_run.report import DatabaseFound
from migrate.dry_run.trial import Trial
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, RefusedError
from migrate.looking_again import LOOKS, explained
from migrate.plan_model import Chunk, DatabasePlan, Lane
from migrate.planning import check_sample, cut_database
from migrate.sampling import RUN_LENGTH, SampleSize, read_sample
from migrate.source import Source
from migrate.store_partition import StorePartition
from migrate.stores.rocksdb import Database, open_read_only
from migrate.system_errors import system_errors_explained

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
    rejects: float = 0.0
    """To be expected of all records: each column family's share counts by how many records it has."""
    measured: Measured | None = None


def read(request: Request) -> Reading:
    """Every RocksDB directory, one after the other; what is wrong with one does not hide the others."""
    reading = Reading(Trial(request.conversion), FullLook(request.conversion) if request.is_full else None)
    places = list(_places(request))
    largest = max(places, key=lambda place: place.plan.data_bytes, default=None)
    for place in places:
        _read_place(request, reading, place, is_timed=place is largest)
    return reading


@dataclass(frozen=True, slots=True)
class _Place:
    """One RocksDB directory."""

    plan: DatabasePlan
    partition: StorePartition
    directory: Path
    share: int
    """So many column families share the sample of their store partition."""


def _places(request: Request) -> Iterator[_Place]:
    partitions = {partition.id: partition for partition in request.source.partitions}
    families: Counter[str] = Counter()
    for plan in request.databases:
        families[plan.store_partition] += len(plan.lanes)
    seen: set[Path] = set()
    for plan in request.databases:
        partition = partitions[plan.store_partition]
        for each in plan.sources:
            directory = request.source.directories(partition)[each.database]
            if directory not in seen:  # new segments may share an old one
                seen.add(directory)
                as_it_is = plan.model_copy(update={"database": each.database, "inputs": (), "times": None})
                yield _Place(as_it_is, partition, directory, families[plan.store_partition])


def _read_place(request: Request, reading: Reading, place: _Place, *, is_timed: bool) -> None:
    """Once more where its owner has changed its files before any record was read."""
    known = len(reading.found)
    for left in reversed(range(LOOKS if request.is_running else 1)):
        try:
            with system_errors_explained(), open_read_only(place.directory, all_files=request.is_running) as database:
                _read_database(request, reading, place, database, is_timed=is_timed)
                return
        except (MigrationError, FileNotFoundError) as error:
            if not left or len(reading.found) > known:
                reading.unread += len(reading.found) == known
                reading.failures.append(_unread(explained(error)))
                return


def _read_database(request: Request, reading: Reading, place: _Place, database: Database, *, is_timed: bool) -> None:
    plan = place.plan
    found = find_database(request.source, place.partition, database, plan)
    chunks = cut_database(plan, [database], request.chunk_size)
    reading.chunks += chunks
    reading.found.append(found)
    for lane in plan.lanes:
        reading.found[-1] = _read_family(request, reading, place, lane, database)
    if is_timed:
        middle = chunks[len(chunks) // 2].keys.start
        reading.measured = _time(database, plan.lanes, middle, request.conversion)
    check_sample([database], plan, request.conversion, request.allowed)


def _read_family(request: Request, reading: Reading, place: _Place, lane: Lane, database: Database) -> DatabaseFound:
    """What is known of the RocksDB directory by now."""
    found = reading.found[-1]
    records, is_all = _try_sample(request, reading, place, lane, database)
    if reading.full is not None:
        rejected = reading.full.rejects.count
        records, is_all = reading.full.take(database, place.plan.store_partition, lane, request.on_progress), True
        reading.rejects += reading.full.rejects.count - rejected
    families = tuple(
        family.read(records, is_all=is_all) if family.name == lane.source else family for family in found.families
    )
    return found.model_copy(update={"families": families})


def _time(database: Database, lanes: tuple[Lane, ...], start: bytes | None, conversion: Conversion) -> Measured | None:
    """Of the column family with the most records."""
    lane = max(lanes, key=lambda lane: database.estimated_records(lane.source))
    try:
        with system_errors_explained():
            return measure(database, lane, start, conversion) or measure(database, lane, None, conversion)
    except CorruptionError:
        raise
    except (RefusedError, ChunkFailedError):  # the temporary directory's trouble is none of a run's
        return None


def _try_sample(request: Request, reading: Reading, place: _Place, lane: Lane, database: Database) -> tuple[int, bool]:
    """How many records were tried, and whether these were all of them."""
    size = SampleSize(max(1, request.sample // place.share), MOST_SAMPLE_BYTES // place.share, request.seed)
    trial = reading.trial
    before, rejected = trial.records, trial.rejects.count
    sample = read_sample(database, lane.source, size)
    stands_for = max(1.0, place.plan.data_bytes / place.share / max(1, size.records // RUN_LENGTH))
    trial.begin(place.plan.store_partition)
    for batch in sample.batches:
        trial.take(batch, lane, weight=1.0 if sample.is_whole else stands_for / max(1, batch.size))
    tried = trial.records - before
    if reading.full is None and tried:
        family = next(family for family in reading.found[-1].families if family.name == lane.source)
        records = tried if sample.is_whole else max(tried, family.records)
        reading.rejects += (trial.rejects.count - rejected) * records / tried
    return tried, sample.is_whole


def _unread(error: MigrationError) -> CheckReport:
    name = "source.records" if isinstance(error, RefusedError) else "source.read"
    return failed(name, "records of every store partition can be read and converted", error)
