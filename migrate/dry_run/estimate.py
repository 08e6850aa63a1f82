"""Estimate what a migration costs: time, disk, memory, downtime, and the chunk size that suits it.

The same function serves the dry run, with the speed that it measures on the user's records, and the tables in
docs/scale.md, with the constants alone.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Literal

from formats import Conversion
from migrate.dry_run.dry_run_report import ChangelogPlan, Cost, Inventory
from migrate.engine.chunk_source import ChunkSource
from migrate.engine.portable import make_converter, pump
from migrate.engine.rejects import RejectsByReason
from migrate.model.display import duration, plural
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk, FamilyMapping
from migrate.spec.sections import RunSection
from migrate.spec.spec import Spec
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.writing import KeyOrderError, SstWriter, TableOptions

MIB = 1 << 20
# Seconds and bytes, as `python -m benchmarks --only NAME` measures them; docs/scale.md names the benchmarks.
RECORD = 0.57e-6  # a slot's time to rewrite a record,
BYTE = 1.1e-9  # and for each of its bytes
SORTING = 4.5  # so many times a slot's time, where Spark sorts the new keys
SCAN = 0.4  # of that time: to read the records alone
CHUNK = 0.006  # a slot's time for a chunk, beside its records
SPARK_TASK = 0.04  # the same for a Spark task of its own; smaller chunks share one
DRIVER = 0.1  # the driver's share of both
SST = 0.0003  # the driver's time to read the metadata of an SST
PARTITION = 0.02  # the driver's time to plan, assemble and publish a store partition
SPARK_START = 3.5
SQL_START = 15.0  # more where Spark sorts: its first query is planned and compiled
SLOT = 0.65  # what each slot of a host adds to its first one
PROCESS_BYTES = 180 * MIB  # of the driver
WORKER_BYTES = 220 * MIB  # with the native engine; 60 less without it
PLANNED_BYTES = 10_000  # the driver's memory for a chunk: its plan, receipt and ledger row
WRITTEN_BYTES = 12  # a worker's memory for a record, until its SST is finished

COPIED_PER_SECOND = 100 * MIB  # of a slow disk
TASK_BYTES = 8 * MIB  # of the chunks that share a Spark task
DEFAULT_CHUNK_SIZE = int(RunSection.model_fields["chunk_size"].default)
CHUNKS_PER_SLOT = 8  # so many that the slots end at about the same time
MOST_CHUNKS = 100_000  # the driver takes 1.2 GB for them
MOST_OVERHEAD = 0.2  # of a chunk's time, for what does not depend on its size
MOST_REPEATED_SECONDS = 120.0  # work of each slot that a kill may repeat
LARGEST_COPIES = 6  # of a huge record, which a worker has at a time
_PIECE_BYTES = 16 << 20
_PIECE_SECONDS = 0.3

Verify = Literal["full", "digest", "off"]


@dataclass(frozen=True, slots=True)
class MeasuredPiece:
    """Records that one slot reads, converts and writes, and its time for them."""

    records: int
    size: int
    """Of the keys and values that are read."""
    rewrite_seconds: float
    scan_seconds: float
    """Of a second pass, which only reads."""
    file_bytes: int = 0
    """Of the SST file that was written; 0: nothing was measured."""

    @property
    def is_measured(self) -> bool:
        """Whether the user's own records were timed."""
        return self.file_bytes > 0

    def bytes_of(self, records: int) -> int:
        """Size of this number of records, where some were measured."""
        return records * self.size // self.records if self.is_measured else 0

    def verify_seconds(self, verify: Verify = "full") -> float:
        """Time to compare: in full, both stores are read and the old one is converted again; by digest, both read."""
        return {"full": self.rewrite_seconds + self.scan_seconds, "digest": 2 * self.scan_seconds, "off": 0.0}[verify]

    def per_second(self, seconds: float) -> int | None:
        """Records per second, if the piece takes this number of seconds."""
        return round(self.records / max(seconds, 1e-9)) if self.is_measured else None


