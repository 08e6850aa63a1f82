"""Making one store partition of the old store from its changelog, as its owner would restore it.

Records are sorted in memory, as many as fit, and each such run is written as the store's own entries and deletions.
RocksDB takes the runs in the order of their making, and merges them.
"""

from __future__ import annotations

import shutil
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import NamedTuple

from formats import EntryError, get_format
from formats.layout import UNKNOWN_TIME
from formats.record import Version
from migrate.batch.chunk.task import PlainTask
from migrate.batch.stop import never_stop
from migrate.engine.changelog_codec import FromChangelog, RestoredEntries, segment_times
from migrate.engine.key_history import KeyHistory
from migrate.errors import ChunkFailedError
from migrate.kafka.connection import Connection
from migrate.kafka.latest import Latest
from migrate.kafka.reader import read
from migrate.kafka.sorted_runs import sorted_runs
from migrate.model.changelogs import Segments
from migrate.model.key_range import show_key
from migrate.model.restored import Pinned, RestoredStore
from migrate.model.store_partition import WHOLE
from migrate.stores.batch import Batch, ChangelogBatch
from migrate.stores.files import fsync_tree
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.writing import SstWriter, TableOptions, create_database

_RECORD_BYTES = 100
_MEMORY = 48 << 20
_WRITTEN_TOGETHER = 1024
_SIZE, _OFFSET = struct.Struct(">I"), struct.Struct(">q")


class HistoryRules(NamedTuple):
    """How a versioned store keeps former values."""

    retention_ms: int
    """It takes no record that is older than the newest one before it by more, and keeps values that long."""
    segment_ms: int
    """The time that a segment of it covers."""


