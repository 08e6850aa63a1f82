"""A sample of each column family, tried as a run would: what is upgraded first, and what it would leave behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress

from migrate.dry_run.trial import Trial
from migrate.inputs import segment_times, upgraded
from migrate.plan_model import DatabasePlan, Lane, TimeSlice
from migrate.sampling import RUN_LENGTH, SampleSize, read_sample
from migrate.stores.batch import Batch
from migrate.stores.rocksdb import Database

MOST_SAMPLE_BYTES = 64 << 20
"""Of one store partition: huge values are sampled more thinly."""


@dataclass(slots=True)
class Sampled:
    """Of one column family."""

    read: int = 0
    is_whole: bool = False
    """These were all."""
    rejected: int = 0
    expired: int = 0
    """Older than the new store's retention."""
    shadowed: int = 0
    """Left by an unfinished upgrade under a key that was written since."""


@dataclass(frozen=True, slots=True)
class FamilyPlace:
    """One column family of a RocksDB directory of the source."""

    store_partition: str
    name: str
    """Of the directory."""
    database: Database
    lane: Lane
    family: str

    @property
    def newer(self) -> tuple[str, ...]:
        """The families there whose records count before this one's."""
        order = [name for name in (self.lane.source, *self.lane.older) if name in self.database.families]
        return tuple(order[: order.index(self.family)])


class Sampler:
    """Tries samples; the families of a store partition share its sample."""

    def __init__(self, trial: Trial, plans: Iterable[DatabasePlan], records: int, seed: int) -> None:
        self._trial = trial
        self._records = records
        self._seed = seed
        self._sharing: Counter[str] = Counter()
        self._times: dict[tuple[str, str], TimeSlice | None] = {}
        self._kept_from: dict[str, int] = {}
        for plan in plans:
            for each in plan.sources:
                place = (plan.store_partition, each.database)
                if place not in self._times:  # new segments may share an old one
                    self._times[place] = each.times
                    self._sharing[plan.store_partition] += sum(1 + len(lane.older) for lane in plan.lanes)
            if plan.times is not None and not plan.is_kept:
                self._kept_from[plan.store_partition] = plan.times.end_ms

    def take(self, place: FamilyPlace, record_bytes: int) -> Sampled:
        """`record_bytes`: of the whole RocksDB directory. Raises CorruptionError, ChunkFailedError, RefusedError."""
        trial, share = self._trial, self._sharing[place.store_partition]
        size = SampleSize(max(1, self._records // share), MOST_SAMPLE_BYTES // share, self._seed)
        sample = read_sample(place.database, place.family, size)
        stands_for = max(1.0, record_bytes / share / max(1, size.records // RUN_LENGTH))
        sampled = Sampled(is_whole=sample.is_whole)
        rejected = trial.rejects.count
        trial.begin(place.store_partition)
        batches = sample.batches
        if place.newer:
            batches = upgraded(batches, trial.conversion.source, place.family)
        for batch in batches:
            sampled.read += len(batch)
            left = self._left(batch, place, sampled)
            if left.keys:
                trial.take(left, place.lane, weight=1.0 if sample.is_whole else stands_for / max(1, batch.size))
        sampled.rejected = trial.rejects.count - rejected
        trial.expired += sampled.expired
        return sampled

    def _left(self, batch: Batch, place: FamilyPlace, sampled: Sampled) -> Batch:
        """What a run would convert of it."""
        own, kept_from = self._times[place.store_partition, place.name], self._kept_from.get(place.store_partition)
        is_left = [all(place.database.get(name, key) is None for name in place.newer) for key in batch.keys]
        sampled.shadowed += is_left.count(False)
        if own is not None:
            times = segment_times(batch, self._trial.conversion.source, own, place.database)
            is_kept = (times >= kept_from).tolist() if kept_from is not None else [True] * len(batch)
            sampled.expired += sum(left and not kept for left, kept in zip(is_left, is_kept, strict=True))
            is_left = [left and kept for left, kept in zip(is_left, is_kept, strict=True)]
        if all(is_left):
            return batch
        return Batch(list(compress(batch.keys, is_left)), list(compress(batch.values, is_left)))
