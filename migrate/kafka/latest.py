"""The last record of each key of a stream of changelog records, in bounded memory.

What does not fit in memory is written as sorted runs. One RocksDB directory takes them in the order of their making,
and so shows the last entry of each key. An entry is a record without its key:

| offset | size | field                                                                        |
|--------|------|------------------------------------------------------------------------------|
| 0      | 8    | timestamp in milliseconds, big-endian; -1: unknown                           |
| 8      | 8    | offset in the topic partition, big-endian                                    |
| 16     | 1    | what follows: 0 nothing (a tombstone), 1 a value; 2 more: headers before it  |
| 17     | 4    | size of the headers, big-endian; only if there are headers                   |
| 21     | ...  | the headers, as `formats.encoding.headers` packs them                        |
| then   | ...  | the value                                                                    |
"""

from __future__ import annotations

import shutil
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from struct import Struct

from formats.encoding.headers import Headers
from migrate.kafka.sorted_runs import sorted_runs
from migrate.model.key_range import KeyRange
from migrate.stores.batch import Batch, ChangelogBatch, RecordHeaders
from migrate.stores.files import make_directories
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database, open_read_only
from migrate.stores.rocksdb.writing import SstWriter, TableOptions, create_database

MEMORY = 256 << 20
_SCAN_RECORDS = 1024
_HEAD = Struct(">qqB")
_SIZE = Struct(">I")
_VALUE, _HEADERS = 1, 2


class Latest:
    """The last record of each key, made by `build`."""

    def __init__(self, folder: Path) -> None:
        self.records = 0
        """The number of records added."""
        self._folder = folder
        self._runs: list[Path] = []
        self._recent = ChangelogBatch([], [], [], None, [])
        """All of them, where memory suffices."""
        self._database: Database | None = None

    @classmethod
    @contextmanager
    def build(
        cls, batches: Iterable[ChangelogBatch], folder: Path, *, memory: int = MEMORY, values_too: bool = True
    ) -> Iterator[Latest]:
        """The last record of each key of these batches. An unknown offset becomes 0.

        Args:
            batches: Records in the order of their offsets.
            folder: Does not exist; it is made only if memory does not suffice, and removed at the end.
            memory: About the most bytes that records take in memory.
            values_too: False: empty values are kept in place of the records', and no headers.
        """
        latest = cls(folder)
        with ExitStack() as opened:
            opened.callback(shutil.rmtree, folder, ignore_errors=True)
            seen = latest._counted(batches)
            for run, is_last in sorted_runs(seen if values_too else map(_without_values, seen), memory):
                if is_last and not latest._runs:
                    latest._recent = run
                elif len(run):
                    latest._write_run(run)
            latest._open(opened)
            yield latest

    def scan(self, keys: KeyRange | None = None) -> Iterator[ChangelogBatch]:
        """The last record of each key in the range, in key order, with offsets; tombstones too."""
        if self._database is None:
            yield from self._scan_memory(keys or KeyRange())
            return
        for batch in self._database.batches(DEFAULT_FAMILY, keys):
            yield unpacked(batch)

    def _counted(self, batches: Iterable[ChangelogBatch]) -> Iterator[ChangelogBatch]:
        for batch in batches:
            self.records += len(batch)
            yield batch

    def _write_run(self, run: ChangelogBatch) -> None:
        make_directories(self._folder)
        path = self._folder / f"{len(self._runs)}.sst"
        writer = SstWriter(path, TableOptions())
        for batch in _parts(run, 0, len(run)):
            writer.write(Batch(batch.keys, packed(batch)))
        writer.finish()
        self._runs.append(path)

    def _open(self, opened: ExitStack) -> None:
        if self._runs:
            directory = self._folder / "db"
            create_database(directory, {}, {DEFAULT_FAMILY: self._runs}, {})
            self._database = opened.enter_context(open_read_only(directory))

    def _scan_memory(self, keys: KeyRange) -> Iterator[ChangelogBatch]:
        there = self._recent.keys
        start = 0 if keys.start is None else bisect_left(there, keys.start)
        end = len(there) if keys.end is None else bisect_left(there, keys.end)
        yield from _parts(self._recent, start, end)


def _parts(run: ChangelogBatch, start: int, end: int) -> Iterator[ChangelogBatch]:
    for at in range(start, end, _SCAN_RECORDS):
        part = run.part(at, min(at + _SCAN_RECORDS, end))
        yield part if part.headers is None or any(part.headers) else replace(part, headers=None)


def _without_values(batch: ChangelogBatch) -> ChangelogBatch:
    values = [None if value is None else b"" for value in batch.values]
    return replace(batch, values=values, headers=None)


def packed(batch: ChangelogBatch) -> list[bytes]:
    """The entry of each record, whose offset is known."""
    assert batch.offsets is not None
    kinds = [value is not None for value in batch.values]
    heads = map(_HEAD.pack, batch.timestamps, batch.offsets, kinds)
    if batch.headers is None:
        return [head + (value or b"") for head, value in zip(heads, batch.values, strict=True)]
    records = zip(heads, batch.values, batch.headers, strict=True)
    return [_with_headers(head, headers) + (value or b"") for head, value, headers in records]


def _with_headers(head: bytes, headers: RecordHeaders) -> bytes:
    if not headers:
        return head
    encoded = Headers.of(headers).encoded
    return head[:-1] + bytes([head[-1] | _HEADERS]) + _SIZE.pack(len(encoded)) + encoded


def unpacked(batch: Batch) -> ChangelogBatch:
    """The records of entries, with offsets."""
    size = _HEAD.size
    timestamps, offsets, kinds = zip(*map(_HEAD.unpack_from, batch.values), strict=True)
    if max(kinds) < _HEADERS:
        entries = zip(batch.values, kinds, strict=True)
        return ChangelogBatch(
            batch.keys, [entry[size:] if kind else None for entry, kind in entries], timestamps, None, offsets
        )
    values, headers = zip(*map(_unpacked_one, batch.values, kinds), strict=True)
    return ChangelogBatch(batch.keys, values, timestamps, headers, offsets)


def _unpacked_one(entry: bytes, kind: int) -> tuple[bytes | None, RecordHeaders]:
    at, headers = _HEAD.size, Headers()
    if kind & _HEADERS:
        start = at + _SIZE.size
        at = start + _SIZE.unpack_from(entry, at)[0]
        headers = Headers(entry[start:at])
    return entry[at:] if kind & _VALUE else None, list(headers)
