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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import repeat
from pathlib import Path
from struct import Struct

from formats.encoding.headers import Headers
from migrate.model.key_range import KeyRange
from migrate.stores.batch import Batch, ChangelogBatch, RecordHeaders
from migrate.stores.files import make_directories
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database, open_read_only
from migrate.stores.rocksdb.writing import SstWriter, TableOptions, create_database

MEMORY = 256 << 20
_OVERHEAD = 350
"""Bytes of memory that a record without headers takes besides its key and value: four objects, a place in the dict."""
_SCAN_RECORDS = 1024
_HEAD = Struct(">qqB")
_SIZE = Struct(">I")
_VALUE, _HEADERS = 1, 2

_Record = tuple[bytes | None, int, int, RecordHeaders | None]
"""Value, timestamp, offset, headers."""


class Latest:
    """The last record of each key, made by `build`."""

    def __init__(self, folder: Path, *, memory: int, values_too: bool) -> None:
        self.records = 0
        """The number of records added."""
        self._folder = folder
        self._memory = memory
        self._values_too = values_too
        self._recent: dict[bytes, _Record] = {}
        self._taken = 0
        self._runs: list[Path] = []
        self._sorted: list[bytes] = []
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
        latest = cls(folder, memory=memory, values_too=values_too)
        with ExitStack() as opened:
            opened.callback(shutil.rmtree, folder, ignore_errors=True)
            for batch in batches:
                latest._add(batch)
            latest._finish(opened)
            yield latest

    def scan(self, keys: KeyRange | None = None) -> Iterator[ChangelogBatch]:
        """The last record of each key in the range, in key order, with offsets; tombstones too."""
        if self._database is None:
            yield from self._scan_memory(keys or KeyRange())
            return
        for batch in self._database.batches(DEFAULT_FAMILY, keys):
            yield unpacked(batch)

    def _add(self, batch: ChangelogBatch) -> None:
        offsets = batch.offsets or repeat(0, len(batch))
        headers: Iterable[RecordHeaders | None] = repeat(None, len(batch))
        values = batch.values
        if not self._values_too:
            values = [None if value is None else b"" for value in values]
        elif batch.headers is not None:
            headers = batch.headers
        self.records += len(batch)
        self._taken += _size(batch.keys) + _size(values) + len(batch) * _OVERHEAD
        self._recent.update(zip(batch.keys, zip(values, batch.timestamps, offsets, headers, strict=True), strict=True))
        if self._taken > self._memory:
            self._make_room()

    def _make_room(self) -> None:
        """Write a run, unless half of what was counted is of records that later ones have replaced."""
        values = [record[0] for record in self._recent.values()]
        self._taken = _size(self._recent) + _size(values) + len(values) * _OVERHEAD
        if self._taken > self._memory // 2:
            self._write_run()

    def _write_run(self) -> None:
        make_directories(self._folder)
        run = self._folder / f"{len(self._runs)}.sst"
        writer = SstWriter(run, TableOptions())
        self._sorted = sorted(self._recent)
        for batch in self._scan_memory(KeyRange()):
            writer.write(Batch(batch.keys, packed(batch)))
        writer.finish()
        self._runs.append(run)
        self._recent, self._sorted, self._taken = {}, [], 0

    def _finish(self, opened: ExitStack) -> None:
        if not self._runs:
            self._sorted = sorted(self._recent)
            return
        if self._recent:
            self._write_run()
        directory = self._folder / "db"
        create_database(directory, {}, {DEFAULT_FAMILY: self._runs}, {})
        self._database = opened.enter_context(open_read_only(directory))

    def _scan_memory(self, keys: KeyRange) -> Iterator[ChangelogBatch]:
        start = 0 if keys.start is None else bisect_left(self._sorted, keys.start)
        end = len(self._sorted) if keys.end is None else bisect_left(self._sorted, keys.end)
        for at in range(start, end, _SCAN_RECORDS):
            found = self._sorted[at : min(at + _SCAN_RECORDS, end)]
            values, timestamps, offsets, headers = zip(*map(self._recent.__getitem__, found), strict=True)
            yield ChangelogBatch(found, values, timestamps, _none_if_empty(headers), offsets)


def _size(column: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, column)))


def _none_if_empty(headers: Sequence[RecordHeaders | None]) -> list[RecordHeaders] | None:
    return [each or [] for each in headers] if any(headers) else None


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
