"""Tails: what the application wrote to a changelog after its snapshot, read, reduced, converted and written again.

A tail is made of sorted runs, one for each column family of a RocksDB directory: SST files with the entries of
`kafka.latest`. The key is the new store's, the timestamp and the offset are the old record's, the value is the new one;
none: the new store has no such key any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from formats import EntryError, get_format
from migrate.batch.chunk.rewrite_chunk import Attempt, ConvertingTask
from migrate.batch.stop import never_stop
from migrate.engine.changelog_codec import (
    FromChangelog,
    RestoredEntries,
    ToChangelog,
    by_family,
    family_prefix,
    placed,
    plain_key,
    segment_times,
    tombstones,
    with_prefix,
)
from migrate.engine.columns import pack_times
from migrate.engine.portable import Converter, RecordDigest
from migrate.engine.rejects import RecordRejectedError
from migrate.errors import ChunkFailedError, RejectedError
from migrate.kafka.connection import Connection
from migrate.kafka.latest import Latest, packed, unpacked
from migrate.kafka.reader import read
from migrate.model.changelogs import Changelog, Segments, Tail, TailFile
from migrate.model.key_range import show_key
from migrate.model.plan import FamilyMapping
from migrate.model.store_partition import WHOLE
from migrate.spec.fingerprint import checked_code
from migrate.stores.batch import Batch, ChangelogBatch
from migrate.stores.files import fsync_tree
from migrate.stores.rocksdb.database import DEFAULT_FAMILY
from migrate.stores.rocksdb.openings import open_tables
from migrate.stores.rocksdb.writing import SstWriter, TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TailTask(ConvertingTask):
    """Everything that a worker needs to make the tail of one store partition."""

    folder: str
    """Relative to `home`."""
    connection: Connection
    changelog: Changelog
    number: int
    start: int
    end: int
    segments: Segments | None
    """None: the store partition is one RocksDB directory."""
    takes_times: bool = False
    """Whether the new store's timestamps are those of the records, where the old one has none."""
    size: int = 0
    """About how many bytes the task reads."""

    def __str__(self) -> str:
        return f"tail {self.number} of {self.changelog.store_partition}"


def read_tail(task: TailTask, check: Callable[[], None] = never_stop) -> Tail:
    """Make a tail; it is durable then. Attempts have files of their own, so that they do not disturb each other.

    Raises ChangelogFailedError where the changelog cannot be read to the end, ChunkFailedError, DroppedError or
    RejectedError where it cannot be converted.
    """
    making = _Making(task)
    there = read(task.connection, task.changelog.topic, task.changelog.number, task.start, task.end, check=check)
    records = placed(making.conversion.source.changelog_form, there)
    try:
        with Latest.build(records, making.folder / f"{making.name}.latest") as latest:
            tail = making.tail(latest, check)
        checked_code(task.conversion)
    except BaseException as error:
        making.discard()
        if isinstance(error, RecordRejectedError):  # of no chunk: a replay has none to begin with
            raise RejectedError(error.message, hint=error.hint) from error
        raise
    fsync_tree(making.folder)
    return tail


