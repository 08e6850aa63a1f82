"""`DualReadStore`: one store over an old and a new one, until the old one is empty."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from formats import Function
from migrate.dual.access import Compactions, DualAccess
from migrate.dual.converging import Progress
from migrate.dual.lazy_conversion import KeyFunction, LazyConversion, hub_conversion
from migrate.dual.opening import OpenedStores, Policy, open_stores
from migrate.dual.store_paths import MAX_SKIPS, StorePaths, find_places
from migrate.dual.sweep import HookError, OnMigrated
from migrate.errors import StoreClosedError
from migrate.stores.cursor_file import remove_cursor
from migrate.stores.rocks_store import RocksStore
from migrate.stores.rocksdb.database import DEFAULT_FAMILY
from migrate.stores.rocksdb.scan import TooManyTombstonesError
from migrate.stores.state_store import BatchSource, Change, Listener
from migrate.systems import known_format

_LOG = logging.getLogger(__name__)
_FORWARDED = ("get", "multi_get", "put", "put_all", "delete", "approximate_num_entries", "flush", "_scan")


class DualReadStore(RocksStore):
    """A store that reads new-then-old, writes new and deletes old; a plain RocksStore once the old store is empty.

    Keys and values are those of the new format. Safe to share between the threads of one process. Made by `open`.
    """

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        source: str,
        target: str,
        old_path: str | Path | None = None,
        convert: Function | None = None,
        changelog: str | bool | None = None,
        sync: bool = False,
        migrate_on_read: bool | None = None,
        on_migrated: OnMigrated | None = None,
        on_reject: str = "raise",
        may_drop: bool = False,
        on_foreign_writes: str = "refuse",
        wal: bool = True,
        old_key: KeyFunction | None = None,
        source_family: str | None = None,
        target_family: str | None = None,
        create: bool = False,
        on_state_change: Listener | None = None,
    ) -> DualReadStore:
        """Open the old and the new store as one, for reading and writing.

        Args:
            path: the RocksDB directory of both stores; with `old_path`, that of the new store, which is created.
            source: the format id of the old store, such as "kafka-streams.key-value".
            target: the format id of the new store.
            old_path: the RocksDB directory of the old store, if it is not `path`.
            convert: from an old record to the new one, or, with `may_drop`, None to drop it; it must be pure.
            changelog: the name of the changelog that the owner writes for this store, if it does.
            sync: every acknowledged write is durable; otherwise a power cut can take it back to the last `flush`.
            migrate_on_read: a read moves the record; None: unless there is a changelog, which would miss the move.
            on_migrated: called with (key, old value, new value) before the old copy goes, which stays if it raises.
            on_reject: "raise", or "quarantine": `converge` leaves what it cannot convert in the old store.
            may_drop: whether `convert` may drop records; else one for which it returns None cannot be converted, which
                `on_reject` is about.
            on_foreign_writes: if another program replaced the old store or wrote to it: "refuse", or "old-wins" or
                "new-wins", which state whose record stays.
            wal: False if a changelog restores what was not flushed; needs `changelog`.
            old_key: from a new key to the old one, or None, if `convert` changes keys, whose order it must keep.
            source_family: the old store's column family, where its format does not determine it.
            target_family: the new store's, likewise.
            create: create an empty store if there is none.
            on_state_change: called with the previous and the new `State`, in the thread that made the transition.

        Raises:
            SpecError: a format is not known, or the arguments do not fit each other.
            RefusedError: the stores are not what the arguments say, or a sample of them cannot be converted.
            StoreLockedError: a process has one of the stores open.
        """
        old, new = (known_format(source), source_family), (known_format(target), target_family)
        places = find_places(Path(path), None if old_path is None else Path(old_path), old, new)
        conversion = LazyConversion(hub_conversion(places.source, places.target, convert), old_key, may_drop=may_drop)
        migrates_on_read = not changelog if migrate_on_read is None else migrate_on_read
        policy = Policy(migrates_on_read, on_reject, on_migrated, on_foreign_writes, sync, wal, bool(changelog))
        resources = ExitStack()
        try:
            opened = open_stores(places, conversion, policy, resources, create=create)
            store = cls(places, opened, conversion, policy, resources, on_state_change=on_state_change)
            store.start()
        except BaseException:
            resources.close()
            raise
        return store

    def __init__(
        self,
        places: StorePaths,
        opened: OpenedStores,
        conversion: LazyConversion,
        policy: Policy,
        resources: ExitStack,
        *,
        on_state_change: Listener | None,
    ) -> None:
        super().__init__(places.directory, opened.new, opened.database, resources, on_state_change=on_state_change)
        self._places = places
        self._access: DualAccess | None = None
        if opened.pair is not None:
            compactions = Compactions(opened.pair, self._lock, resources)
            self._access = DualAccess(places, opened, conversion, policy, compactions)
        self._last_progress = Progress(0)
        self._on_converged: list[Callable[[], None]] = []

    def start(self) -> None:
        """Move from CREATED to RUNNING, with dual access unless the old store is empty."""
        with self._lock:
            if self._access is None or self._access.is_empty:
                self._become_plain()
            else:
                self._check_empty(self._access)
            if self._access is not None:
                self._access.save_cursor()
                left = self._access.progress.old_keys_left
                _LOG.info("%s: dual access, about %d records are in the old format", self._where, left)
        super().start()

    @property
    def is_converged(self) -> bool:
        """Whether the old store is empty, and no longer read."""
        return self._access is None

    @property
    def progress(self) -> Progress:
        """How far the old store has been converted."""
        access = self._access  # read once: another thread may end dual access meanwhile
        return self._last_progress if access is None else access.progress

    def on_converged(self, listener: Callable[[], None]) -> None:
        """Call `listener` once the old store is empty."""
        self._on_converged.append(listener)

    def rejects(self) -> list[tuple[bytes, str]]:
        """(old key, reason) of the records that the sweep had to leave in the old store, by key."""
        self.check_running()
        with self._lock:
            return [] if self._access is None else sorted(self._access.sweep.rejects.items())

    def converge(self, max_records: int | None = 10_000, max_millis: float | None = 50) -> int:
        """Move old records, up to about the given number or time (None: no limit); how many were processed.

        The writer lock is held for about 2 ms at a time. Raises ConversionError at a record that cannot be converted,
        unless those are quarantined, and any error of `on_migrated`; that record stays old, and those before it are
        moved.
        """
        self.check_running()
        deadline = None if max_millis is None else time.monotonic() + max_millis / 1000
        processed = 0
        with self._guarded():
            try:
                while (access := self._access) is not None and not access.sweep.has_ended:
                    left = None if max_records is None else max_records - processed
                    if (left is not None and left <= 0) or (deadline is not None and time.monotonic() >= deadline):
                        break
                    processed += self._converge_slice(access, left, deadline)
            finally:
                with self._lock:
                    if self._access is not None:
                        self._access.settle()
                        self._after_change(self._access)
        return processed

    def get(self, key: bytes) -> bytes | None:
        """The value, or None. Raises ConversionError where the old record cannot be converted."""
        try:
            value = self._family.get(key)
            if value is not None:
                return value
            value = self._old_value(key)
            # In neither: another thread may have moved it between the two reads.
            return self._family.get(key) if value is None else value
        except Exception as error:
            self._raise(error)

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, or None. Raises ConversionError where an old record cannot be converted."""
        keys = list(keys)
        values = super().multi_get(keys)
        return [self.get(key) if value is None else value for key, value in zip(keys, values, strict=True)]

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write one record, or delete it where the value is None; also delete its old copy."""
        if value is None:
            self.delete(key)
            return
        try:
            with self._lock:
                if (access := self._access) is None:
                    super().put(key, value)
                elif access.put(key, value):
                    self._check_empty(access)
        except Exception as error:
            self._raise(error)

    def put_all(self, changes: Iterable[Change]) -> None:
        """Make all changes or, after a crash, none; a later change of a key wins. Also delete the old copies."""
        last = list(dict(changes).items())
        with self._guarded(), self._lock:
            if (access := self._access) is None:
                super().put_all(last)
            elif access.put_all(last):
                self._check_empty(access)

    def delete(self, key: bytes) -> None:
        """Delete one record, with its old copy."""
        try:
            with self._lock:
                if (access := self._access) is None:
                    super().delete(key)
                else:
                    access.delete(key)
                    self._after_change(access)
        except Exception as error:
            self._raise(error)

    def approximate_num_entries(self) -> int:
        """An estimate of the number of records in both stores."""
        return super().approximate_num_entries() + self.progress.old_keys_left

    def flush(self) -> None:
        """Make everything that was written before durable, in both stores."""
        with self._guarded(), self._lock:
            if self._access is None:
                super().flush()
            else:
                self._access.pair.flush()

    def _old_value(self, key: bytes) -> bytes | None:
        access = self._access
        if access is None:
            return None
        try:
            value = access.old_value(key)
            if value is None or not access.migrates_on_read:
                return value
            with self._lock:
                if self._access is None:
                    return None
                value = access.move(key)
                self._after_change(access)
                return value
        except StoreClosedError:
            if self._access is not None:
                raise
            return None  # it was empty, and was dropped meanwhile

    def _scan(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> BatchSource:
        if self._access is None:
            return super()._scan(start, end, reverse=reverse)
        return self._access.scan(start, end, reverse=reverse)

    def _converge_slice(self, access: DualAccess, limit: int | None, deadline: float | None) -> int:
        compaction = None
        with self._lock:
            if self._access is None:
                return 0
            try:
                processed = access.slice(limit, MAX_SKIPS)
            except TooManyTombstonesError:
                if not access.compactions.is_worthwhile:
                    return access.slice(limit, None)
                compaction = access.compactions.ensure_running(self._check_again)
        if compaction is not None:
            compaction.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
            return 0
        try:
            access.sweep.rest()
        except Exception:
            if self._access is access:  # otherwise another thread has finished, and the old store was dropped
                raise
        return processed

    def _after_change(self, access: DualAccess) -> None:
        if access.is_check_due:
            self._check_empty(access)

    def _check_empty(self, access: DualAccess) -> None:
        access.check_empty(self._check_again)
        if access.is_empty:
            self._switch_off(access)

    def _check_again(self) -> None:
        with self._guarded():
            if self._access is not None:
                self._check_empty(self._access)

    def _switch_off(self, access: DualAccess) -> None:
        access.save_cursor()
        self._last_progress = access.progress
        self._become_plain()
        _LOG.info("%s: the old store is empty, dual access has ended: %s", self._where, self._last_progress)
        for listener in self._on_converged:
            try:
                listener()
            except Exception:
                _LOG.exception("a listener of %s failed when it had converged", self._where)

    def _become_plain(self) -> None:
        """Call the plain store's own methods directly from now on, and drop or compact the old store."""
        access, self._access = self._access, None
        for name in _FORWARDED:
            setattr(self, name, getattr(super(), name))
        if access is not None and self._places.is_shared and self._places.source_family != DEFAULT_FAMILY:
            access.pair.old_database.drop_family(self._places.source_family)
        elif access is not None and not access.pair.old.is_blank:
            access.compactions.start()
        remove_cursor(self._places.directories)

    def _shut(self) -> None:
        if self._access is not None:
            self._access.save_cursor(is_at_rest=True)
            self._access.pair.old_database.flush()
        super()._shut()

    def _raise(self, error: Exception) -> NoReturn:
        if isinstance(error, HookError):
            raise error.error
        super()._raise(error)
