"""Estimate the cost of a run: chunks, time, disk, memory, and how long the application must be stopped."""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Literal

from formats import Conversion
from migrate.batch.chunk.reader import Records
from migrate.batch.chunk.times import make_converter
from migrate.dry_run.dry_run_report import ChangelogPlan, ChunkPlanned, Cost, Inventory
from migrate.engine.pump import pump
from migrate.engine.rejects import RejectsByReason
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk, FamilyMapping
from migrate.model.units import duration, plural
from migrate.spec.spec import RunSection, Spec
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


MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds of one slot for each record and each byte of records."""

    record: float = 0.0
    byte: float = 0.0

    def seconds(self, records: float, size: float) -> float:
        """The time for this much."""
        return records * self.record + size * self.byte


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the cost, in seconds and bytes, as `python -m benchmarks --only NAME` measures them."""

    rewrite: Work = Work(0.57e-6, 1.1e-9)  # engine: 117 and 1,041 bytes a record
    verify: Work = Work(1.1e-6, 2.2e-9)  # verify: "full" reads both stores, and converts the old one again
    verify_digest: Work = Work(0.5e-6, 1.4e-9)  # verify
    chunk: float = 0.0035  # chunks: a slot's time for a chunk in process, beside its records
    chunk_on_spark: float = 0.008  # chunks: the same in a shared Spark task; on local[2] it is 3 to 5 ms by the clock
    spark_task: float = 0.04  # a slot's time for a task of its own; local[2] does 40 empty ones a second
    task_bytes: int = 8 * MIB  # smaller chunks share a Spark task
    driver_chunk: float = 0.0009  # driver: plan, schedule and commit one chunk
    driver_task: float = 0.004  # the driver's Python for one Spark task: its CPU with empty ones
    sst: float = 0.0003  # tables: read the metadata of one SST in planning
    plan_partition: float = 0.008  # partitions: check, snapshot and plan one store partition
    assemble_partition: float = 0.012  # partitions: assemble and publish one, and what its verification adds
    switch: float = 1.0  # switching a single store partition, from the shell
    switch_partition: float = 0.0045  # partitions: rollback, the slower one
    spark_start: float = 3.5  # start: what Spark adds to a run from the shell
    slot_efficiency: float = 0.65  # slots: what the second slot of a host adds
    copied_byte: float = 1 / (100 * MIB)  # a slow disk: bytes that a snapshot copies
    driver_bytes: int = 150 * MIB  # driver
    driver_chunk_bytes: int = 10_000  # driver: a chunk's plan, receipt and ledger row, at the peak
    worker_bytes: int = 180 * MIB  # memory
    worker_record_bytes: int = 12  # memory: RocksDB keeps this for each record until its SST is finished


PARTS = Parts()


Verify = Literal["full", "digest", "off"]


