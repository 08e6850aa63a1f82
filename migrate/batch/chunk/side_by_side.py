"""Comparing two sorted sequences of records side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from migrate.kafka.latest import unpacked
from migrate.model.comparison import Mismatch, Verified, difference, differing
from migrate.model.key_range import KeyRange, show_key, subtract
from migrate.model.store_partition import place_name
from migrate.spec.conversion import load_conversion
from migrate.spec.conversion_ref import ConversionRef
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.database import Database
from migrate.stores.rocksdb.openings import open_pooled


class RecordReader:
    """Reads a given number of records at a time, whatever the sizes of the batches."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self._keys: list[bytes] = []
        self._values: list[bytes] = []

    def take(self, count: int) -> tuple[list[bytes], list[bytes]]:
        """The next `count` records, fewer at the end."""
        while len(self._keys) < count and (batch := next(self._batches, None)) is not None:
            if self._keys:
                self._keys += batch.keys
                self._values += batch.values
            else:
                self._keys, self._values = batch.keys, batch.values
            del batch
        if len(self._keys) == count:  # mostly, both sides have the same batch sizes
            taken = self._keys, self._values
            self._keys, self._values = [], []
            return taken
        taken = self._keys[:count], self._values[:count]
        del self._keys[:count], self._values[:count]
        return taken


def side_by_side(
    expected: Iterator[Batch], actual: Iterator[Batch], *, to_end: bool
) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """(key, expected value, actual value) of each key on either side, in key order; None: that side has no such key.

    Without `to_end` it ends after the last expected record.
    """
    lefts, rights = _each(expected), _each(actual)
    left, right = next(lefts, None), next(rights, None)
    while left is not None or (right is not None and to_end):
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


def _each(batches: Iterator[Batch]) -> Iterator[tuple[bytes, bytes]]:
    for batch in batches:
        yield from zip(batch.keys, batch.values, strict=True)


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
        mask = [key not in touched for key in batch.keys]
        if all(mask):
            yield batch
        elif any(mask):
            yield Batch(list(compress(batch.keys, mask)), list(compress(batch.values, mask)))
        del batch  # or a large value would live on while the next one is read


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


def compare_gaps(
    target: Database,
    partition: str,
    family: str,
    ends: Sequence[tuple[bytes, bytes]],
    *,
    left_out: Sequence[bytes] = (),
    touched: Database | None = None,
) -> Iterator[tuple[int, Mismatch]]:
    """(number of keys, the first one) of each gap that has extra keys.

    `ends`: each range's first and last new key; `left_out`: keys that are not compared; `touched`: the overlay, whose
    keys are not, either.
    """
    begin = [None, *(last + b"\0" for _, last in ends)]
    found = differing(partition, "key", "", "", family=family)
    for start, end in zip(begin, [*(first for first, _ in ends), None], strict=True):
        if start is not None and end is not None and end < start:
            order = {"key": end, "field": "order of keys", "expected": f"after {show_key(start[:-1])}"}
            yield 1, found.model_copy(update={**order, "actual": "not"})
        elif extra := _extra_keys(target, family, KeyRange(start=start, end=end), left_out, touched):
            count, first = extra
            yield count, found.model_copy(update={"kind": "extra", "key": first})


def _extra_keys(
    target: Database, family: str, keys: KeyRange, left_out: Sequence[bytes], touched: Database | None
) -> tuple[int, bytes] | None:
    next_one = target.sample(family, keys.start, 1).keys  # mostly the next range's first
    if not next_one or next_one[0] not in keys:
        return None
    counts = [(len(batch), batch.keys[0]) for batch in batches_without(left_out, target, family, keys, touched)]
    return (sum(count for count, _ in counts), counts[0][1]) if counts else None


@dataclass(frozen=True, slots=True)
class OverlayTask:
    """One column family of an overlay, to be compared with what the new store has for its keys."""

    store_partition: str
    database: str
    family: str
    target: str
    overlay: str
    conversion: ConversionRef
    size: int = 0
    """About how many bytes the task reads."""

    def __str__(self) -> str:
        return f"{place_name(self.store_partition, self.database)} {self.family}, what tails have changed"


def compare_overlay(task: OverlayTask, check: Callable[[], None]) -> Verified:
    """Compare each key of an overlay with what the new store has for it."""
    conversion = load_conversion(task.conversion)
    found = Verified(records=0)
    with open_pooled(Path(task.overlay)) as overlay, open_pooled(Path(task.target)) as target:
        for batch in overlay.batches(task.family):
            check()
            entries = unpacked(batch)
            found = found.model_copy(update={"records": found.records + len(entries)})
            for key, expected in zip(entries.keys, entries.values, strict=True):
                if (actual := target.get(task.family, key)) != expected:
                    where = (task.store_partition, task.family)
                    found = found.with_mismatch(difference(conversion.target, where, key, expected, actual))
    return found
