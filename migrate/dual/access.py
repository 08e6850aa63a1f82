"""Dual access: reading and writing the two stores behind a DualReadStore, while there are two.

The old store is compacted in the background: without its tombstones, metadata show whether it is empty.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from time import monotonic
from typing import NoReturn

from migrate.dual.converging import Progress
from migrate.dual.dual_scan import ConvertedScan, DualScan
from migrate.dual.lazy_conversion import LazyConversion
from migrate.dual.opening import OpenedStores, Policy
from migrate.dual.store_pair import StorePair
from migrate.dual.store_paths import MAX_SKIPS, StorePaths
from migrate.dual.sweep import HookError, Sweep
from migrate.errors import StoreClosedError, StoreError
from migrate.stores.cursor_file import AdapterCursor, write_cursor
from migrate.stores.rocksdb.live import manifest_of
from migrate.stores.rocksdb.scan import TooManyTombstonesError
from migrate.stores.state_store import BatchSource, Change

_LOG = logging.getLogger(__name__)
_CURSOR_SECONDS = 1.0
_CHECK_SECONDS = 10.0
"""Between two checks whether any old record is left; the estimate that there are some may be wrong."""
_LAST_CHECK_SECONDS = 0.1
"""Between two checks once the estimate is that none is left."""
_LOCK_TIMEOUT = 0.05
_SECONDS_BETWEEN_COMPACTIONS = 60.0
_MOST_COMPACTED_BYTES = 1 << 30
"""A store of this size is compacted in some seconds."""


class DualAccess:
    """The two stores while both have records. All methods but `old_value` are called under the store's writer lock."""

    def __init__(
        self,
        places: StorePaths,
        opened: OpenedStores,
        conversion: LazyConversion,
        policy: Policy,
        compactions: Compactions,
    ) -> None:
        assert opened.pair is not None
        self._places = places
        self._token = opened.new_token
        self.compactions = compactions
        self._conversion = conversion
        self._policy = policy
        self._keeps_keys = not conversion.changes_keys
        self.migrates_on_read = policy.migrates_on_read
        self._on_migrated = None if policy.on_migrated is None else self._call_hook
        self.pair = opened.pair
        self.sweep = Sweep(
            opened.pair,
            conversion,
            start=None if opened.cursor is None else opened.cursor.low_water,
            quarantines=policy.quarantines,
            on_migrated=self._on_migrated,
        )
        self._left = opened.pair.old.estimated_records if opened.cursor is None else opened.cursor.left
        self._by_read = self._by_write = self._by_delete = self._dropped = 0
        self._next_check = 0.0
        self._is_in_hook = False
        self._saved_at = monotonic()
        self.is_empty = opened.pair.old.is_blank
        """Whether the old store is known to be empty."""

    @property
    def progress(self) -> Progress:
        return Progress(
            old_keys_left=0 if self.is_empty else max(1, self._left),
            moved_by_read=self._by_read,
            moved_by_write=self._by_write,
            moved_by_delete=self._by_delete,
            moved_by_converge=self.sweep.moved,
            rejected=len(self.sweep.rejects),
            dropped=self._dropped + self.sweep.dropped,
        )

    def old_value(self, key: bytes) -> bytes | None:
        """The old record's value, converted. Raises ConversionError."""
        old_key = self._conversion.old_key_of(key)
        if old_key is None:
            return None
        value = self.pair.old.get(old_key)
        if value is None:
            self.pair.note_absent(old_key)
            return None
        record = self._conversion.one(old_key, value)
        return None if record is None or record[0] != key else record[1]

    def move(self, key: bytes) -> bytes | None:
        """Move the record unless another thread has; its new value, or None. Raises ConversionError, HookError."""
        if self._is_in_hook:
            return self.old_value(key)
        current = self.pair.new.get(key)
        if current is not None:
            return current
        old_key = self._conversion.old_key_of(key)
        value = None if old_key is None else self.pair.old.get(old_key)
        if old_key is None or value is None:
            return None
        record, dropped = self._conversion.one_counting(old_key, value)
        if record is not None and record[0] != key:
            return None
        new_value = None if record is None else record[1]
        if self._on_migrated is not None and new_value is not None:
            self._on_migrated(key, value, new_value)
        self.pair.put_moved(key, old_key, new_value)
        self._by_read += 1
        self._dropped += dropped
        self._count_deleted([old_key], 1)
        return new_value

    def put(self, key: bytes, value: bytes) -> bool:
        """Write the new value and delete the old copy, if one is left. Whether a check for emptiness is due."""
        if self._is_in_hook:
            self._refuse()
        old_key = self._old_copy(key, is_put=True)
        if self.pair.put(key, old_key, value):
            self._by_write += 1
            self._left -= 1
            if not self._left:
                self._next_check = 0.0
            if self.sweep.rejects:
                self._count_deleted([old_key], 0)
        return monotonic() > self._next_check

    def delete(self, key: bytes) -> None:
        if self._is_in_hook:
            self._refuse()
        old_key = self._old_copy(key, is_put=False)
        if self.pair.delete(key, old_key):
            self._by_delete += 1
            self._count_deleted([old_key], 1)

    def put_all(self, changes: list[Change]) -> bool:
        """Make all changes; no key comes twice. Whether a check for emptiness is due."""
        if self._is_in_hook:
            self._refuse()
        rows = [(key, self._old_copy(key, is_put=value is not None), value) for key, value in changes]
        if gone := self.pair.put_all(rows, self._conversion.one):
            self._by_write += gone
            self._count_deleted([old_key for _, old_key, _ in rows], gone)
        return monotonic() > self._next_check

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> BatchSource:
        first, after = (None, None) if self._conversion.changes_keys else (start, end)
        low_water = self.sweep.low_water
        first = max(first or b"", low_water or b"") or None
        new = self.pair.new.scan(start, end, reverse=reverse)
        old = self.pair.old.scan(first, after, reverse=reverse)
        converted = ConvertedScan(old, self._conversion, start, end, reverse=reverse)
        return DualScan(new, converted, reverse=reverse, fails_at_once=self._conversion.changes_keys)

    def slice(self, limit: int | None, max_skips: int | None) -> int:
        """About 2 ms of `converge`: how many old records were processed. Raises what Sweep.slice raises."""
        if self._is_in_hook:
            self._refuse()
        before = self.sweep.moved
        try:
            return self.sweep.slice(limit, max_skips)
        finally:
            self._left -= self.sweep.moved - before
            self.is_empty = self.sweep.has_ended and not self.sweep.rejects

    def settle(self) -> None:
        """Delete the queued old copies; write the cursor now and then, by which an earlier copy of the old directory is
        recognized."""
        self.pair.settle()
        if monotonic() - self._saved_at > _CURSOR_SECONDS:
            self.save_cursor()

    def save_cursor(self, *, is_at_rest: bool = False) -> None:
        """Make durable what the cursor claims, then write it. `is_at_rest`: no write to the old store follows."""
        self.pair.flush()
        database = self.pair.old_database
        cursor = AdapterCursor(
            pair=self._places.identity(),
            manifest=manifest_of(database.directory),
            sequence_number=database.sequence_number,
            low_water=self.sweep.low_water,
            new_sequence_number=self.pair.new_database.sequence_number,
            left=self.progress.old_keys_left,
            is_at_rest=is_at_rest,
        )
        self._token = write_cursor(self._places.directories, cursor, self._token)
        self._saved_at = monotonic()

    def check_empty(self, then: Callable[[], None]) -> None:
        """Update `is_empty`. Where too many tombstones hide the first old record, start a compaction and then call
        `then`, which checks again."""
        if self.is_empty:
            return
        self._next_check = monotonic() + (_LAST_CHECK_SECONDS if self._left <= 0 else _CHECK_SECONDS)
        self.settle()
        try:
            first = self.pair.old.first(self.sweep.low_water, max_skips=MAX_SKIPS)
        except TooManyTombstonesError:
            if self.compactions.is_worthwhile:
                self.compactions.ensure_running(then)
            return
        self.is_empty = first is None
        if first is not None and not self.sweep.rejects:
            self.sweep.next_key = first[0]

    @property
    def is_check_due(self) -> bool:
        """Whether it is known or time to check that the old store is empty."""
        swept = self.sweep.has_ended and not self.sweep.rejects
        return self.is_empty or swept or monotonic() > self._next_check

    def _old_copy(self, key: bytes, *, is_put: bool) -> bytes | None:
        """The old key whose record this one replaces. Raises ConversionError where that is not known.

        `is_put`: None where the sweep has passed that key. Not for a delete: of two databases the old one may still
        have the record, queued for a deletion that must not come after the new one's.
        """
        old_key = key if self._keeps_keys else self._conversion.old_key_of(key)
        mark = self.sweep.next_key
        if is_put and mark is not None and old_key is not None and old_key < mark and old_key not in self.sweep.rejects:
            return None
        if self._keeps_keys or old_key is None or (value := self.pair.old.get(old_key)) is None:
            return old_key
        record = self._conversion.one(old_key, value)
        return old_key if record is None or record[0] == key else None

    def _count_deleted(self, old_keys: list[bytes | None], count: int) -> None:
        if 0 < self._left <= count:
            self._next_check = 0.0
        self._left -= count
        if self.sweep.rejects:
            for old_key in old_keys:
                if old_key is not None:
                    self.sweep.rejects.pop(old_key, None)
            if not self.sweep.rejects:
                self._next_check = 0.0

    def _call_hook(self, key: bytes, old_value: bytes, new_value: bytes) -> None:
        assert self._policy.on_migrated is not None
        was_in_hook, self._is_in_hook = self._is_in_hook, True
        try:
            self._policy.on_migrated(key, old_value, new_value)
        except Exception as error:
            raise HookError(error) from error
        finally:
            self._is_in_hook = was_in_hook

    def _refuse(self) -> NoReturn:
        raise StoreError(
            "on_migrated wrote to the store that called it", hint="send it elsewhere, or write it after that call"
        )


