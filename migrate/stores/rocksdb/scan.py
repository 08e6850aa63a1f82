"""Scans of one instant, in both directions, over a database that is written meanwhile."""

from __future__ import annotations

import threading
from bisect import bisect_left
from operator import itemgetter
from typing import Any

from rocksdict import Rdict, ReadOptions

from migrate.errors import CorruptionError
from migrate.stores.batch import Batch
from migrate.stores.records import Record
from migrate.stores.rocksdb.database import check_end, pull, pull_records, streaming

key_of = itemgetter(0)


class TooManyTombstonesError(Exception):
    """A seek met more deleted records than it was to pass."""


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
    ) -> None:
        self._lock = threading.Lock()
        self._start, self._end, self._where, self._reverse = start, end, where, reverse
        self._options = streaming() if start is None and end is None else ReadOptions()
        if max_skips is not None:
            self._options.set_max_skippable_internal_keys(max_skips)
        if end is not None and not reverse:
            # Or a short scan would go on into whatever was deleted behind it. RocksDB holds a bare pointer to these
            # bytes: they, and the options, live as long as the iterators do.
            self._options.set_iterate_upper_bound(end)
        first = end if reverse else start
        # RocksDB's iterators use the handle of their family when they seek, also after the family was dropped.
        self._column: Rdict | None = column
        # Not of a Snapshot: rocksdict's iterators ignore the one they are made from. Both see the instant of their
        # making, and the store's lock keeps writers out meanwhile.
        self._items: Any = column.items(backwards=reverse, from_key=first, read_opt=self._options)
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
                    self._end_all()
                    break
                self._last = records[-1][0]
                if self._reverse and records[0][0] == self._end:
                    del records[0]  # a backward scan begins at `end`, which is no part of the range
                self._cut(records)
                if records:
                    return records
            return []

    def columns(self, limit: int) -> Batch | None:
        """The same as columns, for a scan without an end; None at the end."""
        assert self._end is None
        with self._lock:
            batch = None if self._items is None else pull(self._items, limit)
            if batch is not None:
                self._last = batch.keys[-1]
            elif self._items is not None:
                self._end_all()
            return batch

    def close(self) -> None:
        """Give up the iterators."""
        with self._lock:
            self._drop()

    def _cut(self, records: list[Record]) -> None:
        """Without what lies beyond the range; the scan is over then."""
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

    def _end_all(self) -> None:
        self._check_end()
        self._drop()

    def _check_end(self) -> None:
        first = self._end if self._reverse else self._start
        at = first if self._last is None else self._last
        try:
            check_end(self._cursor, at, self._where, is_record=self._last is not None, backwards=self._reverse)
        except CorruptionError as error:
            if "Too many internal keys skipped" in str(error.__cause__):
                raise TooManyTombstonesError from error
            raise

    def _drop(self) -> None:
        self._items = None
        self._cursor = None
        self._column = None
