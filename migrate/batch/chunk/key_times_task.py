"""Making the run of one store partition, with the time of each of its keys, from its changelog (`engine.key_times`)."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from formats import get_format
from migrate.batch.stop import never_stop
from migrate.engine.changelog_codec import placed
from migrate.engine.columns import pack_times
from migrate.engine.key_times import pack_block, read_block
from migrate.engine.portable import RecordDigest
from migrate.errors import CorruptionError, RefusedError
from migrate.kafka.connection import Connection
from migrate.kafka.latest import MEMORY, Latest
from migrate.kafka.reader import read
from migrate.model.changelogs import Changelog, Times
from migrate.stores.batch import Batch, ChangelogBatch
from migrate.stores.files import fsync_tree, make_directories
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, open_read_only
from migrate.stores.rocksdb.writing import SstWriter, TableOptions, create_database

_RECORD_BYTES = 100


@dataclass(frozen=True, slots=True)
class TimesTask:
    """Everything that a worker needs to make the run of one store partition."""

    home: str
    folder: str
    """Where runs of this store partition are made, relative to `home`."""
    changelog: Changelog
    connection: Connection
    start: int
    end: int
    format: str
    """The old store's."""
    known: Times | None = None
    """The run that the ledger names: it is made again only if it is damaged."""
    memory: int = MEMORY

    def __str__(self) -> str:
        return f"{self.changelog.store_partition} times of {self.changelog.topic}-{self.changelog.number}"

    @property
    def size(self) -> int:
        return (self.end - self.start) * _RECORD_BYTES


def make_times(task: TimesTask, check: Callable[[], None] = never_stop) -> Times:
    """The run that is known, if it is as it was written; else a new one, which is durable then.

    Attempts write to folders of their own, so that concurrent ones do not disturb each other. Raises
    ChangelogFailedError where the changelog cannot be read to its end.
    """
    if task.known is not None and _is_as_written(Path(task.home), task.known, check):
        return task.known
    started = time.perf_counter()
    name = f"{task.folder}/times-{uuid.uuid4().hex[:12]}"
    folder = Path(task.home, name)
    make_directories(folder)
    changelog, newest = task.changelog, -1

    def seen() -> Iterator[ChangelogBatch]:
        nonlocal newest
        there = read(task.connection, changelog.topic, changelog.number, task.start, task.end, check=check)
        for batch in placed(get_format(task.format).changelog_form, there):
            newest = max(newest, *batch.timestamps)
            yield batch

    try:
        with Latest.build(seen(), folder / "latest", memory=task.memory, values_too=False) as latest:
            digest = _write_run(folder, latest, check)
        fsync_tree(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Times(
        store_partition=changelog.store_partition,
        folder=name,
        start=task.start,
        end=task.end,
        records=latest.records,
        keys=digest.records,
        newest_ms=newest if latest.records else None,
        digest=str(digest),
        seconds=round(time.perf_counter() - started, 6),
    )


def _write_run(folder: Path, latest: Latest, check: Callable[[], None]) -> RecordDigest:
    digest, writer = RecordDigest(), SstWriter(folder / "times.sst", TableOptions())
    for records in latest.scan():
        check()
        alive = records.where([value is not None for value in records.values])
        if keys := alive.keys:
            times = list(pack_times(alive.timestamps))
            writer.write(Batch([keys[-1]], [pack_block(keys, times)]))
            digest.update(Batch(keys, times))
    create_database(folder, {}, {DEFAULT_FAMILY: writer.finish()}, {})
    return digest


def _is_as_written(home: Path, known: Times, check: Callable[[], None]) -> bool:
    digest = RecordDigest()
    try:
        with open_read_only(home / known.folder) as run:
            for batch in run.batches(DEFAULT_FAMILY):
                check()
                for block in batch.values:
                    digest.update(Batch(*read_block(block)))
    except (CorruptionError, RefusedError):
        return False
    return str(digest) == known.digest
