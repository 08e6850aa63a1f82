"""What a run would cost: chunks, time, disk, memory, and how long the application must stand still."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from migrate.dry_run.measuring import Measured
from migrate.dry_run.report import ChunkPlanned, Cost, Found
from migrate.plan_model import Chunk
from migrate.spec import Spec

SLOT_EFFICIENCY = 0.75
"""Two slots of one machine are 1.3 to 1.7 times as fast as one (docs/performance.md): disk and memory are shared."""
START_SECONDS = 10.0
"""Until a Spark session is there and its workers have imported what they need."""
PARTITION_SECONDS = 0.2
"""Snapshot and assembly of one store partition: hard links, syncs, one ingestion."""
SWITCH_SECONDS = 2.0
WORKER_BYTES = 180 << 20
BYTES_PER_RECORD = 12
"""RocksDB keeps these of each record until its SST file is finished."""
LARGEST_COPIES = 6


@dataclass(frozen=True, slots=True)
class Bill:
    """What the costs are told from."""

    spec: Spec
    chunks: Sequence[Chunk]
    chunks_done: int
    found: Found
    is_moved: bool
    """The records go to other segments: each chunk reads all of the old ones that it takes some from."""
    measured: Measured | None
    slots: int
    copied_bytes: int
    required_bytes: int
    free_bytes: int | None


def cost_of(bill: Bill) -> Cost:
    """All of it an estimate."""
    sizes = [chunk.estimated_bytes for chunk in bill.chunks]
    rewrite, verify = _work_seconds(bill, sizes)
    other = START_SECONDS + PARTITION_SECONDS * bill.found.store_partitions + _copy_seconds(bill.copied_bytes)
    total = rewrite + verify + other
    downtime, why = _downtime(bill, total)
    new_bytes = _new_bytes(bill, _left(bill, sizes))
    return Cost(
        chunks=tuple(ChunkPlanned(**chunk.model_dump(exclude={"keys"}), keys=chunk.keys) for chunk in bill.chunks),
        chunk_size=int(bill.spec.run.chunk_size),
        median_chunk=int(statistics.median(sizes)) if sizes else 0,
        biggest_chunk=max(sizes, default=0),
        chunks_done=bill.chunks_done,
        slots=bill.slots,
        measured_records=0 if bill.measured is None else bill.measured.records,
        records_per_second=None if bill.measured is None else bill.measured.records_per_second,
        verified_per_second=None if bill.measured is None else bill.measured.verified_per_second,
        rewrite_seconds=round(rewrite, 1),
        verify_seconds=round(verify, 1),
        other_seconds=round(other, 1),
        total_seconds=round(total, 1),
        downtime_seconds=round(downtime, 1),
        downtime=why,
        new_bytes=new_bytes,
        copied_bytes=bill.copied_bytes,
        peak_bytes=new_bytes + bill.copied_bytes,
        required_bytes=bill.required_bytes,
        free_bytes=bill.free_bytes,
        worker_bytes=_worker_bytes(bill, max(sizes, default=0)),
    )


def _work_seconds(bill: Bill, sizes: list[int]) -> tuple[float, float]:
    """(rewriting, verifying): chunks are handed out one by one, so the biggest one is the least that it takes."""
    if bill.measured is None or not bill.measured.record_bytes or not sizes:
        return 0.0, 0.0
    speed = 1 + (bill.slots - 1) * SLOT_EFFICIENCY
    size = max(_left(bill, sizes) / min(speed, len(sizes)), *sizes)
    both_scanned = bill.measured.scan_rate / 2  # the new records by digest, the old ones to be counted
    verifying = {"full": bill.measured.verify_rate, "digest": both_scanned}.get(bill.spec.run.verify)
    return size / bill.measured.rewrite_rate, 0.0 if verifying is None else size / verifying


def _left(bill: Bill, sizes: list[int]) -> int:
    """Bytes of records to rewrite; what lies in the write-ahead log alone is in no chunk's size."""
    if bill.measured is None or bill.chunks_done:
        return sum(sizes)
    return max(sum(sizes), bill.found.records * bill.measured.record_bytes // max(1, bill.measured.records))


def _copy_seconds(size: int) -> float:
    """At the pace of a slow disk."""
    return size / (100 << 20)


def _downtime(bill: Bill, total: float) -> tuple[float, str]:
    if bill.spec.run.source == "snapshot":
        seconds = PARTITION_SECONDS * bill.found.store_partitions + _copy_seconds(bill.copied_bytes) + SWITCH_SECONDS
        return seconds, "the snapshot and, later, the cut-over; the application runs in between"
    if bill.spec.target_path is not None:
        return total + SWITCH_SECONDS, "the whole run, which ends with the new state directory; then a restart on it"
    return total + SWITCH_SECONDS, "the whole run and the cut-over"


def _new_bytes(bill: Bill, left: int) -> int:
    """Counted, or by what a piece of it became; with the work of earlier runs not counted again."""
    if bill.measured is None or not bill.measured.record_bytes:
        return 0
    if bill.is_moved and not bill.chunks_done:
        left = (bill.found.records - bill.found.expired) * bill.measured.record_bytes // max(1, bill.measured.records)
    return int(left * bill.measured.file_bytes / bill.measured.record_bytes)


def _worker_bytes(bill: Bill, biggest: int) -> int:
    largest = 0
    for sizes in (bill.found.key_sizes, bill.found.value_sizes):
        largest += 0 if sizes is None else sizes.largest
    record_size = 1 if bill.measured is None else max(1, bill.measured.record_bytes // max(1, bill.measured.records))
    return WORKER_BYTES + BYTES_PER_RECORD * (biggest // record_size) + LARGEST_COPIES * largest
