"""Rewriting one chunk: scan, convert, write sorted SST files, and write a receipt once they are durable (I1)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from migrate.batch.chunk.native_trace import Trace
from migrate.batch.stop import never_stop
from migrate.engine.chunk_source import Inputs
from migrate.engine.engine import FamilyWork, Hooks, OnRecord, Passed, rewrite
from migrate.engine.left_out import LeftOut
from migrate.engine.new_parts import NewPart, rewrite_parts
from migrate.engine.portable import scan
from migrate.engine.rejects import RecordRejectedError, reject_policy
from migrate.errors import ChunkFailedError, CorruptionError
from migrate.model.engine_choice import EngineSetting
from migrate.model.plan import Chunk, FamilyMapping, KeyPlace, Share, elsewhere
from migrate.model.receipt import Receipt, Scanned, Written, attempt_name
from migrate.model.values import with_seal
from migrate.spec.conversion import load_conversion
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.fingerprint import checked_code
from migrate.spec.partitioner import checked_partitioner
from migrate.stores.files import content_digest, make_directories, write_durably
from migrate.stores.rocksdb.writing import KeyOrderError, TableOptions

_RESTORE = (
    "restore this store's files, as they were, from a backup and rerun: what is finished is kept; or let the store's "
    "owner rebuild it, and start over with another work_dir"
)
MOST_PARTS = 64
"""So many new store partitions are made, or compared, by one pass: each has files open, with their buffers."""
_LENGTH_SIZE = 4
"""Bytes of the key's length in a breadcrumb: the trace of the record at which a worker has died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertingTask:
    """What a worker needs to convert records, whatever they come from, into files of the migration."""

    home: str
    run_id: str
    mappings: tuple[FamilyMapping, ...]
    conversion: ConversionRef
    revision: str = ""
    """The revision of the conversion; empty: the first one."""
    on_reject: Literal["fail", "skip", "dead-letter"] = "fail"
    max_rejects: int | None = None
    key_place: KeyPlace | None = None
    """Where new keys belong; None: they are not checked."""
    max_dropped: int | None = None
    """How many records the function may drop; None: any number."""
    partitioner: ConversionRef | None = None
    """The user's partitioner, where the number of partitions changes; None: a known one."""


class Attempt:
    """One attempt at such a task: the records that it leaves out, and its files, which no other attempt names."""

    def __init__(self, task: ConvertingTask, number: int, partition: str, folder: Path) -> None:
        self._started = time.perf_counter()
        make_directories(folder)
        self.name = attempt_name(task.run_id, number)
        self.folder = folder
        self.conversion = replace(load_conversion(task.conversion), elsewhere=elsewhere(task.key_place))
        self.left_out = LeftOut(str(task), task.max_dropped)
        self._rejects_file = folder / f"{self.name}.rejects.parquet"
        has_function = task.conversion.function is not None
        where = (str(task), partition, self._rejects_file, task.max_rejects)
        self.rejects = reject_policy(task.on_reject, *where, has_function=has_function)
        self._home, self._revision = task.home, task.revision
        self.sharers = 1
        """How many attempts share one pass, and its time."""

    def facts(self) -> dict[str, Any]:
        """What a receipt says of every attempt that has ended; the file of rejects is durable then."""
        kept = self.rejects.finish()
        return {
            "dropped": self.left_out.dropped,
            "dropped_keys": self.left_out.first_keys,
            "not_carried": self.left_out.not_carried,
            "rejected": self.rejects.count,
            "reasons": self.rejects.reasons,
            "rejects_file": self.relative(self._rejects_file) if kept else None,
            "rejects_digest": content_digest(self._rejects_file) if kept else None,
            "revision": self._revision,
            "seconds": round((time.perf_counter() - self._started) / self.sharers, 6),
        }

    def relative(self, file: Path) -> str:
        return str(file.relative_to(self._home))

    def discard(self) -> None:
        """Remove the attempt's files, which no row will name."""
        for file in self.folder.glob(f"{self.name}.*.*"):
            file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask(ConvertingTask):
    """Everything that a worker needs to rewrite one chunk."""

    source: Inputs
    """The directories of the snapshot."""
    migration_id: str
    chunk: Chunk
    is_kept: bool = True
    """False: the records are older than the new store's retention, and are only counted."""
    engine: EngineSetting = "auto"
    breadcrumb: str | None = None
    """A file to write each key to before its record is converted: set once a worker has died on this chunk."""

    def __str__(self) -> str:
        return str(self.chunk)

    @property
    def size(self) -> int:
        return self.chunk.estimated_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask(RewriteTask):
    """A key range of old store partitions that one pass rewrites into a chunk of each of several new ones.

    `chunk` and `source` are those of the first new one.
    """

    parts: tuple[tuple[Chunk, Share], ...]
    """The chunks, all of one key range, and what belongs in each."""

    def of_parts(self) -> Iterator[RewriteTask]:
        """The same work as a task for each chunk."""
        shared = {each.name: getattr(self, each.name) for each in fields(RewriteTask)}
        for chunk, share in self.parts:
            yield RewriteTask(**shared | {"chunk": chunk, "source": replace(self.source, share=share)})


