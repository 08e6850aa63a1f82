"""Sums of the hashes of records: the same for two sets of records, in any order, if they are the same records.

A record's hash has 128 bits: XXH3-128 of its value, seeded by XXH3-64 of its key, which is seeded by the index of its
column family. Sums are modulo 2**128, so those of parts add up to that of the whole, in whatever parts and order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from migrate.model.comparison import Verified

Hashes = npt.NDArray[np.uint64]
"""Of keys: one for each; of records: a row for each, with the upper and the lower half."""
_MODULUS = 1 << 128
_WORDS = (1 << 96, 1 << 64, 1 << 32, 1)
"""What the words of a hash, of 32 bits, stand for. Each is added up in 64 bits: for 2**32 records."""


class RangeSum(NamedTuple):
    """Records in any order, by their number and the sum of their hashes."""

    records: int = 0
    sum: int = 0

    def plus(self, other: RangeSum) -> RangeSum:
        return RangeSum(self.records + other.records, (self.sum + other.sum) % _MODULUS)


class FoundRecord(NamedTuple):
    """A new record."""

    range: int
    """The number of its target range."""
    family: int
    """The number of its column family among the mappings."""
    key: bytes
    value: bytes


class Summed(NamedTuple):
    """What one task has found."""

    sums: dict[int, RangeSum]
    """By number."""
    records: tuple[FoundRecord, ...] = ()
    """Those that are wanted."""
    read: int = 0
    """Old records, also those that are left out."""
    dropped: int = 0
    """Values that the function dropped."""
    digests: tuple[tuple[int, str], ...] = ()
    """Of each new column family, the number of records and their digest."""
    misplaced: Verified = Verified(records=0)
    """New keys that are not where the partitioner puts them."""


class RangeSums:
    """Adds up hashes by the number of the range that each record belongs to."""

    def __init__(self, ranges: int) -> None:
        """Numbers are below `ranges`."""
        self._records = np.zeros(ranges, np.int64)
        self._words = np.zeros((ranges, len(_WORDS)), np.uint64)

    def add(self, numbers: npt.NDArray[np.integer], hashes: Hashes) -> None:
        """Add records: the number of each, and its hash."""
        self._records += np.bincount(numbers, minlength=len(self._records))
        words = hashes.astype(">u8").view(">u4").reshape(-1, len(_WORDS))
        np.add.at(self._words, numbers, words.astype(np.uint64))

    def found(self) -> dict[int, RangeSum]:
        """The sum of each range that has a record, by number."""
        there = np.flatnonzero(self._records).tolist()
        return {number: RangeSum(int(self._records[number]), self._sum(number)) for number in there}

    def _sum(self, number: int) -> int:
        words = self._words[number].tolist()
        return sum(int(word) * weight for word, weight in zip(words, _WORDS, strict=True)) % _MODULUS


def key_hashes(keys: Sequence[bytes], family: int) -> Hashes:
    """The hash of each key of the column family that has this index among the mappings."""
    return np.fromiter(map(xxhash.xxh3_64_intdigest, keys, repeat(family)), np.uint64, len(keys))


def record_hashes(keys: Sequence[bytes], values: Iterable[bytes], family: int) -> Hashes:
    """The hash of each record of such a column family."""
    seeds = map(xxhash.xxh3_64_intdigest, keys, repeat(family))
    joined = b"".join(map(xxhash.xxh3_128_digest, values, seeds))
    return np.frombuffer(joined, ">u8").astype(np.uint64).reshape(-1, 2)


def sum_of(keys: Sequence[bytes], values: Iterable[bytes], family: int) -> RangeSum:
    """The sum of records of one column family."""
    sums = RangeSums(1)
    sums.add(np.zeros(len(keys), np.int64), record_hashes(keys, values, family))
    return sums.found().get(0, RangeSum())