class _Making(Attempt):
    """One attempt at a tail."""

    def __init__(self, task: TailTask) -> None:
        super().__init__(task, task.number, task.changelog.store_partition, Path(task.home, task.folder))
        self._task, conversion = task, self.conversion
        self._is_timed = task.takes_times and conversion.takes_times
        program = conversion.timed_program if self._is_timed else conversion.program
        self._converters = {
            mapping: Converter(conversion, program, self.rejects, mapping.source, left_out=self.left_out)
            for mapping in task.mappings
        }
        self._restore = FromChangelog(conversion.source)
        self._runs: dict[tuple[str, str], _Run] = {}
        self._keys = self._expired = 0

    def tail(self, latest: Latest, check: Callable[[], None]) -> Tail:
        task, segments = self._task, self._task.segments
        if segments is not None:
            times = (max(segment_times(task, self.conversion.source, batch.keys)) for batch in latest.scan())
            newest = max(times, default=None)
            segments = segments.reaching(newest)
        for batch in latest.scan():
            check()
            self._keys += len(batch)
            for mapping, records in self._by_mapping(batch):
                entries = self._converted(mapping, records)
                if segments is None:
                    self._write(WHOLE, mapping.target, entries)
                    continue
                masks, expired = segments.masks(segment_times(task, self.conversion.source, records.keys))
                self._expired += expired
                for name, mask in masks.items():
                    self._write(name, mapping.target, entries.where(mask))
        return Tail(
            store_partition=task.changelog.store_partition,
            number=task.number,
            start=task.start,
            end=task.end,
            records=latest.records,
            keys=self._keys,
            expired=self._expired,
            newest_ms=None if segments is None else segments.newest_ms,
            databases=(WHOLE,) if segments is None else self._segments(segments),
            files=tuple(run.finish(self.relative(run.path)) for run in self._runs.values()),
            **self.facts(),
        )

    def _segments(self, segments: Segments) -> tuple[str, ...]:
        """The segments with the tail, the oldest first."""
        return tuple(segments.having(name for name, _ in self._runs).oldest_first)

    def _by_mapping(self, batch: ChangelogBatch) -> Iterator[tuple[FamilyMapping, ChangelogBatch]]:
        """The records of each family, under their own keys. Raises ChunkFailedError for those of another family."""
        form, mappings = self.conversion.source.changelog_form, self._task.mappings
        if form.family_header is None:
            yield mappings[0], batch
            return
        known = {family_prefix(form, mapping.source): mapping for mapping in mappings}
        there = [key[: key.index(b"\0") + 1] for key in batch.keys]
        for prefix in dict.fromkeys(there):
            if prefix not in known:
                raise ChunkFailedError(
                    f"{self._task}: the changelog has records of the column family {prefix[:-1].decode()!r}, and "
                    f"{self.conversion.source.id} has none of that name",
                    hint="is [source] format the format that the store has?",
                )
            found = batch.where([each == prefix for each in there])
            yield known[prefix], replace(found, keys=[plain_key(form, key) for key in found.keys])

    def _converted(self, mapping: FamilyMapping, batch: ChangelogBatch) -> ChangelogBatch:
        """For each record the new key, and the new value; None: the new store has no such key.

        Raises ChunkFailedError where the conversion makes other keys of records than of keys alone: what it made of
        the record before cannot be found then.
        """
        old = self._restored(mapping, batch)
        times = pack_times(old.times) if self._is_timed else None
        converted = self._converters[mapping](old.puts, times) if len(old.puts) else old.puts
        keys = [self._new_key(key) for key in batch.keys]
        found = dict(zip(converted.keys, converted.values, strict=True))
        if strays := found.keys() - {*keys}:
            raise ChunkFailedError(
                f"{self._task}: the function makes the key {show_key(min(strays))} of a record of another key",
                hint='a catch-up needs a function that keeps keys: set [run] source to "live", and migrate once the '
                "application has stopped for good",
            )
        return ChangelogBatch(keys, [found.get(key) for key in keys], batch.timestamps, None, batch.offsets)

    def _restored(self, mapping: FamilyMapping, batch: ChangelogBatch) -> RestoredEntries:
        """The old entries, without those of another form, which are rejected."""
        try:
            return self._restore(batch)
        except EntryError:
            pass
        puts, times = Batch([], []), []
        for at, key in enumerate(batch.keys):
            try:
                found = self._restore(batch.part(at, at + 1))
            except EntryError as error:
                self.rejects.add(mapping.source, key, batch.values[at] or b"", str(error), error.place)
                continue
            puts.keys.extend(found.puts.keys)
            puts.values.extend(found.puts.values)
            times += found.times
        return RestoredEntries(puts, times, [])

    def _new_key(self, key: bytes) -> bytes:
        try:
            return self.conversion.convert_key(key)
        except EntryError:
            return key  # its record was rejected, now and in the snapshot: there is nothing to delete

    def _write(self, database: str, family: str, entries: ChangelogBatch) -> None:
        if (database, family) not in self._runs:
            path = self.folder / f"{self.name}.{len(self._runs)}.sst"
            self._runs[database, family] = _Run(database, family, path)
        self._runs[database, family].write(entries)


class _Run:
    """One sorted run."""

    def __init__(self, database: str, family: str, path: Path) -> None:
        self.path = path
        self._database, self._family = database, family
        self._writer = SstWriter(path, TableOptions())
        self._digest = RecordDigest()
        self._deletes = 0

    def write(self, entries: ChangelogBatch) -> None:
        batch = Batch(entries.keys, packed(entries))
        self._writer.write(batch)
        self._digest.update(batch)
        self._deletes += list(entries.values).count(None)

    def finish(self, name: str) -> TailFile:
        self._writer.finish()
        return TailFile(
            database=self._database,
            family=self._family,
            file=name,
            records=self._digest.records,
            deletes=self._deletes,
            digest=str(self._digest),
        )


@dataclass(frozen=True, slots=True)
class TailEntries:
    """What tails that follow each other mean for the new changelog, in a form that a task can carry."""

    home: str
    tails: tuple[Tail, ...]
    format: str

    @property
    def is_in_order_of_time(self) -> bool:
        """No: of each key there is one record."""
        return False

    def records(self, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        """The changelog records in key order, and tombstones in key order among them."""
        convert = ToChangelog(get_format(self.format))
        for prefix, entries in self._entries(check):
            puts = entries.where([value is not None for value in entries.values])
            if len(puts):
                found = convert(Batch(puts.keys, cast("list[bytes]", puts.values)), puts.timestamps)
                yield with_prefix(found, prefix)
            yield from self._gone(with_prefix(entries, prefix))

    def tombstones(self, _: object, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        for prefix, entries in self._entries(check):
            yield from self._gone(with_prefix(entries, prefix))

    def _gone(self, entries: ChangelogBatch) -> Iterator[ChangelogBatch]:
        gone = entries.where([value is None for value in entries.values])
        if len(gone):
            yield tombstones(get_format(self.format).changelog_form, gone.keys, gone.timestamps)

    def _entries(self, check: Callable[[], None]) -> Iterator[tuple[bytes, ChangelogBatch]]:
        every = [file for tail in self.tails for file in tail.files]
        for prefix, families in by_family(get_format(self.format).changelog_form, (each.family for each in every)):
            files = [Path(self.home, each.file) for each in every if each.family in families]
            if not files:
                continue
            with open_tables(files, files[-1].with_suffix(f".{uuid.uuid4().hex[:8]}.opened")) as runs:
                for batch in runs.batches(DEFAULT_FAMILY):
                    check()
                    yield prefix, unpacked(batch)
