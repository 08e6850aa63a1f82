"""What a migration of any size costs, from measured parts: the dry run's estimate and the table in docs/scale.md."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Literal

from migrate.model.units import plural
from migrate.spec.spec import RunSection

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
