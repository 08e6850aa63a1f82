"""Estimate the cost of a run: chunks, time, disk, memory, and how long the application must be stopped."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from formats import Conversion
from migrate.batch.chunk.reader import Records
from migrate.batch.chunk.times import make_converter
from migrate.dry_run.report import ChangelogPlan, ChunkPlanned, Cost, Inventory
from migrate.dry_run.scale_model import (
    PARTS,
    Estimate,
    Load,
    Parts,
    Work,
    chunk_size_warning,
    model,
    recommended_chunk_size,
)
from migrate.engine.pump import pump
from migrate.engine.rejects import RejectsByReason
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk, FamilyMapping
from migrate.model.units import duration
from migrate.spec.spec import Spec
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.writing import KeyOrderError, SstWriter, TableOptions

LARGEST_COPIES = 6
_MOST_BYTES = 16 << 20
_MOST_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Measured:
    """How fast one slot read, converted and wrote a piece of the old store; 0 records: not measured."""

    records: int = 0
    record_bytes: int = 0
    """Size of the keys and values that were read."""
    file_bytes: int = 0
    """Size of the SST file that was written."""
    rewrite_seconds: float = 0.0
    scan_seconds: float = 0.0
    """Time of a second pass that only reads."""

    @property
    def verify_seconds(self) -> float:
        """Time to read both stores, convert the old one again and compare."""
        return self.rewrite_seconds + self.scan_seconds

    def per_second(self, seconds: float) -> int | None:
        """Records per second, if the piece takes this number of seconds."""
        return round(self.records / max(seconds, 1e-9)) if self.records else None

    def bytes_of(self, records: int) -> int:
        """Size of this number of records."""
        return records * self.record_bytes // max(1, self.records)


NOT_MEASURED = Measured()


def measure(records: Records, mapping: FamilyMapping, start: bytes | None, conversion: Conversion) -> Measured:
    """Rewrite records from `start` on for 0.3 seconds to a temporary file, as a run would."""
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        file = Path(folder, "piece.sst")
        writers: list[SstWriter] = []

        def open_writer() -> SstWriter:
            writers.append(SstWriter(file, TableOptions(compression=mapping.compression)))
            return writers[0]

        converter = make_converter(conversion, records.known_times, RejectsByReason(), mapping.source)
        started = time.perf_counter()
        try:
            piece = _piece(records.batches(mapping, KeyRange(start=start)))
            pumped = pump(piece, converter, open_writer, lambda _: None)
        except KeyOrderError:  # the sample reports it
            return NOT_MEASURED
        if not writers:
            return NOT_MEASURED
        writers[0].finish()
        rewritten = time.perf_counter()
        _scan(records.batches(mapping, KeyRange(start=start)), pumped.scanned.records)
        return Measured(
            records=pumped.scanned.records,
            record_bytes=pumped.scanned.size,
            file_bytes=file.stat().st_size,
            rewrite_seconds=rewritten - started,
            scan_seconds=time.perf_counter() - rewritten,
        )


def _piece(batches: Iterator[Batch]) -> Iterator[Batch]:
    size = 0
    deadline = time.perf_counter() + _MOST_SECONDS
    for batch in batches:
        yield batch
        size += batch.size
        if size >= _MOST_BYTES or time.perf_counter() >= deadline:
            return


def _scan(batches: Iterator[Batch], records: int) -> None:
    for batch in batches:
        records -= len(batch)
        if records <= 0:
            return


@dataclass(frozen=True, slots=True)
class CostInputs:
    """The facts from which the cost is estimated."""

    spec: Spec
    chunks: Sequence[Chunk]
    chunks_done: int
    found: Inventory
    is_moved: bool
    """Records move to other segments: each chunk reads all old segments that it takes records from."""
    measured: Measured
    slots: int
    copied_bytes: int
    required_bytes: int
    free_bytes: int | None
    changelogs: ChangelogPlan | None = None

    @property
    def changelog_seconds(self) -> float:
        """Time to write the changelogs, and to read them back."""
        found = self.changelogs
        return 0.0 if found is None else found.write_seconds + found.read_back_seconds

    @property
    def left_bytes(self) -> int:
        """Bytes of records to rewrite; records in the write-ahead log alone are in no chunk's size."""
        size = sum(chunk.estimated_bytes for chunk in self.chunks)
        return size if self.chunks_done else max(size, self.measured.bytes_of(self.found.records))

    @property
    def load(self) -> Load:
        """What the model of the cost needs."""
        return Load(
            store_bytes=self.left_bytes,
            records=self.left_bytes // max(1, self.measured.bytes_of(1)),
            slots=self.slots,
            chunk_size=int(self.spec.run.chunk_size),
            store_partitions=self.found.store_partitions,
            ssts=sum(database.sst_files for database in self.found.databases),
            verify=self.spec.run.verify,
            chunks=len(self.chunks),
            biggest_chunk=max((chunk.estimated_bytes for chunk in self.chunks), default=0),
            copied_bytes=self.copied_bytes,
        )

    @property
    def parts(self) -> Parts:
        """The measured parts of the cost; where nothing was measured, the typical ones."""
        piece, size = self.measured, self.measured.record_bytes
        if not size:
            return PARTS
        # With "digest" the new records are read, and the old ones counted.
        passes = (piece.rewrite_seconds, piece.verify_seconds, 2 * piece.scan_seconds)
        rewrite, verify, verify_digest = (Work(byte=seconds / size) for seconds in passes)
        return replace(PARTS, rewrite=rewrite, verify=verify, verify_digest=verify_digest)


