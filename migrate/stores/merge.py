"""Sorted streams of records: merged into one, paired span by span, without an overlay's keys, or checked for order."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice, pairwise
from operator import lt, ne
from typing import TypeVar

from migrate.model.key_range import KeyRange, subtract
from migrate.stores.batch import Batch, ChangelogBatch
from migrate.stores.rocksdb.database import Database


@dataclass(slots=True)
class MergedScan:
    """The records of all scans in key order; of a key that several have, the first scan's record."""

    scans: Sequence[Iterator[Batch]]
    shadowed: int = 0
    """Records that were left out since an earlier scan has their key."""
    _heads: list[tuple[Batch, Iterator[Batch]]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Batch]:
        """Batches of varying sizes."""
        self._heads = [(batch, scan) for scan in self.scans if (batch := next(scan, None)) is not None]
        while len(self._heads) > 1:
            yield self._next()
        if self._heads:
            batch, scan = self._heads.pop()
            yield batch
            del batch  # or a large value would live on while the next one is read
            yield from scan

    def _next(self) -> Batch:
        """All records that come before any that has not been read yet."""
        border = min(batch.keys[-1] for batch, _ in self._heads)
        taken, left = [], []
        for batch, scan in self._heads:
            count = bisect_right(batch.keys, border)
            if count:
                taken.append(batch.part(0, count))
            rest = batch.part(count, len(batch)) if count < len(batch) else next(scan, None)
            if rest is not None:
                left.append((rest, scan))
        self._heads = left
        return taken[0] if len(taken) == 1 else self._sorted(taken)

    def _sorted(self, batches: list[Batch]) -> Batch:
        keys = [key for batch in batches for key in batch.keys]
        values = [value for batch in batches for value in batch.values]
        order = sorted(range(len(keys)), key=keys.__getitem__)  # stable, and quick on runs that are sorted already
        keys, values = [keys[place] for place in order], [values[place] for place in order]
        sizes = {batch.sizes for batch in batches}
        if len(set(keys)) < len(keys):
            is_first = [True, *(ne(before, after) for before, after in pairwise(keys))]
            self.shadowed += is_first.count(False)
            keys, values = list(compress(keys, is_first)), list(compress(values, is_first))
        return Batch(keys, values, sizes.pop() if len(sizes) == 1 else None)


def batches_without(
    left_out: Sequence[bytes],
    database: Database,
    family: str,
    keys: KeyRange | None = None,
    touched: Database | None = None,
) -> Iterator[Batch]:
    """The records of a column family in the range, without these keys and those that an overlay has `touched`."""
    for part in subtract(keys or KeyRange(), [KeyRange(start=key, end=key + b"\0") for key in left_out]):
        yield from untouched(database.batches(family, part), touched, family)


def untouched(batches: Iterator[Batch], overlay: Database | None, family: str) -> Iterator[Batch]:
    """The records, which are in key order, whose keys the overlay does not have."""
    if overlay is None or family not in overlay.families:
        yield from batches
        return
    changes = Changes(overlay, family)
    for batch in batches:
        touched = changes.among(batch.keys)
        if len(left := batch.where([key not in touched for key in batch.keys])):
            yield left
        del batch, left  # or a large value would live on while the next one is read


class Changes:
    """Reads a family of an overlay side by side with batches of keys, which ascend also from batch to batch."""

    def __init__(self, overlay: Database, family: str) -> None:
        self._overlay, self._family = overlay, family
        self._scan: Iterator[Batch] | None = None
        self._read: deque[Batch] = deque()

    def among(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Entries of the overlay by key: all from the first to the last of these keys, and some beside them."""
        if self._scan is None:
            self._scan = self._overlay.batches(self._family, KeyRange(start=keys[0]))
        while self._read and self._read[0].keys[-1] < keys[0]:
            self._read.popleft()
        while not self._read or self._read[-1].keys[-1] < keys[-1]:
            if (more := next(self._scan, None)) is None:
                break
            self._read.append(more)
        return {key: value for each in self._read for key, value in zip(each.keys, each.values, strict=True)}


_Records = TypeVar("_Records", Batch, ChangelogBatch)


def paired(
    left: Iterator[_Records], right: Iterator[_Records], *, to_end: bool = True
) -> Iterator[tuple[_Records, _Records]]:
    """The records of two sides in key order, side by side: both of a pair are of the same span of keys.

    Without `to_end` it ends after the last record of the left side.
    """
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        border = min(one.keys[-1], other.keys[-1])
        here, there = _up_to(one, border), _up_to(other, border)
        yield one.part(0, here), other.part(0, there)
        one = one.part(here, len(one)) if here < len(one) else None  # or it would live on while the next is read
        other = other.part(there, len(other)) if there < len(other) else None
        one, other = one or next(left, None), other or next(right, None)
    while one is not None:
        yield one, one.part(0, 0)
        one = None
        one = next(left, None)
    while other is not None and to_end:
        yield other.part(0, 0), other
        other = None
        other = next(right, None)


def _up_to(batch: Batch | ChangelogBatch, border: bytes) -> int:
    """How many records come before the border, or are there; all where it is the last one's, in whatever order."""
    return len(batch) if batch.keys[-1] == border else bisect_right(batch.keys, border)


def by_key(one: Batch, other: Batch) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """(key, one value, other value) of each key in one span, in key order; None: that side has no such key."""
    lefts, rights = zip(one.keys, one.values, strict=True), zip(other.keys, other.values, strict=True)
    left, right = next(lefts, None), next(rights, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None
            yield left[0], left[1], None
            left = next(lefts, None)
        elif left is None or right[0] < left[0]:
            yield right[0], None, right[1]
            right = next(rights, None)
        else:
            yield left[0], left[1], right[1]
            left, right = next(lefts, None), next(rights, None)


class OutOfOrderError(Exception):
    """A key comes after a greater one, or twice."""


def in_order(batches: Iterator[ChangelogBatch]) -> Iterator[ChangelogBatch]:
    """The batches, whose keys ascend strictly: so each record is its key's last. Raises OutOfOrderError."""
    last: bytes | None = None
    for batch in batches:
        keys = batch.keys
        if (last is not None and keys[0] <= last) or not all(map(lt, keys, islice(keys, 1, None))):
            raise OutOfOrderError
        last = keys[-1]
        yield batch
