"""The store protocol, the states of an open store, the base class of all stores here, and iterators over their records.

Keys and values are bytes, in the order of bytes. The protocol does not depend on the number of databases below: a
store of segments can implement it too. An iterator shows the store as it was at one time.
"""

from __future__ import annotations

import logging
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import NoReturn, Protocol, Self
from weakref import WeakSet

from migrate.errors import (
    ConversionError,
    CorruptionError,
    IllegalTransitionError,
    MigrationError,
    StoreClosedError,
    StoreCorruptedError,
    StoreFailedError,
    StoreNotReadyError,
)
from migrate.library_messages import is_damage, is_not_bytes, is_storage_error

_LOG = logging.getLogger(__name__)
_FIRST_PULL = 16
_LAST_PULL = 256
"""A short scan should not read hundreds of records; a long one should not need many pulls."""
Record = tuple[bytes, bytes]
"""A key and its value."""
Change = tuple[bytes, bytes | None]
"""A key and its new value; None: delete it."""


class State(StrEnum):
    """The states of an open store: those of Kafka Streams (KIP-696), where an error of the storage is final."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


# CREATED ──► RUNNING ──► PENDING_SHUTDOWN ──► NOT_RUNNING
#    │          │               │
#    └──────────┴───────────────┴──► PENDING_ERROR ──► ERROR
_NEXT = {
    State.CREATED: {State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.RUNNING: {State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.PENDING_SHUTDOWN: {State.NOT_RUNNING, State.PENDING_ERROR},
    State.PENDING_ERROR: {State.ERROR},
    State.NOT_RUNNING: set(),
    State.ERROR: set(),
}
FAILED = (State.PENDING_ERROR, State.ERROR)

Listener = Callable[[State, State], None]
"""Called with the previous and the new state, in the thread that made the transition."""


class StateStore(Protocol):
    """A store of a stream processor's state. Safe to share between the threads of one process.

    Every method raises StoreClosedError once the store is closed, StoreFailedError once its storage has failed.
    """

    @property
    def state(self) -> State:
        """The present state in the life of the store."""

    @property
    def directory(self) -> Path | None:
        """The directory on disk; None: the store is in memory."""

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, or None."""

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write one record, or delete it where the value is None."""

    def put_all(self, changes: Iterable[Change]) -> None:
        """Make all changes or, after a crash, none; a later change of a key wins."""

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        """Write the record unless the key has a value, which is returned."""

    def delete(self, key: bytes) -> None:
        """Delete one record; a key that has none is no error."""

    def range(self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False) -> Records:
        """The records in [start, end), None: unbounded; `reverse`: from the last one on."""

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Records:
        """The records whose keys start with the prefix."""

    def all(self) -> Records:
        """Every record, in the order of keys."""

    def reverse_all(self) -> Records:
        """Every record, from the last key to the first."""

    def approximate_num_entries(self) -> int:
        """An estimate of the number of records."""

    def flush(self) -> None:
        """Make everything that was written before durable."""

    def close(self) -> None:
        """Release files, locks and iterators. A second call, and one after a failure, does nothing."""


class OrderedStore(ABC):
    """The parts of the protocol that need no storage: scans from one method, and the states of a store."""

    def __init__(self, directory: Path | None, listener: Listener | None = None) -> None:
        self.directory = directory
        self._where = "the store in memory" if directory is None else str(directory)
        self.state = State.CREATED
        self._listeners = [] if listener is None else [listener]
        self._lock = threading.RLock()
        """One writer at a time."""
        self._iterators: WeakSet[Cursor] = WeakSet()
        self._cause: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._where}, {self.state}>"

    def check_running(self) -> None:
        """Raises the error of every other method in the present state, unless it is RUNNING."""
        if self.state in FAILED:
            raise self._failure() from self._cause
        if self.state is State.CREATED:
            raise StoreNotReadyError(f"{self._where} is being opened", hint="wait until it runs")
        if self.state is not State.RUNNING:
            raise StoreClosedError(f"{self._where} is closed", hint="open it again")

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every transition from now on."""
        self._listeners.append(listener)

    def _move_to(self, state: State) -> None:
        """Change the state. Raises IllegalTransitionError, and keeps it, where the new one cannot follow."""
        with self._lock:
            before = self.state
            if state not in _NEXT[before]:
                raise IllegalTransitionError(f"{self._where} is {before}: it cannot become {state}")
            self.state = state
        for listener in self._listeners:
            try:
                listener(before, state)
            except Exception:
                _LOG.exception("a listener of %s failed at %s -> %s", self._where, before, state)

    def range(self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False) -> Records:
        try:
            with self._lock:  # no iterator is created while the store closes
                cursor = Cursor(self._scan(start, end, reverse=reverse), self._where, self._raise)
                self._iterators.add(cursor)
        except Exception as error:
            self._raise(error)
        return Records(cursor)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Records:
        return self.range(prefix, after_prefix(prefix), reverse=reverse)

    def all(self) -> Records:
        return self.range()

    def reverse_all(self) -> Records:
        return self.range(reverse=True)

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        with self._lock:
            existing = self.get(key)
            if existing is None:
                self.put(key, value)
            return existing

    def close(self) -> None:
        with self._lock:
            if self.state in FAILED:
                _LOG.warning("%s has already failed and released its files: close() does nothing", self._where)
                return
            if self.state in (State.PENDING_SHUTDOWN, State.NOT_RUNNING):
                return
            self._move_to(State.PENDING_SHUTDOWN)
            self._close_iterators()
            try:
                self._shut()
            except Exception as error:
                self._give_up()
                self._raise(error)
            except BaseException:  # an interrupt
                self._give_up()
                self._move_to(State.NOT_RUNNING)
                raise
            self._move_to(State.NOT_RUNNING)

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""

    @abstractmethod
    def put(self, key: bytes, value: bytes | None) -> None:
        """Write one record, or delete it where the value is None."""

    @abstractmethod
    def _scan(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> BatchSource:
        """The records as they are now. Called under the lock."""

    @abstractmethod
    def _shut(self) -> None:
        """Make all writes durable, and release files and locks."""

    @abstractmethod
    def _abandon(self) -> None:
        """Release files and locks as far as possible after a failure of the storage."""

    def _close_iterators(self) -> None:
        for cursor in list(self._iterators):
            cursor.close()  # a live RocksDB iterator would keep the directory open, and its LOCK

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Raises what goes wrong inside by `_raise`. Methods of few records do so themselves: this costs about 1 us."""
        try:
            yield
        except Exception as error:
            self._raise(error)

    def _raise(self, error: Exception) -> NoReturn:
        """Raise the error for the caller; the store fails for good where the error is one of the storage."""
        try:
            if isinstance(error, CorruptionError | StorageError) or is_storage_error(error):
                self._fail(error)
            elif self.state not in FAILED or not isinstance(error, StoreClosedError):
                if not isinstance(error, ConversionError):  # its frames are the caller's own
                    _clear_frames(error)
                raise TypeError("keys and values are bytes") if is_not_bytes(str(error)) else error
            raise self._failure() from self._cause
        finally:
            del error  # its traceback refers to this frame: a cycle, which would keep objects alive that hold the LOCK

    def _fail(self, error: Exception) -> None:
        with self._lock:
            if self.state in FAILED:
                return
            self._cause = error
            _clear_frames(error)
            self._move_to(State.PENDING_ERROR)
            _LOG.error("%s failed: %s", self._where, error)
            self._close_iterators()
            self._give_up()
            self._move_to(State.ERROR)

    def _give_up(self) -> None:
        try:
            self._abandon()
        except Exception:
            _LOG.exception("%s could not be closed in order", self._where)

    def _failure(self) -> StoreFailedError:
        cause = self._cause
        text = cause.message if isinstance(cause, MigrationError) else str(cause)
        is_damaged = isinstance(cause, CorruptionError) or is_damage(text)
        kind = StoreCorruptedError if is_damaged else StoreFailedError
        return kind(
            f"{self._where} has failed: {text}",
            hint="restore the store from a backup or its changelog"
            if is_damaged
            else "fix the cause (space, permissions, disk), then open the store again: acknowledged writes are kept",
        )


def _clear_frames(error: BaseException | None) -> None:
    """Clear the frames of an error: they may hold an iterator, which would keep the LOCK as long as the error lives."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class StorageError(Exception):
    """A file of the store itself cannot be written."""


def after_prefix(prefix: bytes) -> bytes | None:
    """The first key after all keys that start with `prefix`; None: there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


class BatchSource(Protocol):
    """The source of a scan's records."""

    def pull(self, limit: int) -> list[Record]:
        """The next records, at most `limit`; empty at the end. Raises CorruptionError where the scan ended early."""

    def close(self) -> None:
        """Release the resources of the storage."""


class Cursor:
    """One pass over a source. It has no reference to its generator, so that only the caller keeps the storage open."""

    def __init__(self, source: BatchSource, where: str, on_error: Callable[[Exception], NoReturn]) -> None:
        self._source: BatchSource | None = source
        self._where = where
        self._on_error = on_error
        self._is_closed = False
        self._failure: Exception | None = None
        self._buffer: list[Record] = []

    def walk(self) -> Generator[Record]:
        limit = _FIRST_PULL
        while (source := self._source) is not None:
            try:
                records = source.pull(limit)
            except Exception as error:
                self._release()
                self._fail(error)
            self.check()
            if not records:
                self._release()
                return
            self._buffer = records
            del records, source  # a local reference would keep a closed iterator alive
            yield from self._buffer
            limit = min(_LAST_PULL, 4 * limit)
        self.check()

    def close(self) -> None:
        self._is_closed = True
        self._release()
        self._buffer.clear()  # ends the loop over it, after which the generator checks whether it was closed

    def check(self) -> None:
        """Raises StoreClosedError, or the error that ended the pass."""
        if self._is_closed:
            raise StoreClosedError(f"the iterator over {self._where} is closed", hint="start a new one")
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: Exception) -> NoReturn:
        try:
            self._on_error(error)
        except Exception as failure:
            self._failure = failure
            raise

    def _release(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()


class Records(Iterator[Record]):
    """(key, value) in order, as the store was when the iterator was created. A context manager."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._walk = cursor.walk()

    def __iter__(self) -> Iterator[Record]:
        """The generator itself: a loop over it makes no call of ours per record. Raises StoreClosedError."""
        self._cursor.check()
        return self._walk

    def __next__(self) -> Record:
        """The next record. Raises StoreClosedError once it or its store is closed; after a failure, its error again."""
        self._cursor.check()
        return next(self._walk)

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the resources of the storage."""
        self._cursor.close()
