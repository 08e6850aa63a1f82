"""The store protocol, and the base class of all stores here.

Keys and values are bytes, in the order of bytes. The protocol does not depend on the number of databases below: a
store of segments can implement it too.
"""

from __future__ import annotations

import logging
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, Protocol, Self
from weakref import WeakSet

from migrate.errors import (
    ConversionError,
    CorruptionError,
    MigrationError,
    StoreClosedError,
    StoreCorruptedError,
    StoreFailedError,
    StoreNotReadyError,
)
from migrate.library_messages import is_damage, is_not_bytes, is_storage_error
from migrate.stores.lifecycle import FAILED, Lifecycle, Listener, State
from migrate.stores.records import BatchSource, Cursor, Records

_LOG = logging.getLogger(__name__)

Change = tuple[bytes, bytes | None]
"""A key and its new value; None: delete it."""


class StateStore(Protocol):
    """A store of a stream processor's state. Safe to share between the threads of one process.

    Every method raises StoreClosedError once the store is closed, StoreFailedError once its storage has failed.
    """

    @property
    def state(self) -> State:
        """The present state in the life of the store."""
        ...

    @property
    def directory(self) -> Path | None:
        """The directory on disk; None: the store is in memory."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        ...

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, or None."""
        ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write one record, or delete it where the value is None."""
        ...

    def put_all(self, changes: Iterable[Change]) -> None:
        """Make all changes or, after a crash, none; a later change of a key wins."""
        ...

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        """Write the record unless the key has a value, which is returned."""
        ...

    def delete(self, key: bytes) -> None:
        """Delete one record; a key that has none is no error."""
        ...

    def range(self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False) -> Records:
        """The records in [start, end), None: unbounded; `reverse`: from the last one on."""
        ...

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Records:
        """The records whose keys start with the prefix."""
        ...

    def all(self) -> Records:
        """Every record, in the order of keys."""
        ...

    def reverse_all(self) -> Records:
        """Every record, from the last key to the first."""
        ...

    def approximate_num_entries(self) -> int:
        """An estimate of the number of records."""
        ...

    def flush(self) -> None:
        """Make everything that was written before durable."""
        ...

    def close(self) -> None:
        """Release files, locks and iterators. A second call, and one after a failure, does nothing."""
        ...


class OrderedStore(ABC):
    """The parts of the protocol that need no storage: scans from one method, and the states of a store."""

    def __init__(self, directory: Path | None, listener: Listener | None = None) -> None:
        self.directory = directory
        self._where = "the store in memory" if directory is None else str(directory)
        self._lifecycle = Lifecycle(self._where, listener)
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

    @property
    def state(self) -> State:
        """The present state in the life of the store."""
        return self._lifecycle.state

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
        self._lifecycle.listen(listener)

    def range(self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False) -> Records:
        """The records in [start, end), None: unbounded; `reverse`: from the last one on."""
        with self._guarded(), self._lock:  # no iterator is created while the store closes
            cursor = Cursor(self._scan(start, end, reverse=reverse), self._where, self._raise)
            self._iterators.add(cursor)
        return Records(cursor)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Records:
        """The records whose keys start with the prefix."""
        return self.range(prefix, after_prefix(prefix), reverse=reverse)

    def all(self) -> Records:
        """Every record, in the order of keys."""
        return self.range()

    def reverse_all(self) -> Records:
        """Every record, from the last key to the first."""
        return self.range(reverse=True)

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        """Write the record unless the key has a value, which is returned."""
        with self._lock:
            existing = self.get(key)
            if existing is None:
                self.put(key, value)
            return existing

    def close(self) -> None:
        """Release files, locks and iterators. A second call, and one after a failure, does nothing."""
        with self._lock:
            if self.state in FAILED:
                _LOG.warning("%s has already failed and released its files: close() does nothing", self._where)
                return
            if self.state in (State.PENDING_SHUTDOWN, State.NOT_RUNNING):
                return
            self._lifecycle.move_to(State.PENDING_SHUTDOWN)
            self._close_iterators()
            try:
                self._shut()
            except Exception as error:
                self._give_up()
                self._raise(error)
            except BaseException:  # an interrupt
                self._give_up()
                self._lifecycle.move_to(State.NOT_RUNNING)
                raise
            self._lifecycle.move_to(State.NOT_RUNNING)

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
        """Raises what goes wrong inside by `_raise`. Single records do so themselves: it would cost a tenth of one."""
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
            self._lifecycle.move_to(State.PENDING_ERROR)
            _LOG.error("%s failed: %s", self._where, error)
            self._close_iterators()
            self._give_up()
            self._lifecycle.move_to(State.ERROR)

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
