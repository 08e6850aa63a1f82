"""A sample of each column family, read as a run would read it, and tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from migrate.dry_run.trial import Trial
from migrate.inputs import Records
from migrate.plan_model import DatabasePlan, Lane
from migrate.sampling import RUN_LENGTH, SampleSize, read_sample

MOST_SAMPLE_BYTES = 64 << 20
"""Of one store partition: huge values are sampled more thinly."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was read of one column family for one new RocksDB directory."""

    number: int
    """Of the RocksDB directory among the inputs."""
    family: str
    is_whole: bool
    """Every record of the family is in the sample."""
    seen: int
    """Records of the sample."""
    read: int
    """Of them, those of the new directory's times."""
    rejected: int
    expired: int
    """Older than the new store's retention."""
    shadowed: int
    """Left by an unfinished upgrade under a key that was written since."""


class Sampler:
    """Tries samples; the families of a store partition share its sample."""

    def __init__(self, trial: Trial, plans: Iterable[DatabasePlan], records: int, seed: int) -> None:
        self._trial = trial
        self._records = records
        self._seed = seed
        self._sharing: Counter[str] = Counter()
        places: set[tuple[str, str]] = set()
        for plan in plans:
            mine = {(plan.store_partition, each.database) for each in plan.sources} - places
            places |= mine  # new segments may share an old one
            self._sharing[plan.store_partition] += len(mine) * sum(1 + len(lane.older) for lane in plan.lanes)

    def take(self, plan: DatabasePlan, records: Records, record_bytes: Sequence[int]) -> Iterator[Sampled]:
        """`record_bytes`: of each RocksDB directory. Raises CorruptionError, ChunkFailedError, RefusedError."""
        for lane, (number, size) in product(plan.lanes, enumerate(record_bytes)):
            for family in records.families(number, lane):
                yield self._try(plan, lane, records, (number, family), size)

    def _try(
        self, plan: DatabasePlan, lane: Lane, records: Records, place: tuple[int, str], record_bytes: int
    ) -> Sampled:
        number, family = place
        trial, share = self._trial, self._sharing[plan.store_partition]
        size = SampleSize(max(1, self._records // share), MOST_SAMPLE_BYTES // share, self._seed)
        sample = read_sample(records.databases[number], family, size)
        stands_for = max(1.0, record_bytes / share / max(1, size.records // RUN_LENGTH))
        rejected, expired, shadowed = trial.rejects.count, trial.expired, records.shadowed
        trial.begin(plan.store_partition)
        for batch in records.sampled(number, lane, family, sample.batches):
            if plan.is_kept:
                trial.take(batch, lane, weight=1.0 if sample.is_whole else stands_for / max(1, batch.size))
            else:
                trial.expired += len(batch)
        return Sampled(
            number=number,
            family=family,
            is_whole=sample.is_whole,
            seen=records.seen[place],
            read=records.read[place],
            rejected=trial.rejects.count - rejected,
            expired=trial.expired - expired,
            shadowed=records.shadowed - shadowed,
        )