@dataclass(frozen=True, slots=True)
class RestoreTask(PlainTask):
    """Everything that a worker needs to make one store partition."""

    home: str
    folder: str
    """Where store partitions are made, relative to `home`."""
    connection: Connection
    pinned: Pinned
    format: str
    segments: Segments | None
    """None: the store partition is one RocksDB directory."""
    history: HistoryRules | None = None
    """Of a versioned store."""
    memory: int = _MEMORY

    def __str__(self) -> str:
        return f"{self.pinned.partition.id} from {self.pinned.topic}-{self.pinned.number}"

    @property
    def size(self) -> int:
        return (self.pinned.end - self.pinned.start) * _RECORD_BYTES

    def work(self, check: Callable[[], None] = never_stop) -> RestoredStore:
        """Make the store partition in a folder of its own; it is durable then.

        Raises ChangelogFailedError where the topic cannot be read to its end, ChunkFailedError for a record that is
        none of the format.
        """
        name = f"{self.folder}/{uuid.uuid4().hex[:12]}"
        folder = Path(self.home, name)
        folder.mkdir()  # that of all attempts is gone where a command of another host has taken over
        (folder / "store").mkdir()  # it may get no segment
        try:
            restoring = _Restoring(self, folder) if self.history is None else _RestoringVersions(self, folder)
            found = restoring.store(name, check)
            fsync_tree(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return found


class _Restoring:
    """One attempt."""

    def __init__(self, task: RestoreTask, folder: Path) -> None:
        self._task, self._folder = task, folder
        self._format = get_format(task.format)
        self._restore = FromChangelog(self._format)
        self._segments = task.segments
        self._runs: dict[str, list[Path]] = {} if task.segments is not None else {WHOLE: []}
        """By database, in the order of their making."""
        self._records = self._tombstones = self._expired = 0
        self._last_offset: int | None = None

    def store(self, name: str, check: Callable[[], None]) -> RestoredStore:
        started = time.perf_counter()
        for run, _ in sorted_runs(self._batches(check), self._task.memory):
            self._write_run(run)
        databases = self._kept()
        keys = sum(self._create(database) for database in databases)
        return RestoredStore(
            store_partition=self._task.pinned.partition.id,
            folder=name,
            databases=tuple(databases),
            records=self._records,
            keys=keys,
            tombstones=self._tombstones,
            expired=self._expired,
            last_offset=self._last_offset,
            seconds=round(time.perf_counter() - started, 6),
        )

    def _kept(self) -> list[str]:
        """The databases, the oldest first, without segments that have expired since they were written."""
        if self._segments is None:
            return [*self._runs]
        return self._segments.having(self._runs).reaching(None).oldest_first

    def _batches(self, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        """Records, of which the last one of each key counts."""
        return self._read(check)

    def _read(self, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        pinned = self._task.pinned
        for batch in read(self._task.connection, pinned.topic, pinned.number, pinned.start, pinned.end, check=check):
            assert batch.offsets is not None
            self._last_offset = batch.offsets[-1]
            self._records += len(batch)
            self._tombstones += batch.values.count(None)
            yield batch

    def _write_run(self, records: ChangelogBatch) -> None:
        """Write the last record of each key since the run before."""
        if not len(records):
            return
        if self._segments is None:
            self._write(WHOLE, records)
            return
        times = segment_times(self._task, self._format, records.keys)
        self._segments = self._segments.reaching(max(times))
        masks, expired = self._segments.masks(times)
        self._expired += expired
        for name, mask in masks.items():
            self._write(name, records.where(mask))

    def _write(self, database: str, records: ChangelogBatch) -> None:
        runs = self._runs.setdefault(database, [])
        path = self._folder / f"run-{len(self._runs)}-{len(runs)}.sst"
        writer = SstWriter(path, TableOptions())
        for at in range(0, len(records), _WRITTEN_TOGETHER):
            some = records.part(at, at + _WRITTEN_TOGETHER)
            entries = self._entries(some)
            if len(entries.puts) == len(some) or not runs:  # below the first run there is nothing to delete
                writer.write(entries.puts)
            else:
                found = dict(zip(entries.puts.keys, entries.puts.values, strict=True))
                writer.write_changes(some.keys, list(map(found.get, some.keys)))
        runs += writer.finish()

    def _entries(self, records: ChangelogBatch) -> RestoredEntries:
        """The entries of records. Raises ChunkFailedError for one of another format."""
        try:
            return self._restore(records)
        except EntryError as error:
            raise ChunkFailedError(
                f"{self._task}: a record between the keys {show_key(records.keys[0])} and {show_key(records.keys[-1])} "
                f"is none of {self._format.id}: {error}",
                hint="is [source] format the format that the store had?",
            ) from error

    def _create(self, database: str) -> int:
        """Make a RocksDB directory below `store` in the folder; returns how many records it has."""
        assert self._format.column_families is not None
        family = self._format.column_families[0]
        directory = self._folder / "store" / database
        create_database(directory, {family: TableOptions()}, {family: self._runs[database]}, {}, is_compacted=True)
        with open_read_only(directory) as opened:
            return opened.proven_records(family) or 0


class _RestoringVersions(_Restoring):
    """One attempt at a versioned store: its records are the history of their keys, each in the changelog's order."""

    def __init__(self, task: RestoreTask, folder: Path) -> None:
        super().__init__(task, folder)
        assert task.history is not None
        self._history = task.history
        self._newest_ms = -1

    def _batches(self, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        """The store's own entries, in the place of records. All records are read before the first one comes."""
        key_by_key = map(_key_by_key, map(self._in_time, self._read(check)))
        with Latest.build(key_by_key, self._folder / "sorted", memory=self._task.memory) as sorted_records:
            self._tombstones = 0  # they are versions
            entries = self._entries_of(sorted_records.scan())
            while some := [*islice(entries, _WRITTEN_TOGETHER)]:
                check()
                keys, values = zip(*some, strict=True)
                yield ChangelogBatch([*keys], values, [UNKNOWN_TIME] * len(keys))

    def _in_time(self, batch: ChangelogBatch) -> ChangelogBatch:
        """Those records that the owner takes when it has seen the ones before."""
        newest = [*accumulate(batch.timestamps, max, initial=self._newest_ms)]
        self._newest_ms = newest[-1]
        oldest = [each - self._history.retention_ms for each in newest]
        kept = batch.where([time >= least for time, least in zip(batch.timestamps, oldest, strict=False)])
        self._expired += len(batch) - len(kept)
        return kept

    def _entries_of(self, batches: Iterator[ChangelogBatch]) -> Iterator[tuple[bytes, bytes]]:
        retention_ms, segment_ms = self._history
        oldest = (self._newest_ms - retention_ms) // segment_ms
        records = (each for batch in batches for each in zip(batch.keys, batch.timestamps, batch.values, strict=True))
        for prefix, mine in groupby(records, lambda each: each[0][: -_OFFSET.size]):
            history = KeyHistory(segment_ms)
            for _, timestamp, value in mine:
                history.put(Version(timestamp, value))
            yield from history.entries(self._format, prefix[_SIZE.size :], oldest)

    def _entries(self, records: ChangelogBatch) -> RestoredEntries:
        return RestoredEntries(Batch(records.keys, [value for value in records.values if value is not None]), [], [])


def _key_by_key(batch: ChangelogBatch) -> ChangelogBatch:
    """The records under keys by which those of one key are together, in the order of their offsets."""
    assert batch.offsets is not None
    places = zip(batch.keys, batch.offsets, strict=True)
    keys = [b"".join([_SIZE.pack(len(key)), key, _OFFSET.pack(offset)]) for key, offset in places]
    return replace(batch, keys=keys, headers=None)
