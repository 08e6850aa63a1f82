"""Rewriting one chunk: scan, convert, write sorted SST files, make them durable, and only then say so (I1)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from formats import Format
from migrate.batch.chunk.breadcrumb import leaving_breadcrumbs
from migrate.batch.chunk.reader import Inputs, Records, open_inputs
from migrate.batch.stop import go_on
from migrate.engine import converter
from migrate.engine.converter import Converter
from migrate.engine.pump import Pumped, pump
from migrate.engine.rejects import CountRejects, FailOnReject, KeepRejects, Rejects
from migrate.errors import ChunkFailedError, CorruptionError
from migrate.model.plan import Chunk, Lane
from migrate.model.receipt import Receipt, Scanned, Written, attempt_name
from migrate.model.seal import with_seal
from migrate.spec.conversion import load_conversion
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.function.fingerprint import checked_code
from migrate.stores.batch import Batch
from migrate.stores.files import content_digest, fsync_directory, fsync_file, make_directories, write_durably
from migrate.stores.rocksdb.writing import KeyOrderError, SstWriter, TableOptions

_RESTORE = (
    "restore this store's files, as they were, from a backup and rerun: what is finished is kept; or let the store's "
    "owner rebuild it, and begin anew in another work_dir"
)


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """All that a worker needs to rewrite one chunk."""

    home: str
    source: Inputs
    """In the snapshot."""
    migration_id: str
    run_id: str
    chunk: Chunk
    lanes: tuple[Lane, ...]
    conversion: ConversionRef
    is_kept: bool = True
    """False: the records are older than the new store's retention, and counted only."""
    on_reject: Literal["fail", "skip", "dead-letter"] = "fail"
    max_rejects: int | None = None
    breadcrumb: str | None = None
    """A file to write each key to before its record is converted: set once a worker has died on this chunk."""


def rewrite_chunk(task: RewriteTask, check: Callable[[], None] = go_on) -> Receipt:
    """Rewrite one chunk. Files are named by attempt: a slower twin of this task harms nobody.

    `check` is called with each batch and may raise. Raises ChunkFailedError, CorruptionError or RejectedError; the
    attempt's files are gone then.
    """
    if not Path(task.home).is_dir():  # which is made by the driver alone, with its marker
        raise ChunkFailedError(
            f"{task.chunk}: {task.home} is not there",
            hint="is the work_dir mounted on every worker? was the migration given up meanwhile?",
        )
    attempt = _Attempt(task, check)
    make_directories(attempt.folder)
    try:
        with open_inputs(task.source, attempt.source) as source, leaving_breadcrumbs(task.breadcrumb) as on_record:
            lanes = [attempt.rewrite_lane(source, lane, on_record) for lane in task.lanes]
            attempt.shadowed = source.shadowed
        return attempt.receipt(lanes)
    except BaseException as error:
        attempt.discard()
        if isinstance(error, CorruptionError):
            raise CorruptionError(f"{task.chunk}: {error.message}", hint=_RESTORE) from error
        if isinstance(error, KeyOrderError):
            raise ChunkFailedError(f"{task.chunk}: {error.message}", hint=error.hint) from error
        raise


