"""How fast it would go: a piece of the old store, read, converted and written to a temporary file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from formats import Conversion
from migrate.dry_run.rejected import RejectsByReason
from migrate.engine.portable import Converter
from migrate.inputs import Records
from migrate.keyrange import KeyRange
from migrate.plan_model import Lane
from migrate.pumping import pump
from migrate.stores.batch import Batch
from migrate.stores.rocksdb_writing import KeyOrderError, SstWriter, TableOptions

_MOST_BYTES = 16 << 20
_MOST_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one slot."""

    records: int
    record_bytes: int
    """Keys and values that were read."""
    file_bytes: int
    """What was written for them."""
    rewrite_seconds: float
    scan_seconds: float
    """Reading alone, again."""

    @property
    def records_per_second(self) -> int:
        """Read, converted, written."""
        return round(self.records / max(self.rewrite_seconds, 1e-9))

    @property
    def verified_per_second(self) -> int:
        """As `verify_rate` counts."""
        return round(self.records / max(self.rewrite_seconds + self.scan_seconds, 1e-9))

    @property
    def rewrite_rate(self) -> float:
        """Bytes of records per second: read, converted, written."""
        return self.record_bytes / max(self.rewrite_seconds, 1e-9)

    @property
    def scan_rate(self) -> float:
        """Bytes of records per second: read, and nothing else."""
        return self.record_bytes / max(self.scan_seconds, 1e-9)

    @property
    def verify_rate(self) -> float:
        """Bytes of old records per second: both stores read, the old one converted again and compared."""
        return self.record_bytes / max(self.rewrite_seconds + self.scan_seconds, 1e-9)


def measure(records: Records, lane: Lane, start: bytes | None, conversion: Conversion) -> Measured | None:
    """Rewrite from `start` on for a third of a second, as a run would; None: there is no record, or none converts."""
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        file = Path(folder, "piece.sst")
        writers: list[SstWriter] = []

        def open_writer() -> SstWriter:
            writers.append(SstWriter(file, TableOptions(compression=lane.compression)))
            return writers[0]

        piece = _Piece(records.batches(lane, KeyRange(start=start)))
        converter = Converter(conversion, conversion.program, RejectsByReason(), lane.source)
        started = time.perf_counter()
        try:
            pumped = pump(iter(piece), converter, open_writer, lambda _: None)
        except KeyOrderError:  # is told of where the sample is
            return None
        if not writers:
            return None
        writers[0].finish()
        rewritten = time.perf_counter()
        _scan(records, lane, start, pumped.scanned.records)
        return Measured(
            records=pumped.scanned.records,
            record_bytes=pumped.scanned.size,
            file_bytes=file.stat().st_size,
            rewrite_seconds=rewritten - started,
            scan_seconds=time.perf_counter() - rewritten,
        )


def _scan(records: Records, lane: Lane, start: bytes | None, left: int) -> None:
    for batch in records.batches(lane, KeyRange(start=start)):
        left -= len(batch)
        if left <= 0:
            return


class _Piece:
    """Batches, until there were enough of them."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        size = 0
        deadline = time.perf_counter() + _MOST_SECONDS
        for batch in self._batches:
            yield batch
            size += batch.size
            if size >= _MOST_BYTES or time.perf_counter() >= deadline:
                return
