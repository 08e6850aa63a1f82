"""Where the two stores lie, and in which order things become durable (I6).

In one database every change is one batch over both column families, so that a crash leaves all of it or nothing.

In two databases nothing is atomic; what makes every instant right is the order:

* The new store wins, so that an old copy may be left over: it goes later, once the new store is durable.
* A delete makes the new store durable, then takes the old copy away, durably, and only then touches the new store: the
  old copy of a deleted key never comes back, and nothing that was written before is lost without that.

All methods are called under the store's writer lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from migrate.errors import ConversionError
from migrate.stores.rocksdb.live import Family, LiveDatabase

Span = tuple[bytes, bytes]
"""Old keys in [start, end)."""
OldChange = tuple[bytes, bytes | None, bytes | None]
"""(key, the old key whose record it takes the place of, value); a value of None: delete it."""
Convert = Callable[[bytes, bytes], tuple[bytes, bytes] | None]
_MAX_QUEUE = 4096
_MOST_QUEUED_BYTES = 1 << 24
_MOST_KNOWN = 1 << 16
_LONGEST_KNOWN = 256
"""Bytes of a key: 16 MiB of keys at most are known."""


class Arrangement(Protocol):
    """Two stores, written as one. What counts copies counts the old ones that are gone, or on their way."""

    new: Family
    old: Family
    new_database: LiveDatabase
    old_database: LiveDatabase

    def put(self, key: bytes, old_key: bytes | None, value: bytes) -> int:
        """The new value; the old copy goes, and counts even where there is none: to look would cost three puts."""
        ...

    def put_moved(self, key: bytes, old_key: bytes, value: bytes | None) -> None:
        """A record that is only moved; None: dropped. It is logged even where other writes are not."""
        ...

    def has_none(self, *old_keys: bytes) -> None:
        """The old store does not have them, and never will: nothing is written there."""
        ...

    def delete(self, key: bytes, old_key: bytes | None) -> int:
        """Both copies go."""
        ...

    def put_all(self, changes: list[OldChange], convert: Convert) -> int:
        """All of it or, after a crash, none. No key comes twice."""
        ...

    def move(self, keys: list[bytes], values: list[bytes], spans: list[Span]) -> None:
        """Write these, and take every old record in the spans away."""
        ...

    def settle(self) -> None:
        """Old copies that are to go, go."""
        ...

    def flush(self) -> None:
        """What was done before is durable after it."""
        ...


class _Remembering:
    """Knows some of the keys that the old store does not have, or is about to lose."""

    def __init__(self) -> None:
        self._gone: set[bytes] = set()

    def has_none(self, *old_keys: bytes) -> None:
        """The old store does not have them, and never will: nothing is written there."""
        if len(self._gone) + len(old_keys) > _MOST_KNOWN:
            self._gone.clear()
        for key in old_keys:
            if len(key) <= _LONGEST_KNOWN:
                self._gone.add(key)


class OneDatabase(_Remembering):
    """Two column families of one RocksDB directory."""

    def __init__(self, database: LiveDatabase, new: Family, old: Family) -> None:
        super().__init__()
        self.new_database = self.old_database = database
        self.new = new
        self.old = old

    def put(self, key: bytes, old_key: bytes | None, value: bytes) -> int:
        """One batch, unless there is no old copy for certain."""
        if old_key is None or old_key in self._gone:
            self.new.put(key, value)
            return 0
        batch = self.old_database.new_batch()
        batch.put(key, value, self.new.handle)
        batch.delete(old_key, self.old.handle)
        self.old_database.write(batch)
        if len(old_key) <= _LONGEST_KNOWN:
            self._gone.add(old_key)
        if len(self._gone) > _MOST_KNOWN:
            self._gone.clear()
        return 1

    def put_moved(self, key: bytes, old_key: bytes, value: bytes | None) -> None:
        """One batch. Not a range tombstone: each would be sorted among all others by the next read."""
        batch = self.old_database.new_batch()
        if value is not None:
            batch.put(key, value, self.new.handle)
        batch.delete(old_key, self.old.handle)
        self.old_database.write_logged(batch)
        self.has_none(old_key)

    def delete(self, key: bytes, old_key: bytes | None) -> int:
        """One batch, where there is an old copy."""
        if old_key is None or old_key in self._gone or not self.old.contains(old_key):
            self.new.delete(key)
            return 0
        batch = self.old_database.new_batch()
        batch.delete(key, self.new.handle)
        batch.delete(old_key, self.old.handle)
        self.old_database.write(batch)
        return 1

    def put_all(self, changes: list[OldChange], convert: Convert) -> int:
        """One batch."""
        batch, new, old = self.old_database.new_batch(), self.new.handle, self.old.handle
        gone: list[bytes] = []
        for key, old_key, value in changes:
            if value is None:
                batch.delete(key, new)
            else:
                batch.put(key, value, new)
            if old_key is not None and old_key not in self._gone:
                batch.delete(old_key, old)
                gone.append(old_key)
        self.old_database.write(batch)
        self.has_none(*gone)
        return len(gone)

    def move(self, keys: list[bytes], values: list[bytes], spans: list[Span]) -> None:
        """One batch, which goes by way of the write-ahead log always: no changelog could restore what is moved."""
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
        """Every old copy is gone already."""

    def flush(self) -> None:
        """One log for both."""
        self.old_database.sync()


class TwoDatabases(_Remembering):
    """Two RocksDB directories, each with its own write-ahead log."""

    def __init__(self, new_database: LiveDatabase, new: Family, old_database: LiveDatabase, old: Family) -> None:
        super().__init__()
        self.new_database = new_database
        self.new = new
        self.old_database = old_database
        self.old = old
        self._queue: set[bytes] = set()
        """Keys whose old copy may go."""
        self._queued_bytes = 0
        self._spans: list[Span] = []
        self._new_is_dirty = True
        """The new store may have writes that a power cut would take."""
        self._old_is_dirty = True
        """The old store may have deletes that a power cut would take back."""

    def put(self, key: bytes, old_key: bytes | None, value: bytes) -> int:
        """The old copy goes later."""
        self.new.put(key, value)
        self._new_is_dirty = True
        return 0 if old_key is None or old_key in self._gone else self._leave(old_key)

    def put_moved(self, key: bytes, old_key: bytes, value: bytes | None) -> None:
        """The old copy goes later."""
        if value is not None:
            batch = self.new_database.new_batch()
            batch.put(key, value, self.new.handle)
            self.new_database.write_logged(batch)
            self._new_is_dirty = True
        self._leave(old_key)

    def delete(self, key: bytes, old_key: bytes | None) -> int:
        """The old copy first, durably."""
        gone = self._remove([] if old_key is None else [old_key])
        self.new.delete(key)
        self._new_is_dirty = True
        return gone

    def put_all(self, changes: list[OldChange], convert: Convert) -> int:
        """One batch in the new store.

        What is to be deleted and has an old copy is moved first, so that the batch alone decides what is seen;
        `on_migrated` does not hear of it. (An old record that cannot be converted cannot be moved: it goes at once.)
        """
        doomed = [old_key for _, old_key, value in changes if value is None and old_key is not None]
        for old_key in doomed:
            self._promote(old_key, convert)
        gone = self._remove(doomed)
        batch, handle = self.new_database.new_batch(), self.new.handle
        for key, _, value in changes:
            if value is None:
                batch.delete(key, handle)
            else:
                batch.put(key, value, handle)
        self.new_database.write(batch)
        self._new_is_dirty = True
        for _, left, value in changes:
            if value is not None and left is not None and left not in self._gone:
                gone += self._leave(left)
        return gone

    def move(self, keys: list[bytes], values: list[bytes], spans: list[Span]) -> None:
        """The old copies go when this is settled."""
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
                start, _ = self._spans.pop()  # noqa: PLW2901 - one range tombstone for what lies together
            self._spans.append((start, end))
        self._settle_if_due()

    def settle(self) -> None:
        """The new store durable, then the deletes in the old one."""
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
        self._queued_bytes = 0
        self.has_none()
        self._spans.clear()

    def flush(self) -> None:
        """The new store first."""
        self.settle()
        self._sync_new()
        self._sync_old()

    def _leave(self, old_key: bytes) -> int:
        self._queue.add(old_key)
        self._queued_bytes += len(old_key)
        if len(old_key) <= _LONGEST_KNOWN:
            self._gone.add(old_key)
        self._settle_if_due()
        return 1

    def _settle_if_due(self) -> None:
        if len(self._queue) + len(self._spans) >= _MAX_QUEUE or self._queued_bytes >= _MOST_QUEUED_BYTES:
            self.settle()

    def _remove(self, old_keys: list[bytes]) -> int:
        """Durably; what was written to the new store before is durable by then."""
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
    """Then a plain delete does: a read sorts all range tombstones in memory anew after each new one."""
    return end == start + b"\0"