def typical(record_bytes: int) -> MeasuredPiece:
    """A record of this size, as the constants have it."""
    seconds = RECORD + record_bytes * BYTE
    return MeasuredPiece(records=1, size=record_bytes, rewrite_seconds=seconds, scan_seconds=SCAN * seconds)


def measure(
    records: ChunkSource, mapping: FamilyMapping, start: bytes | None, conversion: Conversion, is_sorted: bool
) -> MeasuredPiece | None:
    """Rewrite records from `start` on for 0.3 seconds to a temporary file, as a run would; None: all are empty.

    `is_sorted`: sort them in memory, which takes less time than Spark does.
    """
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        file = Path(folder, "piece.sst")
        writer = SstWriter(file, TableOptions(compression=mapping.compression))
        converter = make_converter(conversion, records.known_times, RejectsByReason(), mapping.source)
        started = time.perf_counter()
        try:
            sink = _Sorted() if is_sorted else writer
            pumped = pump(_piece(records, mapping, start), converter, sink, lambda _: None)
            if isinstance(sink, _Sorted) and pumped.written.records:
                writer.write(sink.batch())
        except KeyOrderError:  # the sample reports it
            return None
        if not (writer.finish() and pumped.scanned.size):
            return None
        rewritten = time.perf_counter()
        left = pumped.scanned.records
        for batch in records.batches(mapping, KeyRange(start=start)):
            if (left := left - len(batch)) <= 0:
                break
        return MeasuredPiece(
            records=pumped.scanned.records,
            size=pumped.scanned.size,
            file_bytes=file.stat().st_size,
            rewrite_seconds=rewritten - started,
            scan_seconds=time.perf_counter() - rewritten,
        )


class _Sorted:
    """Keeps records to be sorted."""

    def __init__(self) -> None:
        self._records: dict[bytes, bytes] = {}

    def write(self, batch: Batch) -> None:
        self._records.update(zip(batch.keys, batch.values, strict=True))

    def batch(self) -> Batch:
        keys = sorted(self._records)
        return Batch(keys, [self._records[key] for key in keys])


def _piece(records: ChunkSource, mapping: FamilyMapping, start: bytes | None) -> Iterator[Batch]:
    size, deadline = 0, time.perf_counter() + _PIECE_SECONDS
    for batch in records.batches(mapping, KeyRange(start=start)):
        yield batch
        size += batch.size
        if size >= _PIECE_BYTES or time.perf_counter() >= deadline:
            return


