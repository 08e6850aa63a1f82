"""The old and the new store, written as one, and the order in which their changes become durable (I6).

In one database every change is one batch over both column families, so that a crash leaves all of it or nothing.

In two databases nothing is atomic. The order of writes makes every instant right:

* The new store wins, so an old copy may stay for a while: it is deleted later, once the new store is durable.
* A delete makes the new store durable, then removes the old copy durably, and only then changes the new store: the old
  copy of a deleted key never comes back, and no earlier write is lost without the delete.

All methods are called under the store's writer lock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from migrate.errors import ConversionError
from migrate.stores.rocksdb.live import Family, LiveDatabase

Span = tuple[bytes, bytes]
"""Old keys in [start, end)."""
OldChange = tuple[bytes, bytes | None, bytes | None]
"""(key, the old key whose record it replaces, value); a value of None deletes the key."""
Convert = Callable[[bytes, bytes], tuple[bytes, bytes] | None]
_MAX_QUEUE = 4096
_MAX_QUEUED_BYTES = 1 << 24
_MAX_KNOWN = 1 << 16
_MAX_KNOWN_KEY = 256
"""Bytes of a key: at most 16 MiB of keys are remembered."""


class StorePair(ABC):
    """Two stores, written as one. A returned count is that of old copies that were deleted or are queued for it."""

    def __init__(self, new_database: LiveDatabase, new: Family, old_database: LiveDatabase, old: Family) -> None:
        self.new_database = new_database
        self.new = new
        self.old_database = old_database
        self.old = old
        self._absent: set[bytes] = set()
        """Some of the keys that the old store does not have, or is about to lose."""

    def note_absent(self, *old_keys: bytes) -> None:
        """Remember that the old store does not have these keys: it is never written to, so that it never will."""
        if len(self._absent) + len(old_keys) > _MAX_KNOWN:
            self._absent.clear()
        for key in old_keys:
            if len(key) <= _MAX_KNOWN_KEY:
                self._absent.add(key)

    @abstractmethod
    def put(self, key: bytes, old_key: bytes | None, value: bytes) -> int:
        """Write the new value and delete the old copy, which counts even if there is none: a check costs three puts."""

    @abstractmethod
    def put_moved(self, key: bytes, old_key: bytes, value: bytes | None) -> None:
        """Move one record, or drop it where the value is None; logged even where other writes are not."""

    @abstractmethod
    def delete(self, key: bytes, old_key: bytes | None) -> int:
        """Delete both copies."""

    @abstractmethod
    def put_all(self, changes: list[OldChange], convert: Convert) -> int:
        """Make all changes or, after a crash, none. No key comes twice."""

    @abstractmethod
    def move(self, keys: list[bytes], values: list[bytes], spans: list[Span]) -> None:
        """Write these records, and delete every old record in the spans."""

    @abstractmethod
    def settle(self) -> None:
        """Delete the old copies that are queued for it."""

    @abstractmethod
    def flush(self) -> None:
        """Make all earlier changes durable."""


class SharedDatabase(StorePair):
    """Two column families of one RocksDB directory. `new_database` and `old_database` are the same."""

    def put(self, key: bytes, old_key: bytes | None, value: bytes) -> int:
        if old_key is None or old_key in self._absent:
            self.new.put(key, value)
            return 0
        batch = self.old_database.new_batch()
        batch.put(key, value, self.new.handle)
        batch.delete(old_key, self.old.handle)
        self.old_database.write(batch)
        if len(old_key) <= _MAX_KNOWN_KEY:
            self._absent.add(old_key)
        if len(self._absent) > _MAX_KNOWN:
            self._absent.clear()
        return 1

    def put_moved(self, key: bytes, old_key: bytes, value: bytes | None) -> None:
        """One batch. No range tombstone: the next read would sort it among all others."""
        batch = self.old_database.new_batch()
        if value is not None:
            batch.put(key, value, self.new.handle)
        batch.delete(old_key, self.old.handle)
        self.old_database.write_logged(batch)
        self.note_absent(old_key)

    def delete(self, key: bytes, old_key: bytes | None) -> int:
        if old_key is None or old_key in self._absent or not self.old.contains(old_key):
            self.new.delete(key)
            return 0
        batch = self.old_database.new_batch()
        batch.delete(key, self.new.handle)
        batch.delete(old_key, self.old.handle)
        self.old_database.write(batch)
        return 1

    def put_all(self, changes: list[OldChange], convert: Convert) -> int:
        batch, new, old = self.old_database.new_batch(), self.new.handle, self.old.handle
        gone: list[bytes] = []
        for key, old_key, value in changes:
            if value is None:
                batch.delete(key, new)
            else:
                batch.put(key, value, new)
            if old_key is not None and old_key not in self._absent:
                batch.delete(old_key, old)
                gone.append(old_key)
        self.old_database.write(batch)
        self.note_absent(*gone)
        return len(gone)

    def move(self, keys: list[bytes], values: list[bytes], spans: list[Span]) -> None:
        """One batch, which is always logged: no changelog could restore what is moved."""
        batch, new, old = self.old_database.new_batch(), self.new.handle, self.old.handle
        for key, value in zip(keys, values, strict=True):
            batch.put(key, value, new)
        for start, end in spans:
            if _is_single(start, end):
                batch.delete(start, old)
            else:
                batch.delete_range(start, end, old)
        self.old_database.write_logged(batch)

    def settle(self) -> None:
        """Nothing is queued: each change deletes its old copy itself."""

    def flush(self) -> None:
        self.old_database.sync()


class SeparateDatabases(StorePair):
    """Two RocksDB directories, each with its own write-ahead log."""

    def __init__(self, new_database: LiveDatabase, new: Family, old_database: LiveDatabase, old: Family) -> None:
        super().__init__(new_database, new, old_database, old)
        self._queue: set[bytes] = set()
        """Old keys whose records are to be deleted."""
        self._queued_bytes = 0
        self._spans: list[Span] = []
        self._new_is_dirty = True
        """The new store may have writes that a power cut would undo."""
        self._old_is_dirty = True
        """The old store may have deletes that a power cut would undo."""

    def put(self, key: bytes, old_key: bytes | None, value: bytes) -> int:
        self.new.put(key, value)
        self._new_is_dirty = True
        return 0 if old_key is None or old_key in self._absent else self._queue_delete(old_key)

    def put_moved(self, key: bytes, old_key: bytes, value: bytes | None) -> None:
        if value is not None:
            batch = self.new_database.new_batch()
            batch.put(key, value, self.new.handle)
            self.new_database.write_logged(batch)
            self._new_is_dirty = True
        self._queue_delete(old_key)

    def delete(self, key: bytes, old_key: bytes | None) -> int:
        """Delete the old copy first, durably."""
        gone = self._remove([] if old_key is None else [old_key])
        self.new.delete(key)
        self._new_is_dirty = True
        return gone

    def put_all(self, changes: list[OldChange], convert: Convert) -> int:
        """One batch in the new store.

        A key that is deleted here and has an old copy is moved first, so that the batch alone decides what is seen;
        `on_migrated` is not called for it. (An old record that cannot be converted cannot be moved: it is deleted now.)
        """
        deleted = [old_key for _, old_key, value in changes if value is None and old_key is not None]
        for old_key in deleted:
            self._promote(old_key, convert)
        gone = self._remove(deleted)
        batch, handle = self.new_database.new_batch(), self.new.handle
        for key, _, value in changes:
            if value is None:
                batch.delete(key, handle)
            else:
                batch.put(key, value, handle)
        self.new_database.write(batch)
        self._new_is_dirty = True
        for _, replaced, value in changes:
            if value is not None and replaced is not None and replaced not in self._absent:
                gone += self._queue_delete(replaced)
        return gone

    def move(self, keys: list[bytes], values: list[bytes], spans: list[Span]) -> None:
        if keys:
            batch, handle = self.new_database.new_batch(), self.new.handle
            for key, value in zip(keys, values, strict=True):
                batch.put(key, value, handle)
            self.new_database.write_logged(batch)
            self._new_is_dirty = True
        for start, end in spans:
            self._queued_bytes += len(start)
            if _is_single(start, end):
                self._queue.add(start)
                continue
            if self._spans and self._spans[-1][1] == start:
                start, _ = self._spans.pop()  # noqa: PLW2901 - one range tombstone for adjacent spans
            self._spans.append((start, end))
        self._settle_if_due()

    def settle(self) -> None:
        """Make the new store durable, then write the queued deletes to the old one."""
        if not self._queue and not self._spans:
            return
        self._sync_new()
        batch, handle = self.old_database.new_batch(), self.old.handle
        for old_key in self._queue:
            batch.delete(old_key, handle)
        for start, end in self._spans:
            batch.delete_range(start, end, handle)
        self._old_is_dirty = True
        self.old_database.write(batch)
        self._queue.clear()
        self._spans.clear()
        self._queued_bytes = 0
        self.note_absent()  # keeps what is remembered within its bound

    def flush(self) -> None:
        self.settle()
        self._sync_new()
        self._sync_old()

    def _queue_delete(self, old_key: bytes) -> int:
        self._queue.add(old_key)
        self._queued_bytes += len(old_key)
        if len(old_key) <= _MAX_KNOWN_KEY:
            self._absent.add(old_key)
        self._settle_if_due()
        return 1

    def _settle_if_due(self) -> None:
        if len(self._queue) + len(self._spans) >= _MAX_QUEUE or self._queued_bytes >= _MAX_QUEUED_BYTES:
            self.settle()

    def _remove(self, old_keys: list[bytes]) -> int:
        """Delete old records durably, after everything that was written to the new store before."""
        present = [old_key for old_key in old_keys if self.old.contains(old_key)]
        if present or (old_keys and self._old_is_dirty):
            self._sync_new()
            for old_key in present:
                self.old.delete(old_key)
            self._old_is_dirty = True
            self._sync_old()
        return sum(old_key not in self._queue for old_key in present)

    def _promote(self, old_key: bytes, convert: Convert) -> None:
        value = self.old.get(old_key)
        if value is None:
            return
        try:
            record = convert(old_key, value)
        except ConversionError:
            return
        if record is not None and not self.new.contains(record[0]):
            self.new.put(*record)
            self._new_is_dirty = True

    def _sync_new(self) -> None:
        if self._new_is_dirty:
            self.new_database.sync()
            self._new_is_dirty = False

    def _sync_old(self) -> None:
        if self._old_is_dirty:
            self.old_database.sync()
            self._old_is_dirty = False


def _is_single(start: bytes, end: bytes) -> bool:
    """Whether a plain delete is enough: after each new range tombstone, a read sorts all that are in memory again."""
    return end == start + b"\0"