def cost_of(inputs: CostInputs) -> Cost:
    """Estimate the cost of a run."""
    sizes, measured = [chunk.estimated_bytes for chunk in inputs.chunks], inputs.measured
    estimate = model(inputs.load, inputs.parts)
    best = recommended_chunk_size(inputs.load, host_memory(), inputs.parts)
    downtime, why = _downtime(inputs, estimate)
    new_bytes = _new_bytes(inputs, inputs.left_bytes)
    return Cost(
        chunks=tuple(ChunkPlanned(**chunk.model_dump(exclude={"keys"}), keys=chunk.keys) for chunk in inputs.chunks),
        chunk_size=int(inputs.spec.run.chunk_size),
        median_chunk=int(statistics.median(sizes)) if sizes else 0,
        biggest_chunk=max(sizes, default=0),
        chunks_done=inputs.chunks_done,
        slots=inputs.slots,
        measured_records=measured.records,
        records_per_second=measured.per_second(measured.rewrite_seconds),
        verified_per_second=measured.per_second(measured.verify_seconds),
        rewrite_seconds=round(estimate.rewrite, 1),
        verify_seconds=round(estimate.verify, 1),
        other_seconds=round(estimate.plan + estimate.start + estimate.assemble, 1),
        changelog_seconds=round(inputs.changelog_seconds, 1),
        total_seconds=round(estimate.seconds + inputs.changelog_seconds, 1),
        downtime_seconds=round(downtime, 1),
        downtime=why,
        new_bytes=new_bytes,
        copied_bytes=inputs.copied_bytes,
        peak_bytes=new_bytes + inputs.copied_bytes,
        required_bytes=inputs.required_bytes,
        free_bytes=inputs.free_bytes,
        worker_bytes=estimate.worker_memory + _largest_bytes(inputs),
        driver_bytes=estimate.driver_memory,
        recommended_chunk_size=best.size,
        recommended_because=best.reason,
    )


def cost_warnings(inputs: CostInputs) -> tuple[str, ...]:
    """Warnings, a sentence each, about a chunk size that is far from a good one."""
    problem = chunk_size_warning(inputs.load, host_memory(), inputs.parts)
    return () if problem is None else (problem,)


def host_memory() -> int:
    """The memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _downtime(inputs: CostInputs, estimate: Estimate) -> tuple[float, str]:
    plan = inputs.changelogs
    caught_up = 0.0 if plan is None or not plan.tail_records else plan.catch_up_seconds
    tail = f"{duration(caught_up)} for the catch-up, and " if caught_up else "and "
    if inputs.spec.run.source == "snapshot":
        seconds = estimate.plan + caught_up + estimate.switch
        later = f"{tail}the cut-over".removeprefix("and ")
        return seconds, f"the snapshot and, later, {later}; the application runs in between"
    last = "the cut-over" if inputs.spec.target_path is None else "the restart on the new state directory"
    seconds = estimate.seconds + inputs.changelog_seconds + caught_up + estimate.switch
    return seconds, f"the whole run, {tail}{estimate.switch:.0f} s for {last}"


def _new_bytes(inputs: CostInputs, left: int) -> int:
    """Estimated size of what is left to write, by the size of the measured piece."""
    if not inputs.measured.record_bytes:
        return 0
    if inputs.is_moved and not inputs.chunks_done:
        left = inputs.measured.bytes_of(inputs.found.records - inputs.found.expired)
    return int(left * inputs.measured.file_bytes / inputs.measured.record_bytes)


def _largest_bytes(inputs: CostInputs) -> int:
    """Memory for the copies of a huge record."""
    largest = sum(sizes.largest for sizes in (inputs.found.key_sizes, inputs.found.value_sizes) if sizes is not None)
    return LARGEST_COPIES * largest
