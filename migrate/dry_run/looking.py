"""Looking at every record (`--full`): a run's own path, with a sink that writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from operator import eq

from formats import Conversion, EntryError
from formats.program import IDENTITY
from migrate.dry_run.collisions import KeyOrder
from migrate.dry_run.rejected import RejectsByReason
from migrate.dry_run.sizes import RecordSizes
from migrate.engine.portable import Converter
from migrate.inputs import Records
from migrate.plan_model import DatabasePlan, Lane
from migrate.pumping import pump
from migrate.stores.batch import Batch


class FullLook:
    """What becomes of every record: counted, none of them kept but the examples."""

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._program = conversion.program
        self._keeps_keys = self._program is not None and self._program.key == IDENTITY
        self._source_batch: Batch | None = None
        self.records = 0
        self.converted = 0
        self.dropped = 0
        self.expired = 0
        """Older than the new store's retention; no part of `records`."""
        self.unchanged = 0
        self.rejects = RejectsByReason()
        self.order = KeyOrder()
        self.old_sizes = RecordSizes()
        self.new_sizes = RecordSizes()

    def take(self, records: Records, plan: DatabasePlan, lane: Lane, on_progress: Callable[[int], None]) -> None:
        """Every record that a new RocksDB directory is made of, converted. Raises CorruptionError, as a run would."""
        self.rejects.begin(plan.store_partition)
        self.order.begin(plan.store_partition)

        def see(batch: Batch) -> None:
            self._source_batch = batch
            self.old_sizes.add(batch)
            on_progress(len(batch))

        if not plan.is_kept:
            for batch in records.batches(lane):
                see(batch)
                self.expired += len(batch)
        else:
            converter = Converter(self._conversion, self._program, self.rejects, lane.source)
            pumped = pump(records.batches(lane), converter, lambda: self, see)
            self.records += pumped.scanned.records
            self.converted += pumped.written.records
            self.dropped += converter.dropped
        self._source_batch = None

    def write(self, batch: Batch) -> None:
        """As a sink: nothing is written."""
        self.new_sizes.add(batch)
        assert self._source_batch is not None
        if not self._keeps_keys:
            self._watch_order(self._source_batch, batch)
        self.unchanged += _unchanged(self._source_batch, batch)

    def _watch_order(self, old: Batch, new: Batch) -> None:
        records = zip(reversed(old.keys), reversed(old.values), strict=True)
        last_old = (
            old.keys[-1] if len(old) == len(new) else next(key for key, value in records if self._gives(key, value))
        )
        self.order.add_ascending(
            new.keys,
            last_old,
            lambda: [key for key, value in zip(old.keys, old.values, strict=True) if self._gives(key, value)],
        )

    def _gives(self, key: bytes, value: bytes) -> bool:
        """Whether a new record comes of it."""
        try:
            return self._conversion.convert(key, value) is not None
        except EntryError:
            return False


def _unchanged(old: Batch, new: Batch) -> int:
    if len(old) == len(new):
        return sum(map(eq, zip(old.keys, old.values, strict=True), zip(new.keys, new.values, strict=True)))
    before = dict(zip(old.keys, old.values, strict=True))
    return sum(before.get(key) == value for key, value in zip(new.keys, new.values, strict=True))
