"""Scans through rocksdict's iterators: batches of records, and the check that a scan ended at the end (I4)."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

from rocksdict import Rdict, RdictIter, ReadOptions

from migrate.errors import CorruptionError, RefusedError
from migrate.library_messages import met_too_many_deleted
from migrate.model.key_range import show_key
from migrate.stores.batch import Batch
from migrate.stores.state_store import Record

MAX_BATCH_RECORDS = 1024
MAX_BATCH_BYTES = 1 << 18
_SMALL = MAX_BATCH_BYTES // MAX_BATCH_RECORDS
READAHEAD = 1 << 17

key_of = itemgetter(0)
Columns = list[tuple[bytes, bytes]]
OnColumns = Callable[[bytes, Columns], bytes]
"""Called with the key and the columns of a wide-column record; returns what stands for its value, or raises."""
COLUMNS_HINT = (
    "no new store can hold such records: let the program that owns the store write plain values in their place; a run "
    'leaves them out, and counts them, with [run] on_reject = "skip" or "dead-letter"'
)


class TooManyTombstonesError(Exception):
    """A seek met more deleted records than `max_skips`."""


class Scan:
    """The records of one family in [start, end), as they were when it was made."""

    def __init__(
        self,
        column: Rdict,
        start: bytes | None,
        end: bytes | None,
        where: str,
        *,
        reverse: bool = False,
        max_skips: int | None = None,
        on_columns: OnColumns | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._start, self._end, self._where, self._reverse = start, end, where, reverse
        self._options = streaming() if start is None and end is None else ReadOptions()
        if max_skips is not None:
            self._options.set_max_skippable_internal_keys(max_skips)
        if end is not None and not reverse:
            # Otherwise a short scan would pass all deleted records after it. RocksDB holds a bare pointer to these
            # bytes: they, and the options, live as long as the iterators do.
            self._options.set_iterate_upper_bound(end)
        first = end if reverse else start
        # A RocksDB iterator uses the handle of its family when it seeks, also after the family was dropped.
        self._column: Rdict | None = column
        # Not from a Snapshot, which rocksdict's iterators ignore. Both see the database as it is now: the store's lock
        # keeps writers out meanwhile.
        self._items: Any = items(column, on_columns, backwards=reverse, from_key=first, read_opt=self._options)
        self._cursor: Any = column.iter(self._options)
        self._last: bytes | None = None

    def pull(self, limit: int) -> list[Record]:
        """The next records, at most `limit`; empty at the end.

        Raises CorruptionError where the scan ended early, TooManyTombstonesError past `max_skips`.
        """
        with self._lock:
            while self._items is not None:
                records = pull_records(self._items, limit)
                if not records:
                    self._check_end()
                    break
                self._last = records[-1][0]
                if self._reverse and records[0][0] == self._end:
                    del records[0]  # a backward scan begins at `end`, which is no part of the range
                self._cut(records)
                if records:
                    return records
            return []

    def columns(self, limit: int) -> Batch | None:
        """The next records as columns, for a scan without an end; None at the end."""
        assert self._end is None
        with self._lock:
            batch = None if self._items is None else pull(self._items, limit)
            if batch is not None:
                self._last = batch.keys[-1]
            elif self._items is not None:
                self._check_end()
            return batch

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _cut(self, records: list[Record]) -> None:
        """Remove the records beyond the range; the scan has ended if there are any."""
        last = self._last
        assert last is not None
        if self._reverse:
            if self._start is not None and last < self._start:
                records.reverse()
                del records[: bisect_left(records, self._start, key=key_of)]
                records.reverse()
                self._drop()
        elif self._end is not None and last >= self._end:
            del records[bisect_left(records, self._end, key=key_of) :]
            self._drop()

    def _check_end(self) -> None:
        first = self._end if self._reverse else self._start
        at = first if self._last is None else self._last
        try:
            check_end(self._cursor, at, self._where, is_record=self._last is not None, backwards=self._reverse)
        except CorruptionError as error:
            if met_too_many_deleted(str(error.__cause__)):
                raise TooManyTombstonesError from error
            raise
        self._drop()

    def _drop(self) -> None:
        self._items = None
        self._cursor = None
        self._column = None


def items(column: Rdict, on_columns: OnColumns | None = None, **options: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - rocksdict's own
    """rocksdict's iterator over the records of a family.

    Of a wide-column record RocksDB gives the column without a name, or nothing, as if it were the value. `on_columns`
    is for stores that may have such records; to look at the columns of each takes half as long again as the scan.
    """
    if on_columns is None:
        return column.items(**options)
    return _with_columns(column.entities(**options), on_columns)


def _with_columns(entities: Iterator[tuple[Any, Any]], on_columns: OnColumns) -> Iterator[tuple[Any, Any]]:
    for key, columns in entities:
        if len(columns) == 1 and not columns[0][0]:  # as `value_of`, without a call
            yield key, columns[0][1]
        else:
            yield key, on_columns(key, columns)


def value_of(key: bytes, columns: Columns, on_columns: OnColumns) -> bytes:
    """The value of a record: that of its only column, which has no name."""
    return columns[0][1] if len(columns) == 1 and not columns[0][0] else on_columns(key, columns)


def refuse_columns(key: bytes, _: Columns) -> bytes:
    """Raises RefusedError: what reads plain values cannot return such a record."""
    raise RefusedError(
        f"the key {show_key(key)} has a wide-column record (RocksDB's PutEntity): named columns, and no value",
        hint=COLUMNS_HINT,
    )


def check_end(cursor: RdictIter, at: bytes | None, where: str, *, is_record: bool, backwards: bool = False) -> None:
    """Check that an iterator ended after `at` because there are no more records, and not by a silent error (I4).

    `cursor`: an iterator of the same time. `at`: the last key that was read, or where the scan started; None: at the
    first record, or backwards at the last. Raises CorruptionError.
    """
    try:
        if at is None:
            cursor.seek_to_last() if backwards else cursor.seek_to_first()
        else:
            cursor.seek_for_prev(at) if backwards else cursor.seek(at)
        if is_record and cursor.valid():
            cursor.prev() if backwards else cursor.next()
        cursor.status()
    except Exception as error:
        raise damaged(where, at, str(error)) from error
    if cursor.valid():
        raise damaged(where, at, "the scan ended before the records did")


def streaming(readahead: int = 0) -> ReadOptions:
    """Options for one pass over the data, which does not fill the cache.

    Memory-mapped reads would save 2 % more, but the whole chunk would count as the worker's memory, which YARN limits,
    and a bad sector would end the process.
    """
    options = ReadOptions()
    options.fill_cache(False)  # type: ignore[call-arg]  # its stub lacks the argument; 5 to 10 % less time
    options.set_readahead_size(readahead)  # 3 % less: one system call for 32 blocks
    return options


def pull(items: Iterator[tuple[Any, Any]], limit: int = MAX_BATCH_RECORDS) -> Batch | None:
    """The next batch: records of the size of the first one, or of any size once one differs; None at the end.

    It has at most `limit` records (at most 1024), and 512 KiB, not counting the last record.

    Two plain loops: appending to two lists costs 20 ns a record, flattening the pairs in C 60. To compare the sizes
    here costs 25 ns and saves 80 later (`Batch.lengths`, `CompiledProgram`). The size of the first record gives the
    number of such records in a batch before the second one is read.
    """
    first = next(items, None)
    if first is None:
        return None
    key, value = first
    key_size, value_size = sizes = len(key), len(value)
    keys, values = [key], [value]
    fit = MAX_BATCH_BYTES // (key_size + value_size or 1)
    for key, value in islice(items, max(0, min(limit, fit) - 1)):
        keys.append(key)
        values.append(value)
        if len(value) != value_size or len(key) != key_size:
            return _pull_uneven(items, keys, values, limit)
    return Batch(keys, values, sizes)


def pull_records(items: Iterator[tuple[Any, Any]], limit: int) -> list[tuple[bytes, bytes]]:
    """The next records as pairs, empty at the end: a quarter less time than as columns."""
    records = []
    for record in islice(items, limit):
        records.append(record)
        if len(record[1]) > _SMALL:
            break
    else:
        return records
    size = sum(len(key) + len(value) for key, value in records)
    for record in islice(items, limit - len(records)) if size < MAX_BATCH_BYTES else ():
        records.append(record)
        size += len(record[0]) + len(record[1])
        if size >= MAX_BATCH_BYTES:
            break
    return records


def _pull_uneven(items: Iterator[tuple[Any, Any]], keys: list[bytes], values: list[bytes], limit: int) -> Batch:
    """A batch of these records and the next ones; bytes are counted, for 40 ns each, once one is not small."""
    if len(keys[-1]) <= _SMALL and len(values[-1]) <= _SMALL:
        for key, value in islice(items, limit - len(keys)):
            keys.append(key)
            values.append(value)
            if len(value) > _SMALL or len(key) > _SMALL:
                break
        else:
            return Batch(keys, values)
    size = sum(map(len, keys)) + sum(map(len, values))
    if size < MAX_BATCH_BYTES:
        for key, value in islice(items, limit - len(keys)):
            keys.append(key)
            values.append(value)
            size += len(key) + len(value)
            if size >= MAX_BATCH_BYTES:
                break
    return Batch(keys, values)


def damaged(where: str, at: bytes | None, reason: str) -> CorruptionError:
    """The error for what cannot be read after the key `at`."""
    after = "its first record" if at is None else f"the key {show_key(at)}"
    return CorruptionError(
        f"{where} cannot be read beyond {after}: {reason}",
        hint="reading it has damaged nothing; unless its own application can still read it, restore this store from a "
        "backup or let its owner rebuild it",
    )