class Compaction(threading.Thread):
    """One compaction, in a thread of its own: RocksDB lets Python's other threads run meanwhile."""

    def __init__(self, pair: StorePair, lock: threading.RLock, then: Callable[[], None]) -> None:
        """Start it. `then` is called under the lock when it is done."""
        super().__init__(name=f"compacting {pair.old.where}", daemon=True)
        self._database = pair.old_database
        self._old = pair.old
        self._lock = lock
        self._then = then
        self._is_aborted = threading.Event()
        self.ended_at: float | None = None
        atexit.register(self.stop)  # Python would end a thread that is inside RocksDB by aborting the process
        self.start()

    def stop(self) -> None:
        """Abort it; nothing can be written to the database afterwards."""
        self._is_aborted.set()
        atexit.unregister(self.stop)
        if self.is_alive() and self is not threading.current_thread():
            self._database.stop_background_work()
            self.join()

    def run(self) -> None:
        try:
            self._old.flush()
            self._old.compact()
            self.ended_at = monotonic()
            while not self._is_aborted.is_set():
                if self._lock.acquire(timeout=_LOCK_TIMEOUT):  # close() holds it while it waits for this thread
                    try:
                        return self._then()
                    finally:
                        self._lock.release()
        except StoreClosedError:
            return None
        except Exception as error:  # noqa: BLE001 - it costs speed, not correctness; the next opening tries again
            if not self._is_aborted.is_set():
                _LOG.warning("%s could not be compacted: %s", self._old.where, error)
        finally:
            atexit.unregister(self.stop)


class Compactions:
    """The compactions of one old store, one after the other; aborted before its database is closed."""

    def __init__(self, pair: StorePair, lock: threading.RLock, resources: ExitStack) -> None:
        self._pair = pair
        self._lock = lock
        self._resources = resources
        self._last: Compaction | None = None

    @property
    def is_worthwhile(self) -> bool:
        """Whether the store is small enough to be rewritten for its tombstones, and was not just now.

        An open iterator keeps the tombstones that were left then.
        """
        ended_at = None if self._last is None else self._last.ended_at
        recently = ended_at is not None and monotonic() - ended_at < _SECONDS_BETWEEN_COMPACTIONS
        return self._pair.old.file_bytes <= _MOST_COMPACTED_BYTES and not recently

    def start(self, then: Callable[[], None] = lambda: None) -> Compaction:
        self._last = Compaction(self._pair, self._lock, then)
        self._resources.callback(self._last.stop)
        return self._last

    def ensure_running(self, then: Callable[[], None]) -> Compaction:
        return self._last if self._last is not None and self._last.is_alive() else self.start(then)
