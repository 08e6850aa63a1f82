"""One ordered scan over two stores: the new one wins, no key comes twice."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from migrate.dual.lazy_conversion import Converted, LazyConversion, not_convertible
from migrate.errors import ConversionError
from migrate.stores.batch import Batch
from migrate.stores.records import BatchSource

_LEAST_OLD = 64
"""A conversion costs a few microseconds for each batch."""


class MergedScan:
    """Merges two scans of one instant; the old one is converted on the way."""

    def __init__(self, new: BatchSource, old: BatchSource, *, reverse: bool, fails_at_once: bool = False) -> None:
        """`old`: converted already, see ConvertedScan. `fails_at_once`: an old key says nothing of the new one."""
        self._fails_at_once = fails_at_once
        self._sides = _Side(new, reverse=reverse), _Side(old, reverse=reverse)
        self._reverse = reverse

    def pull(self, limit: int) -> Batch | None:
        """The next records; None at the end. Raises ConversionError when an old record's turn comes that cannot be
        converted."""
        new, old = self._sides
        new.fill(limit)
        old.fill(limit)
        if old.failure is not None:
            return self._before_failure(old.failure)
        if not new.keys and not old.keys:
            return None
        if not new.keys or not old.keys:
            return old.take_all() if old.keys else new.take_all()
        # What lies beyond the shorter side's last key may still be followed by a record of that side.
        bound = max(new.last, old.last) if self._reverse else min(new.last, old.last)
        old_keys, old_values = old.take(bound)
        new_keys, new_values = new.take(bound)
        merged = dict(zip(old_keys, old_values, strict=True))
        merged.update(zip(new_keys, new_values, strict=True))
        keys = sorted(merged, reverse=self._reverse)
        return Batch(keys, [merged[key] for key in keys])

    def _before_failure(self, failure: ConversionError) -> Batch:
        """The new records whose turn comes first; and the new one of that key: then the old one does not matter."""
        new, old = self._sides
        at = failure.key
        if not self._fails_at_once and at in new.keys:
            old.failure = None
        elif self._fails_at_once or not new.keys or (new.first < at if self._reverse else new.first > at):
            raise failure
        keys, values = new.take(at)
        return Batch(keys[::-1], values[::-1]) if self._reverse else Batch(keys, values)

    def close(self) -> None:
        """Give up both."""
        for side in self._sides:
            side.source.close()


class _Side:
    """What was pulled from one scan and not handed out yet; ascending, also where the scan goes backwards."""

    def __init__(self, source: BatchSource, *, reverse: bool) -> None:
        self.source = source
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.failure: ConversionError | None = None
        """Of the record whose turn is next."""
        self._reverse = reverse
        self._has_ended = False

    @property
    def first(self) -> bytes:
        """The key that comes next in the direction of the scan."""
        return self.keys[-1] if self._reverse else self.keys[0]

    @property
    def last(self) -> bytes:
        """The key that comes last in the direction of the scan."""
        return self.keys[0] if self._reverse else self.keys[-1]

    def fill(self, limit: int) -> None:
        if self.keys or self._has_ended or self.failure is not None:
            return
        try:
            batch = self.source.pull(limit)
        except ConversionError as error:
            self.failure = error
            return
        if batch is None:
            self._has_ended = True
            return
        self.keys, self.values = batch.keys, batch.values
        if self._reverse:
            self.keys, self.values = self.keys[::-1], self.values[::-1]

    def take(self, bound: bytes) -> tuple[list[bytes], list[bytes]]:
        """Everything up to the bound, it included."""
        if self._reverse:
            at = bisect_left(self.keys, bound)
            taken = self.keys[at:], self.values[at:]
            self.keys, self.values = self.keys[:at], self.values[:at]
        else:
            at = bisect_right(self.keys, bound)
            taken = self.keys[:at], self.values[:at]
            self.keys, self.values = self.keys[at:], self.values[at:]
        return taken

    def take_all(self) -> Batch:
        keys, values = self.take(self.last)
        return Batch(keys[::-1], values[::-1]) if self._reverse else Batch(keys, values)


class ConvertedScan:
    """The old records of a scan, converted: within [start, end) of the new keys."""

    def __init__(
        self, scan: BatchSource, conversion: LazyConversion, start: bytes | None, end: bytes | None, *, reverse: bool
    ) -> None:
        self._scan = scan
        self._conversion = conversion
        self._start, self._end = start, end
        self._reverse = reverse
        self._rest: Batch | None = None
        """From a record on that cannot be converted."""
        self._last: list[bytes] = []

    def pull(self, limit: int) -> Batch | None:
        """The next records; a record that cannot be converted is an error when its turn comes, and is passed by it."""
        while True:
            batch = self._rest or self._scan.pull(max(limit, _LEAST_OLD))
            self._rest = None
            if batch is None:
                return None
            converted = self._before_failure(self._conversion.many(batch), batch)
            if self._conversion.changes_keys:
                self._check_order(converted.keys)
                converted = self._inside(converted)
            if converted.keys:
                return Batch(converted.keys, converted.values)

    def close(self) -> None:
        """Give up the scan below."""
        self._scan.close()

    def _before_failure(self, converted: Converted, batch: Batch) -> Converted:
        if not converted.failed:
            return converted
        key, reason = next(iter(converted.failed.items()))
        at = batch.keys.index(key)
        if at == 0:
            self._rest = Batch(batch.keys[1:], batch.values[1:]) if len(batch) > 1 else None
            raise not_convertible(key, reason)
        self._rest = Batch(batch.keys[at:], batch.values[at:])
        return self._conversion.many(batch.head(at))

    def _check_order(self, keys: list[bytes]) -> None:
        self._conversion.check_order((keys[::-1] + self._last) if self._reverse else (self._last + keys))
        self._last = keys[-1:] or self._last

    def _inside(self, converted: Converted) -> Converted:
        inside = [
            at
            for at, key in enumerate(converted.keys)
            if (self._start is None or key >= self._start) and (self._end is None or key < self._end)
        ]
        return converted.at(inside)
