"""Looking at every record (`--full`): a run's own path, with a sink that writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import eq

from formats import Conversion, EntryError
from formats.program import IDENTITY
from migrate.batch.chunk.reader import Records
from migrate.dry_run.sample_conversion import ConversionCounts
from migrate.engine.converter import Converter
from migrate.engine.pump import pump
from migrate.model.plan import DatabasePlan, Lane
from migrate.stores.batch import Batch


class FullScan(ConversionCounts):
    """What becomes of every record: counted, none of them kept but the examples."""

    def __init__(self, conversion: Conversion) -> None:
        super().__init__()
        self._conversion = conversion
        self._program = conversion.program
        self._keeps_keys = self._program is not None and self._program.key == IDENTITY
        self._source_batch = Batch([], [])

    def take(self, records: Records, plan: DatabasePlan, lane: Lane, on_progress: Callable[[int], None]) -> None:
        """Every record that a new RocksDB directory is made of, converted. Raises CorruptionError, as a run would."""
        self.begin(plan.store_partition)

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
        self._source_batch = Batch([], [])

    def write(self, batch: Batch) -> None:
        """As a sink: nothing is written."""
        self.new_sizes.add(batch)
        if not self._keeps_keys:
            self.order.add(batch.keys, partial(self._converted_keys, self._source_batch))
        self.unchanged += _unchanged(self._source_batch, batch)

    def _converted_keys(self, batch: Batch) -> list[bytes]:
        """Those of which a new record comes."""
        return [key for key, value in zip(batch.keys, batch.values, strict=True) if self._gives(key, value)]

    def _gives(self, key: bytes, value: bytes) -> bool:
        try:
            return self._conversion.convert(key, value) is not None
        except EntryError:
            return False


def _unchanged(old: Batch, new: Batch) -> int:
    if len(old) == len(new):
        return sum(map(eq, zip(old.keys, old.values, strict=True), zip(new.keys, new.values, strict=True)))
    before = dict(zip(old.keys, old.values, strict=True))
    return sum(before.get(key) == value for key, value in zip(new.keys, new.values, strict=True))