@dataclass(frozen=True, slots=True)
class Load:
    """What is migrated, and with what."""

    store_bytes: int
    """Keys and values that are left to rewrite, before compression."""
    piece: MeasuredPiece
    """Some of them, or a typical one."""
    slots: int
    chunk_size: int
    store_partitions: int = 1
    ssts: int = 0
    verify: Verify = "full"
    chunk_sizes: tuple[int, ...] | None = None
    """Of the chunks that are left; None: as many, and as large, as `chunk_size` makes."""
    copied_bytes: int = 0
    """What a snapshot copies: nothing where it makes hard links."""
    memory: int | None = None
    """Of the host of all workers; None: each may have its own."""
    waves: int = 0
    """In how many jobs Spark sorts the new keys; 0: they are not sorted."""

    @property
    def chunks(self) -> int:
        """The number of chunks: one for each store partition at least."""
        if self.chunk_sizes is not None:
            return len(self.chunk_sizes)
        return max(self.store_partitions, -(-self.store_bytes // self.chunk_size))

    @property
    def biggest(self) -> int:
        """The bytes of the biggest chunk, which one slot rewrites."""
        even = self.store_bytes // max(1, self.chunks)
        return even if self.chunk_sizes is None else max(self.chunk_sizes, default=0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a migration: seconds of wall time, and bytes."""

    plan: float
    start: float
    rewrite: float
    assemble: float
    verify: float
    switch: float
    """The downtime of a cut-over."""
    driver_bytes: int
    worker_bytes: int
    """Of one slot's worker."""

    @property
    def seconds(self) -> float:
        return self.plan + self.start + self.rewrite + self.assemble + self.verify


def estimate(load: Load) -> Estimate:
    """The cost of a migration."""
    chunks, piece = load.chunks, load.piece
    share = min(1.0, load.store_bytes / max(1, chunks) / TASK_BYTES) if load.slots > 1 else 0.0
    chunk = CHUNK + share * SPARK_TASK
    speed = 1 + (max(1, min(load.slots, chunks)) - 1) * SLOT

    def one_pass(seconds: float) -> float:
        """The time of all slots: not less than the biggest chunk takes, which is one slot's."""
        byte = seconds / piece.size
        return max((load.store_bytes * byte + chunks * chunk) / speed, load.biggest * byte + chunk) if chunks else 0.0

    rewrite = max(one_pass(piece.rewrite_seconds), chunks * chunk * DRIVER)
    if load.waves:  # each reads and converts everything
        rewrite = SORTING * rewrite + (load.waves - 1) * one_pass(piece.rewrite_seconds)
    return Estimate(
        plan=load.ssts * SST + load.store_partitions * PARTITION / 2 + load.copied_bytes / COPIED_PER_SECOND,
        start=(SPARK_START if load.slots > 1 or load.waves else 0.0) + (SQL_START if load.waves else 0.0),
        rewrite=rewrite,
        assemble=load.store_partitions * PARTITION / 2,
        verify=0.0 if load.verify == "off" else one_pass(piece.verify_seconds(load.verify)),
        switch=max(1.0, load.store_partitions * PARTITION / 4),
        driver_bytes=PROCESS_BYTES + chunks * PLANNED_BYTES,
        worker_bytes=WORKER_BYTES + WRITTEN_BYTES * load.biggest * piece.records // piece.size,
    )


def best_chunk_size(load: Load) -> tuple[int, str]:
    """A `[run] chunk_size`, and why: the default, or the power of two nearest to it that keeps within every limit."""
    byte = max(load.piece.rewrite_seconds / load.piece.size, 1e-12)
    upper = min((float(DEFAULT_CHUNK_SIZE), "the default is within every limit"), *_at_most(load, byte))
    lower = max(upper, *_at_least(load, byte), key=itemgetter(0))  # these count more
    (size, why), is_least = lower, lower is not upper
    if load.memory is not None:  # and this counts most
        free = max(0, load.memory // load.slots - WORKER_BYTES)
        if (fits := free / WRITTEN_BYTES * load.piece.size / load.piece.records) < size:
            size, why, is_least = fits, "the workers' memory: RocksDB keeps some for each record of a chunk", False
    power = (max(1, math.ceil(size)) - 1).bit_length() if is_least else max(1, int(size)).bit_length() - 1
    best = max(MIB, 1 << power)
    counts = {_cut(load, each).chunks for each in (best, DEFAULT_CHUNK_SIZE)}
    if counts == {load.store_partitions}:
        return DEFAULT_CHUNK_SIZE, "each store partition is small enough for one chunk"
    return best, why


def _cut(load: Load, chunk_size: int) -> Load:
    return replace(load, chunk_size=chunk_size, chunk_sizes=None)


def _at_most(load: Load, byte: float) -> Iterator[tuple[float, str]]:
    if load.slots > 1:
        together = f"about {CHUNKS_PER_SLOT} chunks for each slot, so that the slots end together"
        yield load.store_bytes / (load.slots * CHUNKS_PER_SLOT), together
    repeated = f"a run that is killed repeats at most {MOST_REPEATED_SECONDS:.0f} s of each slot's work"
    yield MOST_REPEATED_SECONDS / byte, repeated


def _at_least(load: Load, byte: float) -> Iterator[tuple[float, str]]:
    chunk = CHUNK if load.slots == 1 else CHUNK + SPARK_TASK
    overhead = f"smaller chunks spend more than {MOST_OVERHEAD:.0%} of their time on what each costs at any size"
    yield chunk / MOST_OVERHEAD / byte, overhead
    kept = f"the driver keeps {PLANNED_BYTES // 1000} kB of memory for each chunk, and at most {MOST_CHUNKS:,} of them"
    yield load.store_bytes / MOST_CHUNKS, kept


def chunk_size_warning(load: Load) -> str | None:
    """What is wrong with the chunk size that is set, if it is far from a good one."""
    size, why = best_chunk_size(load)
    better = _cut(load, size)
    now, then = estimate(load), estimate(better)
    needed, problem = load.slots * now.worker_bytes, None
    if load.chunks > MOST_CHUNKS and better.chunks < load.chunks:
        problem = f"makes {load.chunks:,} chunks, for which the driver takes {now.driver_bytes >> 20:,} MiB"
    elif load.memory is not None and needed > load.memory > load.slots * then.worker_bytes:
        has = f"this host has {load.memory >> 20:,}"
        problem = f"lets {load.slots} workers take {needed >> 20:,} MiB of memory, and {has}"
    elif load.chunks < load.slots and now.rewrite > then.rewrite + SPARK_START:
        problem = f"makes {plural(load.chunks, 'chunk')}, fewer than the {load.slots} slots"
    return None if problem is None else f"[run] chunk_size {problem}: better {size >> 20:,} MiB ({why})"


def cost_of(
    spec: Spec,
    load: Load,
    chunks: Sequence[Chunk],
    found: Inventory,
    changelogs: ChangelogPlan | None,
    *,
    chunks_done: int,
    new_store_bytes: int,
    required_bytes: int,
    free_bytes: int,
) -> Cost:
    """Estimate the cost of a run; `chunks`: those that are left. `new_store_bytes`: what they write, uncompressed."""
    cost, piece, (best, why) = estimate(load), load.piece, best_chunk_size(load)
    changelog = 0.0 if changelogs is None else changelogs.write_seconds + changelogs.read_back_seconds
    downtime, steps = _downtime(spec, cost, changelogs, cost.seconds + changelog)
    new_bytes = new_store_bytes * piece.file_bytes // piece.size
    largest = sum(sizes.largest for sizes in (found.key_sizes, found.value_sizes) if sizes is not None)
    return Cost(
        chunks=tuple(chunks),
        chunk_size=load.chunk_size,
        median_chunk=int(statistics.median(load.chunk_sizes or [0])),
        biggest_chunk=load.biggest,
        chunks_done=chunks_done,
        slots=load.slots,
        measured_records=piece.records if piece.is_measured else 0,
        records_per_second=piece.per_second(piece.rewrite_seconds),
        verified_per_second=piece.per_second(piece.verify_seconds()),
        rewrite_seconds=round(cost.rewrite, 1),
        verify_seconds=round(cost.verify, 1),
        other_seconds=round(cost.plan + cost.start + cost.assemble, 1),
        changelog_seconds=round(changelog, 1),
        total_seconds=round(cost.seconds + changelog, 1),
        downtime_seconds=round(downtime, 1),
        downtime=steps,
        new_bytes=new_bytes,
        copied_bytes=load.copied_bytes,
        peak_bytes=new_bytes + load.copied_bytes,
        required_bytes=required_bytes,
        free_bytes=free_bytes,
        worker_bytes=cost.worker_bytes + LARGEST_COPIES * largest,
        driver_bytes=cost.driver_bytes,
        recommended_chunk_size=best,
        recommended_because=why,
    )


def _downtime(spec: Spec, cost: Estimate, changelogs: ChangelogPlan | None, run_seconds: float) -> tuple[float, str]:
    """How long the application must be stopped, and in which steps."""
    caught_up = 0.0 if changelogs is None or not changelogs.tail_records else changelogs.catch_up_seconds
    tail = f"{duration(caught_up)} for the catch-up, and " if caught_up else "and "
    if spec.run.source == "snapshot":
        later = f"{tail}the cut-over".removeprefix("and ")
        why = f"the snapshot and, later, {later}; the application runs in between"
        return cost.plan + caught_up + cost.switch, why
    last = "the cut-over" if spec.target_path is None else "the restart on the new state directory"
    return run_seconds + caught_up + cost.switch, f"the whole run, {tail}{cost.switch:.0f} s for {last}"