def rewrite_chunk(task: RewriteTask, check: Callable[[], None] = never_stop) -> Receipt:
    """Rewrite one chunk. Files are named by attempt, so that concurrent attempts do not disturb each other.

    `check` is called with each batch and may raise. Raises ChunkFailedError, CorruptionError, DroppedError or
    RejectedError, after the attempt's files were removed.
    """
    check_home(task)
    attempt = ChunkAttempt(task, check)
    with discarding(task, [attempt]), _leaving_breadcrumbs(task.breadcrumb) as on_record:
        passed = [attempt.rewrite_family(mapping, on_record) for mapping in task.mappings]
        return attempt.receipt(passed)


def split_chunk(task: SplitTask, check: Callable[[], None] = never_stop) -> tuple[Receipt, ...]:
    """Rewrite one key range of old store partitions into a chunk of each new one, each with a receipt of its own.

    As `rewrite_chunk` otherwise; raises RefusedError for a key that is not in the old store partition where it belongs.
    """
    check_home(task)
    attempts = [ChunkAttempt(each, check) for each in task.of_parts()]
    for each in attempts:
        each.sharers = len(attempts)
    passed = []
    with discarding(task, attempts), _leaving_breadcrumbs(task.breadcrumb) as on_record:
        for mapping in task.mappings:
            parts = [each.part(mapping, on_record) for each in attempts]
            passed.append(rewrite_parts(attempts[0].work(mapping), parts, check))
        return tuple(each.receipt(list(mine)) for each, *mine in zip(attempts, *passed, strict=True))


def check_home(task: RewriteTask) -> None:
    """Raises ChunkFailedError where this host does not see the migration's folder."""
    if not Path(task.home).is_dir():  # only the driver makes it, with its marker
        raise ChunkFailedError(
            f"{task.chunk}: {task.home} does not exist",
            hint="is the work_dir mounted on every worker? was the migration abandoned meanwhile?",
        )


@contextmanager
def discarding(task: RewriteTask, attempts: Sequence[ChunkAttempt]) -> Iterator[None]:
    """Remove the attempts' files where their work ends in an error, which names the chunk."""
    try:
        yield
    except BaseException as error:
        for attempt in attempts:
            attempt.discard()
        if isinstance(error, RecordRejectedError):
            error.chunk = task.chunk
        if isinstance(error, CorruptionError):
            raise CorruptionError(f"{task.chunk}: {error.message}", hint=_RESTORE) from error
        if isinstance(error, KeyOrderError):
            raise ChunkFailedError(f"{task.chunk}: {error.message}", hint=error.hint) from error
        raise


