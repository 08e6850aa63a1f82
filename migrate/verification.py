"""Comparing the new store, as it lies on disk, with what the old one converts to or with the receipts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from migrate.differences import first_difference
from migrate.digest import RecordDigest
from migrate.engine.portable import Converter, convert_all
from migrate.function_code import checked_code
from migrate.functions import ConversionRef, load_conversion
from migrate.inputs import Inputs, Records, open_inputs
from migrate.interruption import go_on
from migrate.keyrange import KeyRange, Stored
from migrate.mismatch import Mismatch
from migrate.plan_model import Lane
from migrate.receipt import Receipt
from migrate.rejects import CountRejects
from migrate.stores.batch import Batch
from migrate.stores.openings import open_to_read
from migrate.stores.rocksdb import Database


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """One family of one finished chunk, and the part of the new store that it answers for."""

    mode: Literal["full", "digest"]
    source: Inputs
    target: str
    receipt: Receipt
    lane: int
    """Which of the receipt's."""
    reads: Lane
    keys: KeyRange | None
    """The target's key range; None: the chunk wrote nothing, and no range is its own."""
    conversion: ConversionRef


class Verified(Stored):
    """What the comparison of one task found."""

    records: int
    missing: int = 0
    differing: int = 0
    extra: int = 0
    first: tuple[Mismatch, ...] = ()
    """The first of each kind."""
    seconds: float = 0.0

    @property
    def mismatches(self) -> int:
        """Keys that are not as they should be."""
        return self.missing + self.differing + self.extra


def target_ranges(receipts: list[Receipt], lane: int) -> list[KeyRange | None]:
    """For each receipt, in key order, its part of the new store. Together they cover every key of it (I3).

    A chunk answers for the keys from its first one up to the next chunk's first one, so that an extra key anywhere
    belongs to one of them. A family without any record is left to the first chunk as a whole.
    """
    starts = [receipt.written[lane].first_key for receipt in receipts]
    filled = [number for number, start in enumerate(starts) if start is not None]
    if not filled:
        return [KeyRange(), *[None] * (len(receipts) - 1)]
    ranges: list[KeyRange | None] = [None] * len(receipts)
    edges = [None, *(starts[number] for number in filled[1:]), None]
    for number, (start, end) in zip(filled, pairwise(edges), strict=True):
        ranges[number] = KeyRange(start=start, end=end)
    return ranges


def verify_chunk(task: VerifyTask, check: Callable[[], None] = go_on) -> Verified:
    """Compare one chunk; `check` is called with each batch and may raise.

    Raises CorruptionError where either side cannot be read to its end.
    """
    started = time.perf_counter()
    source_format = load_conversion(task.conversion).source
    with open_to_read(Path(task.target)) as target, open_inputs(task.source, source_format) as source:
        comparison = _Comparison(task, source, target, check)
        same = comparison.by_digest() if task.mode == "digest" else comparison.by_records()
        found = Verified(records=task.receipt.written[task.lane].records) if same else comparison.in_detail()
    checked_code(task.conversion)
    return found.model_copy(update={"seconds": round(time.perf_counter() - started, 6)})


class _Comparison:
    def __init__(self, task: VerifyTask, source: Records, target: Database, check: Callable[[], None]) -> None:
        self._task = task
        self._check = check
        self._source = source
        self._target = target
        self._conversion = load_conversion(task.conversion)
        self._scanned = task.receipt.scanned[task.lane]
        self._written = task.receipt.written[task.lane]

    def by_digest(self) -> bool:
        """The new store's records against the receipt."""
        digest = RecordDigest()
        for batch in self._actual():
            digest.update(batch)
        return (digest.records, str(digest)) == (self._written.records, self._written.digest)

    def by_records(self) -> bool:
        """The new store's records against the old store's, converted again."""
        actual = _Reader(self._actual())
        for batch in self._expected():
            keys, values = actual.take(len(batch))
            if keys != batch.keys or values != batch.values:
                return False
        return actual.is_done()

    def in_detail(self) -> Verified:
        """Record by record: how many of each kind, and the first of each."""
        counts = {"missing": 0, "differing": 0, "extra": 0}
        first: dict[str, Mismatch] = {}
        records = 0
        for key, expected, actual in _side_by_side(_each(self._expected()), _each(self._actual())):
            records += expected is not None
            if expected == actual:
                continue
            mismatch = self._mismatch(key, expected, actual)
            counts[mismatch.kind] += 1
            first.setdefault(mismatch.kind, mismatch)
        if not first:  # the records agree, so it is the receipt that does not
            mismatch = Mismatch(
                kind="differing",
                store_partition=self._task.receipt.store_partition,
                family=self._written.family,
                key=self._written.first_key or b"",
                field="receipt",
                expected=self._written.digest,
                actual="another digest",
            )
            return Verified(records=records, differing=1, first=(mismatch,))
        return Verified(records=records, first=tuple(first.values()), **counts)

    def _expected(self) -> Iterator[Batch]:
        rejects = CountRejects(str(self._task.receipt))
        convert = Converter(self._conversion, self._conversion.program, rejects, self._scanned.family)
        batches = self._source.batches(self._task.reads, self._task.receipt.keys)
        return convert_all(batches, convert, lambda _: None)

    def _actual(self) -> Iterator[Batch]:
        if self._task.keys is None:
            return
        for batch in self._target.batches(self._written.family, self._task.keys):
            self._check()
            yield batch
            del batch  # or a large value would live on while the next one is read

    def _mismatch(self, key: bytes, expected: bytes | None, actual: bytes | None) -> Mismatch:
        kind: Literal["missing", "differing", "extra"] = "differing"
        field, wanted, got = "key", "", ""
        if actual is None:
            kind = "missing"
        elif expected is None:
            kind = "extra"
        else:
            field, wanted, got = first_difference(self._conversion.target, key, expected, actual)
        return Mismatch(
            kind=kind,
            store_partition=self._task.receipt.store_partition,
            family=self._written.family,
            key=key,
            field=field,
            expected=wanted,
            actual=got,
        )


class _Reader:
    """Hands out as many records as are asked for, whatever the batches hold."""

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
        if len(self._keys) == count:  # both sides cut alike, mostly
            taken = self._keys, self._values
            self._keys, self._values = [], []
            return taken
        taken = self._keys[:count], self._values[:count]
        del self._keys[:count], self._values[:count]
        return taken

    def is_done(self) -> bool:
        """Whether nothing is left."""
        return not self.take(1)[0]


def _each(batches: Iterator[Batch]) -> Iterator[tuple[bytes, bytes]]:
    for batch in batches:
        yield from zip(batch.keys, batch.values, strict=True)


def _side_by_side(
    expected: Iterator[tuple[bytes, bytes]], actual: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    left, right = next(expected, None), next(actual, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None
            yield left[0], left[1], None
            left = next(expected, None)
        elif left is None or right[0] < left[0]:
            yield right[0], None, right[1]
            right = next(actual, None)
        else:
            yield left[0], left[1], right[1]
            left, right = next(expected, None), next(actual, None)
