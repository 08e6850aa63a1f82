"""`converge`: moving the old records that are neither read nor written, slice by slice."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing

from migrate.dual.lazy_conversion import Converted, LazyConversion, not_convertible
from migrate.dual.store_pair import Span, StorePair
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.live import Family

_LOG = logging.getLogger(__name__)
SLICE_SECONDS = 0.002
_FIRST_SLICE = 256
_SLICES = (16, 1024)
_FLUSH_EVERY = 64
"""Slices: each leaves a range tombstone, and the next read sorts those in memory again."""
_MAX_BETWEEN = 4
"""New records that a scan may pass for each old one."""
OnMigrated = Callable[[bytes, bytes, bytes], None]
"""Called with (key, old value, new value) before the old copy is deleted."""


class HookError(Exception):
    """The caller's `on_migrated` raised `error`."""

    def __init__(self, error: Exception) -> None:
        super().__init__()  # not str(error), which may raise
        self.error = error


class Sweep:
    """One pass through the old store, from its low-water mark to its end, and the records that it had to leave."""

    def __init__(
        self,
        pair: StorePair,
        conversion: LazyConversion,
        *,
        start: bytes | None,
        quarantines: bool,
        on_migrated: OnMigrated | None,
    ) -> None:
        self._pair = pair
        self._conversion = conversion
        self._quarantines = quarantines
        self._on_migrated = on_migrated
        self._size = _FIRST_SLICE
        self._slices = 0
        self.next_key = start
        """The old records below this key were moved, or are in `rejects`."""
        self.rejects: dict[bytes, str] = {}
        """Reasons by old key."""
        self.has_ended = False
        self.moved = 0
        self.dropped = 0
        """Values that the function dropped, of records that are gone."""

    @property
    def low_water(self) -> bytes | None:
        """The key below which there is no old record; None: not known."""
        return min([*self.rejects, self.next_key]) if self.rejects and self.next_key is not None else self.next_key

    def slice(self, limit: int | None, max_skips: int | None) -> int:
        """About 2 ms of work, under the writer lock: how many old records were processed.

        `max_skips`: deleted records that it may pass; None: any number.

        Raises ConversionError at a record that cannot be converted, unless those are quarantined; HookError;
        TooManyTombstonesError.
        """
        began = time.perf_counter()
        with closing(self._pair.old.scan(self.next_key, max_skips=max_skips)) as scan:
            batch = scan.columns(self._size if limit is None else min(limit, self._size))
        if batch is None:
            self.has_ended = True
            return 0
        self._move(batch)
        least, most = _SLICES
        took = time.perf_counter() - began
        self._size = max(least, min(most, int(len(batch) * SLICE_SECONDS / took)))
        return len(batch)

    def rest(self) -> None:
        """Flush the old store now and then, between slices, without the writer lock."""
        self._slices += 1
        if self._slices % _FLUSH_EVERY == 0:
            self._pair.old.flush()

    def _move(self, batch: Batch) -> None:
        converted = self._conversion.many(batch)
        self._conversion.check_order(converted.keys)
        for old_key in [key for key in converted.failed if self._is_settled(key)]:
            del converted.failed[old_key]
        dropped = {key: count for key, count in converted.dropped.items() if not self._is_settled(key)}
        failure: Exception | None = None
        end = batch.keys[-1] + b"\0"
        if converted.failed and not self._quarantines:
            end, reason = next(iter(converted.failed.items()))
            failure = not_convertible(end, reason)
            converted = converted.head(sum(key < end for key in converted.old_keys))
        todo = converted
        if present := present_keys(self._pair.new, converted.keys):  # the new store's own records win
            todo = converted.at([at for at, key in enumerate(converted.keys) if key not in present])
        hooked, at, hook_failure = self._call_hook(todo)
        if hook_failure is not None:
            todo, end, failure = hooked, at, hook_failure
        failed = {key: reason for key, reason in converted.failed.items() if key < end}
        self._pair.move(todo.keys, todo.values, _spans(self.next_key or batch.keys[0], end, list(failed)))
        if failed:
            first = not_convertible(*next(iter(failed.items()))).message
            _LOG.warning("%d old records were left behind, the first one: %s", len(failed), first)
        self.rejects |= failed
        self.next_key = end
        self.moved += len(todo.keys)
        self.dropped += sum(count for key, count in dropped.items() if key < end)
        if failure is not None:
            raise failure

    def _is_settled(self, old_key: bytes) -> bool:
        """Whether the new store has the key, so that the old record no longer matters."""
        return not self._conversion.changes_keys and self._pair.new.contains(old_key)

    def _call_hook(self, todo: Converted) -> tuple[Converted, bytes, Exception | None]:
        """(records that the hook accepted, the old key at which it failed, its error)."""
        if self._on_migrated is not None:
            for at, key in enumerate(todo.keys):
                try:
                    self._on_migrated(key, todo.old_values[at], todo.values[at])
                except HookError as error:
                    return todo.head(at), todo.old_keys[at], error
        return todo, b"", None


def present_keys(new: Family, keys: list[bytes]) -> set[bytes]:
    """Which of these ascending keys it has: by one short scan, or by lookups where many others lie between."""
    found: set[bytes] = set()
    if not keys:
        return found
    with closing(new.scan(keys[0], keys[-1] + b"\0")) as scan:
        while records := scan.pull(len(keys)):
            found.update(key for key, _ in records)
            if len(found) > _MAX_BETWEEN * len(keys):
                beyond = [key for key in keys if key > records[-1][0]]
                values = new.get_many(beyond)
                found.update(key for key, value in zip(beyond, values, strict=True) if value is not None)
                break
    return found.intersection(keys)


def _spans(start: bytes, end: bytes, kept: list[bytes]) -> list[Span]:
    """[start, end) without the keys that are kept."""
    bounds = [start, *(bound for key in sorted(kept) for bound in (key, key + b"\0")), end]
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    return [(first, after) for first, after in pairs if first < after]