class ChunkAttempt(Attempt):
    """An attempt at one chunk."""

    def __init__(self, task: RewriteTask, check: Callable[[], None]) -> None:
        chunk = task.chunk
        folder = chunk_directory(Path(task.home), chunk.store_partition, chunk.database)
        super().__init__(task, chunk.number, chunk.store_partition, folder)
        self.task, self._check = task, check
        work = ("rewrite", chunk.store_partition, chunk.database)
        self.trace = Trace(task.home, work, chunk.keys, task.engine)

    def receipt(self, passed: Sequence[Passed], more: Mapping[str, Any] | None = None) -> Receipt:
        """The receipt, written beside the files; they, their names and its own are durable then (I1).

        `more`: what it says besides.
        """
        task = self.task
        by_family = list(zip(task.mappings, passed, strict=True))
        receipt = Receipt(
            migration_id=task.migration_id,
            run_id=task.run_id,
            attempt=self.name,
            store_partition=task.chunk.store_partition,
            database=task.chunk.database,
            number=task.chunk.number,
            keys=task.chunk.keys,
            scanned=tuple(Scanned(family=each.source, **found.scanned._asdict()) for each, found in by_family),
            written=tuple(self._written(each, found) for each, found in by_family),
            entries_dropped=self.left_out.entries_dropped,
            expired=0 if task.is_kept else sum(found.scanned.records for found in passed),
            shadowed=sum(found.shadowed for found in passed),
            engine=", ".join(sorted({found.engine for found in passed})),
            is_after_death=self.trace.is_found,
            host=socket.gethostname(),
            code=checked_code(task.conversion),
            **self.facts(),
            **(more or {}),
        )
        write_receipt(Path(task.home), receipt)
        return receipt

    def work(self, mapping: FamilyMapping) -> FamilyWork:
        task, share = self.task, self.task.source.share
        own = None if share is None else checked_partitioner(share.partitioner, task.partitioner)
        return FamilyWork(task.source, mapping, task.chunk.keys, self.conversion, own)

    def rewrite_family(self, mapping: FamilyMapping, on_record: OnRecord) -> Passed:
        work = self.work(mapping)
        if not self.task.is_kept:
            return scan(work, self._check)
        table = TableOptions(compression=mapping.compression)
        return rewrite(self.trace.engines, work, self._hooks(on_record), self.file(mapping), table)

    def part(self, mapping: FamilyMapping, on_record: OnRecord) -> NewPart:
        """This chunk's part of a pass that makes several."""
        table = TableOptions(compression=mapping.compression)
        return NewPart(self.work(mapping), self._hooks(on_record), self.file(mapping), table)

    def _hooks(self, on_record: OnRecord) -> Hooks:
        return Hooks(self._check, self.rejects, self.left_out, on_record, self.trace.left)

    def file(self, mapping: FamilyMapping) -> Path:
        return self.folder / f"{self.name}.{self.task.mappings.index(mapping)}.sst"

    def _written(self, mapping: FamilyMapping, passed: Passed) -> Written:
        file = self.file(mapping)
        return Written(
            family=mapping.target,
            file=self.relative(file) if passed.written.records else None,
            file_size=file.stat().st_size if passed.written.records else 0,
            **passed.written._asdict(),
            first_key=passed.first_key,
            last_key=passed.last_key,
        )


@contextmanager
def _leaving_breadcrumbs(file: str | None) -> Iterator[OnRecord]:
    """The function to call with each key before its record is converted; None without a file for the trace."""
    if file is None:
        yield None
        return
    crumb = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        yield lambda key: os.pwrite(crumb, len(key).to_bytes(_LENGTH_SIZE, "big") + key, 0)
    finally:
        os.close(crumb)


def read_breadcrumb(file: Path) -> bytes | None:
    """The key whose record a worker was converting when it died; None: the file does not say."""
    content = file.read_bytes() if file.exists() else b""
    if len(content) < _LENGTH_SIZE:
        return None
    return content[_LENGTH_SIZE : _LENGTH_SIZE + int.from_bytes(content[:_LENGTH_SIZE], "big")]


def write_receipt(home: Path, receipt: Receipt) -> None:
    """Write a receipt beside its files, whose content is durable; their folder is synced once, for all names (I1).

    A power cut before may leave the receipt without its files: it does not count then (`has_files`).
    """
    folder = chunk_directory(home, receipt.store_partition, receipt.database)
    write_durably(folder / receipt_file(receipt), with_seal(receipt.model_dump_json()).encode())


def receipt_file(receipt: Receipt) -> str:
    """The name of a receipt's file."""
    return f"{receipt.attempt}.receipt.json"


def chunk_directory(home: Path, partition: str, database: str) -> Path:
    """Where the chunks of one RocksDB directory lie in the work_dir."""
    return home / "chunks" / partition / database
