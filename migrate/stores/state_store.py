"""The store protocol, and what all stores of ours have in common.

Keys and values are bytes, in the order of bytes. Nothing in the protocol says how many databases lie below: a store of
segments can be one too.
"""

from __future__ import annotations

import logging
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
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
from migrate.stores.lifecycle import FAILED, Lifecycle, Listener, State
from migrate.stores.records import BatchSource, Cursor, Records

_LOG = logging.getLogger(__name__)

Change = tuple[bytes, bytes | None]
"""A key and its new value; None: delete it."""


class StateStore(Protocol):
    """What a processor keeps its state in. Safe to share between the threads of one process.

    Every method raises StoreClosedError once the store is closed, StoreFailedError once its storage has failed.
    """

    @property
    def state(self) -> State:
        """Where it is in its life."""
        ...

    @property
    def directory(self) -> Path | None:
        """Where it lies on disk; None: nowhere."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        ...

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, or None."""
        ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write one record; None deletes it."""
        ...

    def put_all(self, changes: Iterable[Change]) -> None:
        """All of them or, after a crash, none; a later change of a key wins."""
        ...

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        """Write it unless the key has a value, which is returned."""
        ...

    def delete(self, key: bytes) -> None:
        """Delete one record; a key that has none is no error."""
        ...

    def range(self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False) -> Records:
        """The records in [start, end), None: unbounded; `reverse`: from the last one on."""
        ...

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Records:
        """The records whose keys begin so."""
        ...

    def all(self) -> Records:
        """Every record, in the order of keys."""
        ...

    def reverse_all(self) -> Records:
        """Every record, from the last key to the first."""
        ...

    def approximate_num_entries(self) -> int:
        """An estimate."""
        ...

    def flush(self) -> None:
        """What was written before is durable after it."""
        ...

    def close(self) -> None:
        """Give up files, locks and iterators. Once more is no error; after a failure it does nothing."""
        ...


class OrderedStore(ABC):
    """The parts of the protocol that need no storage: scans by one method, and the life of a store."""

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

    @property
    def state(self) -> State:
        """Where it is in its life."""
        return self._lifecycle.state

    def check_running(self) -> None:
        """Raises what every other method would, in this state of its life."""
        if self.state in FAILED:
            raise self._failure() from self._cause
        if self.state is State.CREATED:
            raise StoreNotReadyError(f"{self._where} is being opened", hint="wait until it runs")
        if self.state is not State.RUNNING:
            raise StoreClosedError(f"{self._where} is closed", hint="open it again")

    def listen(self, listener: Listener) -> None:
        """Hear of every transition from now on."""
        self._lifecycle.listen(listener)

    def range(self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False) -> Records:
        """The records in [start, end), None: unbounded; `reverse`: from the last one on."""
        try:
            with self._lock:  # no iterator begins while the store closes
                cursor = Cursor(self._scan(start, end, reverse=reverse), self._where, self._raise)
                self._iterators.add(cursor)
        except Exception as error:
            self._raise(error)
        return Records(cursor)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Records:
        """The records whose keys begin so."""
        return self.range(prefix, after_prefix(prefix), reverse=reverse)

    def all(self) -> Records:
        """Every record, in the order of keys."""
        return self.range()

    def reverse_all(self) -> Records:
        """Every record, from the last key to the first."""
        return self.range(reverse=True)

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        """Write it unless the key has a value, which is returned."""
        with self._lock:
            existing = self.get(key)
            if existing is None:
                self.put(key, value)
            return existing

    def close(self) -> None:
        """Give up files, locks and iterators. Once more is no error; after a failure it does nothing."""
        with self._lock:
            if self.state in FAILED:
                _LOG.warning("%s has failed before and holds nothing any more: close() does nothing", self._where)
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
        """Write one record; None deletes it."""

    @abstractmethod
    def _scan(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> BatchSource:
        """The records of this instant. Called under the lock."""

    @abstractmethod
    def _shut(self) -> None:
        """Make what is left durable, and give up files and locks."""

    @abstractmethod
    def _abandon(self) -> None:
        """The storage has failed: give up files and locks as far as they can be."""

    def _close_iterators(self) -> None:
        for cursor in list(self._iterators):
            cursor.close()  # a live RocksDB iterator would keep the directory open, and its LOCK

    def _raise(self, error: Exception) -> NoReturn:
        """What the caller is told; an error of the storage is the end of the store."""
        try:
            if isinstance(error, CorruptionError) or is_storage_error(error):
                self._fail(error)
            elif self.state not in FAILED or not isinstance(error, StoreClosedError):
                if not isinstance(error, ConversionError):  # its frames are the caller's own
                    _clear_frames(error)
                raise _in_words(error)
            raise self._failure() from self._cause
        finally:
            del error  # its traceback leads to this frame: a cycle, which would keep what the LOCK hangs on

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
        is_damage = isinstance(cause, CorruptionError) or "Corruption" in text
        kind = StoreCorruptedError if is_damage else StoreFailedError
        return kind(
            f"{self._where} has failed: {text}",
            hint="restore the store from a backup or its changelog"
            if is_damage
            else "mend what failed (space, rights, the disk), then open the store again: what was acknowledged is kept",
        )


def _clear_frames(error: BaseException | None) -> None:
    """What failed may hold an iterator still, which would keep the LOCK as long as anybody keeps the error."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class StorageError(Exception):
    """A store's own file cannot be written."""


def after_prefix(prefix: bytes) -> bytes | None:
    """The first key after all that begin with `prefix`; None: there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _in_words(error: Exception) -> Exception:
    if "raw mode only support" in str(error):
        return TypeError("keys and values are bytes")
    return error


_STATUSES = ("Corruption: ", "IO error: ", "Shutdown in progress", "Operation aborted", "Resource busy")


def is_storage_error(error: Exception) -> bool:
    """Whether the storage failed, and not the caller (RocksDB's util/status.cc: how an error begins)."""
    return isinstance(error, StorageError) or (type(error) is Exception and str(error).startswith(_STATUSES))
