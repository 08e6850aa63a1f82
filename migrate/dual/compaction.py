"""Compacting the old store in the background: without its tombstones, metadata show whether it is empty."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from migrate.dual.store_pair import StorePair
from migrate.errors import StoreClosedError

_LOG = logging.getLogger(__name__)
_LOCK_TIMEOUT = 0.05
_SECONDS_BETWEEN = 60.0
_MAX_BYTES = 1 << 30
"""A store of this size is compacted in some seconds."""


class Compaction:
    """One compaction, in a thread of its own: RocksDB lets Python's other threads run meanwhile."""

    def __init__(self, pair: StorePair, lock: threading.RLock, then: Callable[[], None]) -> None:
        """Start it. `then` is called under the lock when it is done."""
        self._database = pair.old_database
        self._old = pair.old
        self._lock = lock
        self._then = then
        self._is_stopped = threading.Event()
        self._ended_at: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"compacting {pair.old.where}", daemon=True)
        atexit.register(self.stop)  # Python would end a thread that is inside RocksDB by aborting the process
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return self._thread.is_alive()

    @property
    def ended_recently(self) -> bool:
        """Whether it is too early to compact again: an open iterator keeps the tombstones that are left."""
        return self._ended_at is not None and time.monotonic() - self._ended_at < _SECONDS_BETWEEN

    def wait(self, seconds: float | None) -> None:
        """Wait until it is done, at most `seconds`."""
        self._thread.join(seconds)

    def stop(self) -> None:
        """Abort it; nothing can be written to the database afterwards."""
        self._is_stopped.set()
        atexit.unregister(self.stop)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._database.stop_background_work()
            self._thread.join()

    def _run(self) -> None:
        try:
            self._old.flush()
            self._old.compact()
            self._ended_at = time.monotonic()
            while not self._is_stopped.is_set():
                if self._lock.acquire(timeout=_LOCK_TIMEOUT):  # close() holds it while it waits for this thread
                    try:
                        return self._then()
                    finally:
                        self._lock.release()
        except StoreClosedError:
            return None
        except Exception as error:  # noqa: BLE001 - it costs speed, not correctness; the next opening tries again
            if not self._is_stopped.is_set():
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
        """Whether the store is small enough to be rewritten for its tombstones, and was not just now."""
        recently = self._last is not None and self._last.ended_recently
        return self._pair.old.file_bytes <= _MAX_BYTES and not recently

    def start(self, then: Callable[[], None] = lambda: None) -> Compaction:
        """Start a compaction, after which `then` is called."""
        self._last = Compaction(self._pair, self._lock, then)
        self._resources.callback(self._last.stop)
        return self._last

    def ensure_running(self, then: Callable[[], None]) -> Compaction:
        """The compaction that is running, or a new one."""
        return self._last if self._last is not None and self._last.is_alive else self.start(then)
