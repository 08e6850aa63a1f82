"""`export`: a store as a Delta table, with a file for each range and the task as partition column, without a JVM."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from migrate.batch.chunk.executor import STARTS, ExecutorOpener, Here, here, run_all
from migrate.batch.chunk.task import PlainTask
from migrate.batch.ledger.table import SharedCommits
from migrate.errors import RefusedError, SourceChangedError, system_errors_explained
from migrate.model.exports import ExportedRange, ExportReport
from migrate.model.reports import Column
from migrate.rows.export_log import PARTITION_COLUMN, ExportLog, check_is_a_table, table_of
from migrate.rows.row_source import RANGE_BYTES, RangeReading, RangeTask, RowSelection, RowSide, RowSource, rows_of_spec
from migrate.spec.spec import Spec
from migrate.stores.files import fsync_directory, fsync_file, make_directories, table_directory
from migrate.stores.rocksdb.c_api import give_memory_back

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(STARTS)
_LOG_SECONDS = 10.0
_ROW_GROUP_BYTES = 32 << 20
_PAGE_BYTES = 256 << 10
"""Of a column, before compression, which a core's cache holds: written in a fifth less time than pages of 1 MiB."""
_MOST_THREADS = 8
"""A tenth of a range's time is Python's own, for which threads wait for one another; processes start in a second."""
_COMPRESSION = "zstd"
"""Of hexadecimal text half the bytes of Snappy's, in a tenth less time; of random bytes as many, in up to half more."""
_OURS = re.compile(r"part-\d{5}-\d{5}-[0-9a-f]{12}\.(snappy|zstd)\.parquet|\.part-.+\.tmp")
"""The files of ranges, also those that a killed export was writing."""


@system_errors_explained()
def export(
    spec: Spec,
    to: str | Path,
    *,
    store: str | None = None,
    side: RowSide | None = None,
    columns: Sequence[str] = (),
    jobs: int = 1,
) -> ExportReport:
    """Write the rows of a store to a Delta table, as its next version.

    Readers see the version once it is complete. An export that was interrupted goes on by the same call: ranges that
    are finished are kept, unless the store has changed since.

    Args:
        spec: the migration, from `load_spec` or built in code.
        to: the directory of the table: a new one, or one with earlier exports of the store.
        store: the store, by its old or its new name, where the spec has several.
        side: the old or the new store, or the snapshot; None: the store that the application uses.
        columns: the columns to write, beside `task`; none: all.
        jobs: how many threads or processes of this machine read and write, whichever get further; 1: this one.

    Raises:
        SpecError: an unknown column or store.
        RefusedError: the directory is something else, or the store is not there.
        SourceChangedError: a store that no application had open has changed meanwhile.
        FencedError: another program has committed to the table meanwhile.
        ConversionError: a record cannot be decoded.
        CorruptionError: a file of the store is damaged.
    """
    begun = time.monotonic()
    table = table_directory(to)
    open_executor = here(jobs)
    check_is_a_table(table)
    _check_apart(spec, table)
    source = rows_of_spec(spec, store, side=side, selection=RowSelection(columns=_with_task(columns)))
    size = min(int(spec.run.chunk_size), RANGE_BYTES)
    made_of = table_of(_table_schema(source.schema), source.store)
    tasks = [_task_of(source, each, table) for each in source.tasks(size)]
    place = f"store {source.store} of {spec.source_path}"
    make_directories(table)
    with _only_one(table) as is_alone:
        log = ExportLog(table, place, made_of, {each.range.task for each in tasks})
        if isinstance(open_executor, Here) and open_executor.jobs <= _MOST_THREADS:
            is_threaded = source.reading.is_threaded([each.range for each in tasks])
            open_executor = replace(open_executor, in_threads=is_threaded)
        ranges, kept = _ranges(log, source, tasks, spec, open_executor, is_alone=is_alone)
        version = log.publish(ranges)
    return ExportReport(
        store=source.store,
        side=source.side or "old",
        table=table,
        version=version,
        columns=tuple(Column(name=field.name, type=str(field.type)) for field in source.schema),
        records=sum(each.records for each in ranges),
        files=sum(bool(each.path) for each in ranges),
        size=sum(each.size for each in ranges),
        ranges=len(ranges),
        kept_ranges=kept,
        seconds=round(time.monotonic() - begun, 3),
    )


