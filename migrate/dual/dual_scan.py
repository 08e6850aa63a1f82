"""One ordered scan over two stores: the new one wins, no key comes twice."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from migrate.dual.lazy_conversion import Converted, LazyConversion, not_convertible
from migrate.errors import ConversionError
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.scan import key_of
from migrate.stores.state_store import BatchSource, Record

_LEAST_OLD = 64
"""Records: converting a batch takes a few microseconds more than its records."""


class DualScan:
    """The merge of two scans of the same time; the old records are already converted."""

    def __init__(self, new: BatchSource, old: BatchSource, *, reverse: bool, fails_at_once: bool = False) -> None:
        """`old`: a ConvertedScan. `fails_at_once`: the new key of a record that cannot be converted is not known."""
        self._fails_at_once = fails_at_once
        self._sides = _Side(new, reverse=reverse), _Side(old, reverse=reverse)
        self._reverse = reverse

    def pull(self, limit: int) -> list[Record]:
        """The next records; empty at the end. Raises ConversionError at an old record that cannot be converted."""
        new, old = self._sides
        new.fill(limit)
        old.fill(limit)
        if old.failure is not None:
            return self._before_failure(old.failure)
        if not new.records or not old.records:
            return old.take_all() if old.records else new.take_all()
        # What lies beyond the shorter side's last key may still be followed by a record of that side.
        bound = max(new.last, old.last) if self._reverse else min(new.last, old.last)
        old_records, new_records = old.take(bound), new.take(bound)
        if not set(map(key_of, new_records)).isdisjoint(map(key_of, old_records)):
            old_records = list((dict(old_records) | dict(new_records)).items())
            new_records = []
        # Two ascending runs: sorting merges them.
        return sorted(new_records + old_records, key=key_of, reverse=self._reverse)

    def _before_failure(self, failure: ConversionError) -> list[Record]:
        """The new records up to the failed key; where one of them has that key, the failure no longer matters."""
        new, old = self._sides
        at = failure.key
        if not self._fails_at_once and any(key == at for key, _ in new.records):
            old.failure = None
        elif self._fails_at_once or not new.records or (new.first < at if self._reverse else new.first > at):
            raise failure
        records = new.take(at)
        return records[::-1] if self._reverse else records

    def close(self) -> None:
        for side in self._sides:
            side.source.close()


class _Side:
    """Records that were pulled from one scan and not returned yet; ascending, also in a backward scan."""

    def __init__(self, source: BatchSource, *, reverse: bool) -> None:
        self.source = source
        self.records: list[Record] = []
        self.failure: ConversionError | None = None
        """The error of the next record."""
        self._reverse = reverse
        self._has_ended = False

    @property
    def first(self) -> bytes:
        return self.records[-1 if self._reverse else 0][0]

    @property
    def last(self) -> bytes:
        return self.records[0 if self._reverse else -1][0]

    def fill(self, limit: int) -> None:
        if self.records or self._has_ended or self.failure is not None:
            return
        try:
            self.records = self.source.pull(limit)
        except ConversionError as error:
            self.failure = error
            return
        self._has_ended = not self.records
        if self._reverse:
            self.records.reverse()

    def take(self, bound: bytes) -> list[Record]:
        """Remove and return the records up to the bound, inclusive."""
        if self._reverse:
            at = bisect_left(self.records, bound, key=key_of)
            taken, self.records = self.records[at:], self.records[:at]
        else:
            at = bisect_right(self.records, bound, key=key_of)
            taken, self.records = self.records[:at], self.records[at:]
        return taken

    def take_all(self) -> list[Record]:
        taken, self.records = self.records, []
        return taken[::-1] if self._reverse else taken


class ConvertedScan:
    """The old records of a scan, converted; those whose new keys are in [start, end)."""

    def __init__(
        self, scan: BatchSource, conversion: LazyConversion, start: bytes | None, end: bytes | None, *, reverse: bool
    ) -> None:
        self._scan = scan
        self._conversion = conversion
        self._start, self._end = start, end
        self._reverse = reverse
        self._rest: list[Record] = []
        """Records from the first one that cannot be converted."""
        self._last: list[bytes] = []

    def pull(self, limit: int) -> list[Record]:
        """The next records. Raises ConversionError at one that cannot be converted; the next call skips it."""
        while records := self._rest or self._scan.pull(max(limit, _LEAST_OLD)):
            self._rest = []
            if (plain := self._conversion.records(records)) is not None:
                return plain
            converted = self._before_failure(records)
            if self._conversion.changes_keys:
                self._check_order(converted.keys)
                converted = self._inside(converted)
            if converted.keys:
                return list(zip(converted.keys, converted.values, strict=True))
        return []

    def close(self) -> None:
        self._scan.close()

    def _before_failure(self, records: list[Record]) -> Converted:
        batch = Batch([key for key, _ in records], [value for _, value in records])
        converted = self._conversion.many(batch)
        if not converted.failed:
            return converted
        key, reason = next(iter(converted.failed.items()))
        at = batch.keys.index(key)
        if at == 0:
            self._rest = records[1:]
            raise not_convertible(key, reason)
        self._rest = records[at:]
        return self._conversion.many(batch.part(0, at))

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