class _Attempt:
    """The files and counts of one attempt."""

    def __init__(self, task: RewriteTask, check: Callable[[], None]) -> None:
        self._check = check
        self._started = time.perf_counter()
        self._task = task
        self._conversion = load_conversion(task.conversion)
        self.name = attempt_name(task.run_id, task.chunk.number)
        self.folder = chunk_directory(Path(task.home), task.chunk.store_partition, task.chunk.database)
        self.rejects_file = self.folder / f"{self.name}.rejects.parquet"
        self.rejects: Rejects = self._policy()
        self.dropped = 0
        self.expired = 0
        self.shadowed = 0

    @property
    def source(self) -> Format:
        """What the records are."""
        return self._conversion.source

    def receipt(self, lanes: list[tuple[Scanned, Written]]) -> Receipt:
        """What was done, written beside the files once they and their names are durable (I1)."""
        task = self._task
        kept = isinstance(self.rejects, KeepRejects) and self.rejects.finish()
        receipt = Receipt(
            migration_id=task.migration_id,
            run_id=task.run_id,
            attempt=self.name,
            store_partition=task.chunk.store_partition,
            database=task.chunk.database,
            number=task.chunk.number,
            keys=task.chunk.keys,
            scanned=tuple(scanned for scanned, _ in lanes),
            written=tuple(written for _, written in lanes),
            dropped=self.dropped,
            expired=self.expired,
            shadowed=self.shadowed,
            rejected=self.rejects.count,
            rejects_file=self._relative(self.rejects_file) if kept else None,
            rejects_digest=content_digest(self.rejects_file) if kept else None,
            seconds=round(time.perf_counter() - self._started, 6),
            engine=converter.NAME,
            host=socket.gethostname(),
            code=checked_code(task.conversion),
        )
        write_receipt(Path(task.home), receipt)
        return receipt

    def _relative(self, file: Path) -> str:
        return str(file.relative_to(self._task.home))

    def rewrite_lane(
        self, source: Records, lane: Lane, on_record: Callable[[bytes], None] | None
    ) -> tuple[Scanned, Written]:
        """One column family of the chunk."""
        file = self.folder / f"{self.name}.{self._task.lanes.index(lane)}.sst"
        converter = Converter(self._conversion, self._conversion.program, self.rejects, lane.source, on_record)
        writer: SstWriter | None = None

        def open_writer() -> SstWriter:
            nonlocal writer
            writer = SstWriter(file, TableOptions(compression=lane.compression))
            return writer

        batches = source.batches(lane, self._task.chunk.keys)
        if self._task.is_kept:
            pumped = pump(batches, converter, open_writer, lambda _: self._check())
        else:
            pumped = self._count(batches)
        if writer is not None:
            writer.finish()
            fsync_file(file)
        self.dropped += converter.dropped
        scanned, written = pumped.scanned, pumped.written
        return (
            Scanned(family=lane.source, records=scanned.records, size=scanned.size, digest=str(scanned)),
            Written(
                family=lane.target,
                file=None if writer is None else self._relative(file),
                file_size=0 if writer is None else file.stat().st_size,
                records=written.records,
                size=written.size,
                digest=str(written),
                first_key=pumped.first_key,
                last_key=pumped.last_key,
            ),
        )

    def _count(self, batches: Iterator[Batch]) -> Pumped:
        pumped = Pumped()
        for batch in batches:
            self._check()
            pumped.scanned.update(batch)
        self.expired += pumped.scanned.records
        return pumped

    def discard(self) -> None:
        """Nobody will ever refer to these files."""
        for file in self.folder.glob(f"{self.name}.*"):
            file.unlink(missing_ok=True)

    def _policy(self) -> Rejects:
        where, limit = str(self._task.chunk), self._task.max_rejects
        has_function = self._task.conversion.function is not None
        if self._task.on_reject == "fail":
            return FailOnReject(where, has_function=has_function)
        if self._task.on_reject == "skip":
            return CountRejects(where, limit, has_function=has_function)
        partition = self._task.chunk.store_partition
        return KeepRejects(where, partition, self.rejects_file, limit, has_function=has_function)


def write_receipt(home: Path, receipt: Receipt) -> None:
    """Beside the files that it vouches for, once their names are durable (I1)."""
    folder = chunk_directory(home, receipt.store_partition, receipt.database)
    fsync_directory(folder)
    write_durably(folder / receipt_file(receipt), with_seal(receipt.model_dump_json()).encode())


def receipt_file(receipt: Receipt) -> str:
    """The name of a receipt's file."""
    return f"{receipt.attempt}.receipt.json"


def chunk_directory(home: Path, partition: str, database: str) -> Path:
    """Where the chunks of one RocksDB directory lie in the work_dir."""
    return home / "chunks" / partition / database
