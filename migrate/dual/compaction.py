"""Compacting the old store in the background, so that its tombstones go and its emptiness can be told from metadata."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from migrate.errors import StoreClosedError
from migrate.stores.rocksdb.live import Family, LiveDatabase

_LOG = logging.getLogger(__name__)
_PATIENCE = 0.05
_BETWEEN = 60.0
_MOST_BYTES = 1 << 30
"""Compacted in some seconds."""


class Compaction:
    """One compaction, in a thread of its own: RocksDB lets Python's other threads run meanwhile."""

    def __init__(self, database: LiveDatabase, old: Family, lock: threading.RLock, then: Callable[[], None]) -> None:
        """`then` is called under the lock."""
        self._database = database
        self._old = old
        self._lock = lock
        self._then = then
        self._is_stopped = threading.Event()
        self._ended_at: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"compacting {old.where}", daemon=True)
        atexit.register(self.stop)  # Python would end a thread that is inside RocksDB by aborting the process
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    @property
    def ended_recently(self) -> bool:
        """Too short ago to do it again: what it left is kept by an open iterator."""
        return self._ended_at is not None and time.monotonic() - self._ended_at < _BETWEEN

    def wait(self, seconds: float | None) -> None:
        """Until it is done, or so long."""
        self._thread.join(seconds)

    def stop(self) -> None:
        """Give it up; nothing can be written to the database any more."""
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
                if self._lock.acquire(timeout=_PATIENCE):  # who closes the store holds it while waiting for this thread
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
    """Those of one store, one after the other; given up before its database is closed."""

    def __init__(self, lock: threading.RLock, resources: ExitStack) -> None:
        self._lock = lock
        self._resources = resources
        self._last: Compaction | None = None

    def is_worthwhile(self, old: Family) -> bool:
        """To rewrite a large store for its tombstones is not."""
        return old.file_bytes <= _MOST_BYTES and not (self._last is not None and self._last.ended_recently)

    def begin(self, database: LiveDatabase, old: Family, then: Callable[[], None]) -> Compaction:
        """A new one."""
        self._last = Compaction(database, old, self._lock, then)
        self._resources.callback(self._last.stop)
        return self._last

    def ensure_running(self, database: LiveDatabase, old: Family, then: Callable[[], None]) -> Compaction:
        """The one that is at work, or a new one."""
        return self._last if self._last is not None and self._last.is_alive else self.begin(database, old, then)