def _with_task(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns, with that of the table's partitions."""
    return tuple(columns) if not columns or PARTITION_COLUMN in columns else (PARTITION_COLUMN, *columns)


def _table_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of the table: all nullable, so that a later version may have a null where this one has none."""
    import pyarrow as pa

    return pa.schema([field.with_nullable(True) for field in schema])


def _check_apart(spec: Spec, table: Path) -> None:
    """Raises RefusedError for a table among the files of the application or of the migration."""
    for place in filter(None, (spec.source_path, spec.target_path, spec.home)):
        if table.resolve().is_relative_to(place.resolve()):
            raise RefusedError(
                f"{table} would lie inside {place}, which holds files of the application or of the migration",
                hint="export into a directory beside it",
            )


@contextmanager
def _only_one(table: Path) -> Iterator[bool]:
    """Hold the directory's lock, which ends with the process; whether the file system has such locks.

    Raises RefusedError while another export of this host holds it. Without locks, one of two finds its entry taken.
    """
    descriptor = os.open(table, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RefusedError(
                f"another export into {table} is at work", hint="let it finish, or stop it, and run again"
            ) from error
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class _ExportTask(PlainTask):
    """What a worker needs to write one range."""

    reading: RangeReading
    range: RangeTask
    table: Path
    state: str
    """As `ExportedRange` has it."""
    file: str = ""
    """The file's name, of this attempt alone."""

    @property
    def name(self) -> str:
        return f"{self.range.store_partition}/{self.range.number}"

    @property
    def size(self) -> int:
        return self.range.size

    def __str__(self) -> str:
        return f"range {self.name}"

    def work(self, check: Callable[[], None]) -> ExportedRange:
        """Write the rows to a file, which is durable under its name; a range without rows has none."""
        task = quote(self.range.task, safe="") or "__HIVE_DEFAULT_PARTITION__"
        file = self.table / f"{PARTITION_COLUMN}={task}" / self.file
        temporary = file.with_name(f".{file.name}.tmp")
        make_directories(file.parent)
        try:
            records = self._write(temporary, check)
            if records:
                fsync_file(temporary)
                temporary.replace(file)
                fsync_directory(file.parent)
        finally:
            temporary.unlink(missing_ok=True)
        path, size = (str(file.relative_to(self.table)), file.stat().st_size) if records else ("", 0)
        found = {"name": self.name, "task": self.range.task, "state": self.state}
        return ExportedRange(path=path, size=size, records=records, **found)

    def _write(self, file: Path, check: Callable[[], None]) -> int:
        """Write the rows, in row groups of about so many bytes, and return their number."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = _table_schema(self.reading.rows.schema)
        schema = schema.remove(schema.get_field_index(PARTITION_COLUMN))
        records = size = 0
        together: list[pa.RecordBatch] = []
        options = {"compression": _COMPRESSION, "write_page_checksum": True, "data_page_size": _PAGE_BYTES}
        with file.open("wb") as stream, pq.ParquetWriter(stream, schema, **options) as writer:
            for batch in self.reading.read(self.range):
                check()
                together.append(batch.select(schema.names).cast(schema))
                records += batch.num_rows
                size += batch.nbytes
                if size >= _ROW_GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(together))
                    together, size = [], 0
                    give_memory_back()
            if together:
                writer.write_table(pa.Table.from_batches(together))
        return records


def _task_of(source: RowSource, range_: RangeTask, table: Path) -> _ExportTask:
    pieces = [(each.identity, each.family, each.keys) for each in range_.pieces]
    about = (source.state_of(range_), pieces, source.side, source.schema.to_string())
    state = hashlib.sha256(repr(about).encode()).hexdigest()
    return _ExportTask(source.reading, range_, table, state)


def _ranges(
    log: ExportLog,
    source: RowSource,
    tasks: Sequence[_ExportTask],
    spec: Spec,
    open_executor: ExecutorOpener,
    *,
    is_alone: bool,
) -> tuple[list[ExportedRange], int]:
    """Every range, in a durable file, in order, and how many of them an interrupted export had finished."""
    states = {each.name: each.state for each in tasks}
    done = {name: each for name, each in log.finished().items() if states.get(name) == each.state}
    kept = len(done)
    if is_alone:
        for file in log.unknown_files(_OURS, done.values()):
            file.unlink()
    missing = [
        replace(each, file=f"part-{log.number:05d}-{number:05d}-{uuid.uuid4().hex[:12]}.zstd.parquet")
        for number, each in enumerate(tasks)
        if each.name not in done
    ]
    waiting: SharedCommits[ExportedRange] = SharedCommits(log.keep)
    due = time.monotonic() + _LOG_SECONDS
    with open_executor(spec) as executor:
        try:
            for finished in run_all(executor, missing, name=spec.name):
                for task, result in finished:
                    assert isinstance(task, _ExportTask) and isinstance(result, ExportedRange)
                    _check_unchanged(source, task)
                    done[task.name] = result
                    waiting.add(result)
                waiting.commit_due()
                if time.monotonic() >= due:
                    _LOG.info("%s: %d of %d ranges are written", spec.name, len(done), len(tasks))
                    due = time.monotonic() + _LOG_SECONDS
        finally:
            waiting.commit()
    return [done[each.name] for each in tasks], kept


def _check_unchanged(source: RowSource, task: _ExportTask) -> None:
    """Raises SourceChangedError where ranges of one store partition may be of different moments."""
    if not task.range.is_in_use and _task_of(source, task.range, task.table).state != task.state:
        raise SourceChangedError(
            f"the store partition {task.range.store_partition} has changed while it was exported",
            hint="run the same command again; or export a snapshot: stateferry snapshot SPEC, then --side snapshot",
        )