@dataclass(frozen=True, slots=True)
class Load:
    """What is migrated, and with what."""

    store_bytes: int
    """Keys and values, before compression."""
    records: int
    slots: int
    chunk_size: int
    store_partitions: int = 1
    ssts: int = 0
    verify: Verify = "full"
    chunks: int | None = None
    """None: as many as the size makes."""
    biggest_chunk: int | None = None
    """None: all are of one size."""
    copied_bytes: int = 0
    """What a snapshot copies: nothing where it makes hard links."""

    @property
    def chunk_count(self) -> int:
        """The number of chunks: one for each store partition at least."""
        if self.chunks is not None:
            return self.chunks
        return max(self.store_partitions, -(-self.store_bytes // self.chunk_size))

    @property
    def biggest(self) -> int:
        """The bytes of the biggest chunk, which one slot rewrites."""
        return self.store_bytes // max(1, self.chunk_count) if self.biggest_chunk is None else self.biggest_chunk

    @property
    def record_bytes(self) -> float:
        """The size of a record."""
        return self.store_bytes / max(1, self.records)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a migration: seconds of wall time, and bytes."""

    chunks: int
    plan: float
    start: float
    rewrite: float
    assemble: float
    verify: float
    switch: float
    """The downtime of a cut-over."""
    driver_memory: int
    worker_memory: int
    """Of one slot's worker."""

    @property
    def seconds(self) -> float:
        """The time of the whole run."""
        return self.plan + self.start + self.rewrite + self.assemble + self.verify


def model(load: Load, parts: Parts = PARTS) -> Estimate:
    """The cost of a migration."""
    chunks = load.chunk_count
    verify = {"full": parts.verify, "digest": parts.verify_digest, "off": Work()}[load.verify]
    driver = chunks * (parts.driver_chunk + _spark_tasks(load, parts) * parts.driver_task)
    return Estimate(
        chunks=chunks,
        plan=load.ssts * parts.sst
        + load.store_partitions * parts.plan_partition
        + load.copied_bytes * parts.copied_byte,
        start=parts.spark_start if load.slots > 1 else 0.0,
        rewrite=max(_wall_seconds(load, parts, parts.rewrite), driver),
        assemble=load.store_partitions * parts.assemble_partition,
        verify=0.0 if load.verify == "off" else _wall_seconds(load, parts, verify),
        switch=parts.switch + load.store_partitions * parts.switch_partition,
        driver_memory=parts.driver_bytes + chunks * parts.driver_chunk_bytes,
        worker_memory=worker_memory(load.biggest, load.record_bytes, parts),
    )


def worker_memory(chunk: float, record_bytes: float, parts: Parts = PARTS) -> int:
    """The memory of a worker that rewrites a chunk of this size."""
    return parts.worker_bytes + int(parts.worker_record_bytes * chunk / max(1.0, record_bytes))


def _wall_seconds(load: Load, parts: Parts, work: Work) -> float:
    """The time of all slots for one pass: not less than the biggest chunk takes, which is one slot's."""
    chunks = load.chunk_count
    if not chunks:
        return 0.0
    at_once = min(load.slots, chunks)
    speed = 1 + (at_once - 1) * parts.slot_efficiency
    every = work.seconds(load.records, load.store_bytes) + chunks * _chunk_seconds(load, parts)
    biggest = work.seconds(load.biggest / max(1.0, load.record_bytes), load.biggest) + _chunk_seconds(load, parts)
    return max(every / speed, biggest)


def _chunk_seconds(load: Load, parts: Parts) -> float:
    if load.slots == 1:
        return parts.chunk
    return parts.chunk_on_spark + _spark_tasks(load, parts) * parts.spark_task


def _spark_tasks(load: Load, parts: Parts) -> float:
    """A chunk's share of a Spark task; none in process."""
    size = load.store_bytes / max(1, load.chunk_count)
    return min(1.0, size / parts.task_bytes) if load.slots > 1 else 0.0


DEFAULT_CHUNK_SIZE = int(RunSection.model_fields["chunk_size"].default)


CHUNKS_PER_SLOT = 8
"""So many that the slots end at about the same time."""


MOST_CHUNKS = 100_000
"""The driver takes 1.2 GB for them."""


MOST_OVERHEAD = 0.2
"""Of a chunk's time, for what does not depend on its size."""


MOST_REPEATED_SECONDS = 120.0
"""Work of each slot that a kill may repeat."""


_LEAST_CHUNK = MIB


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """The recommended `[run] chunk_size`, and why."""

    size: int
    reason: str
    """A sentence."""


def recommended_chunk_size(load: Load, memory: int | None = None, parts: Parts = PARTS) -> ChunkSize:
    """The default, or the power of two nearest to it that keeps within every limit; `memory`: of all workers' host."""
    byte_seconds = max(parts.rewrite.seconds(1 / max(1.0, load.record_bytes), 1), 1e-12)
    default = (float(DEFAULT_CHUNK_SIZE), "the default is within every limit")
    upper = min(default, *_at_most(load, byte_seconds), key=itemgetter(0))
    lower = max(upper, *_at_least(load, parts, byte_seconds), key=itemgetter(0))  # these count more
    (size, reason), is_least = lower, lower is not upper
    if memory is not None:  # and this counts most
        free = max(0, memory // load.slots - parts.worker_bytes)
        if (fits := free / parts.worker_record_bytes * load.record_bytes) < size:
            size, reason, is_least = fits, "the workers' memory: RocksDB keeps some for each record of a chunk", False
    power = (max(1, math.ceil(size)) - 1).bit_length() if is_least else max(1, int(size)).bit_length() - 1
    best = max(_LEAST_CHUNK, 1 << power)
    counts = {replace(load, chunk_size=each, chunks=None).chunk_count for each in (best, DEFAULT_CHUNK_SIZE)}
    if counts == {load.store_partitions}:
        return ChunkSize(DEFAULT_CHUNK_SIZE, "each store partition is small enough for one chunk")
    return ChunkSize(best, reason)


def _at_most(load: Load, byte_seconds: float) -> Iterator[tuple[float, str]]:
    if load.slots > 1:
        together = f"about {CHUNKS_PER_SLOT} chunks for each slot, so that the slots end together"
        yield load.store_bytes / (load.slots * CHUNKS_PER_SLOT), together
    repeated = f"a run that is killed repeats at most {MOST_REPEATED_SECONDS:.0f} s of each slot's work"
    yield MOST_REPEATED_SECONDS / byte_seconds, repeated


def _at_least(load: Load, parts: Parts, byte_seconds: float) -> Iterator[tuple[float, str]]:
    seconds = parts.chunk if load.slots == 1 else parts.chunk_on_spark + parts.spark_task
    overhead = f"smaller chunks spend more than {MOST_OVERHEAD:.0%} of their time on what each costs at any size"
    yield seconds / MOST_OVERHEAD / byte_seconds, overhead
    kept = f"the driver keeps {parts.driver_chunk_bytes // 1000} kB of memory for each chunk"
    yield load.store_bytes / MOST_CHUNKS, f"{kept}, and at most {MOST_CHUNKS:,} of them"


def chunk_size_warning(load: Load, memory: int | None = None, parts: Parts = PARTS) -> str | None:
    """What is wrong with the chunk size that is set, if it is far from a good one."""
    best = recommended_chunk_size(load, memory, parts)
    now, then = model(load, parts), model(replace(load, chunk_size=best.size, chunks=None, biggest_chunk=None), parts)
    needed = load.slots * now.worker_memory
    problem = None
    if now.chunks > MOST_CHUNKS and then.chunks < now.chunks:
        problem = f"makes {now.chunks:,} chunks, for which the driver takes {now.driver_memory >> 20:,} MiB"
    elif memory is not None and needed > memory > load.slots * then.worker_memory:
        problem = f"lets {load.slots} workers take {needed >> 20:,} MiB of memory, and this host has {memory >> 20:,}"
    elif now.chunks < load.slots and now.rewrite > then.rewrite + parts.spark_start:
        problem = f"makes {plural(now.chunks, 'chunk')}, fewer than the {load.slots} slots"
    return None if problem is None else f"[run] chunk_size {problem}: better {best.size >> 20:,} MiB ({best.reason})"
