"""Sizes of keys and values: counted by size, weighted for a sample."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from migrate.dry_run.report import Sizes
from migrate.stores.batch import Batch

_EXACT = 4096
"""Larger sizes are rounded up by less than 1 %, to limit the number of different sizes."""
_STEPS = 128


class SizeCounter:
    """Counts of sizes."""

    def __init__(self) -> None:
        self._weights: Counter[int] = Counter()
        self._largest = 0

    def add(self, sizes: npt.NDArray[np.uint32], weight: float = 1.0) -> None:
        """Count each size as `weight` records."""
        self._largest = max(self._largest, int(sizes.max()))
        for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
            self._weights[_rounded(int(size))] += count * weight

    def sizes(self) -> Sizes | None:
        """Quantiles and buckets of the sizes; None: nothing was counted."""
        if not self._weights:
            return None
        ascending = sorted(self._weights.items())
        passed = list(accumulate(weight for _, weight in ascending))
        p50, p99 = (ascending[bisect_left(passed, part * passed[-1])][0] for part in (0.5, 0.99))
        return Sizes(
            p50=min(p50, self._largest),
            p99=min(p99, self._largest),
            largest=self._largest,
            buckets=self._buckets(passed[-1]),
        )

    def _buckets(self, total: float) -> tuple[tuple[int, float], ...]:
        shares: defaultdict[int, float] = defaultdict(float)
        for size, weight in self._weights.items():
            shares[1 << (size - 1).bit_length() if size else 0] += weight / total
        bounds = [0] if 0 in shares else []
        bounds += [1 << power for power in range(max(min(shares), 1).bit_length() - 1, max(shares).bit_length())]
        return tuple((bound, round(float(shares[bound]), 6)) for bound in bounds)


class RecordSizes:
    """Sizes of keys and of values."""

    def __init__(self) -> None:
        self.keys = SizeCounter()
        self.values = SizeCounter()

    def add(self, batch: Batch, weight: float = 1.0) -> None:
        """Count a batch that is not empty."""
        lengths = np.frombuffer(batch.lengths, dtype="<u4").reshape(-1, 2)
        self.keys.add(lengths[:, 0], weight)
        self.values.add(lengths[:, 1], weight)


def _rounded(size: int) -> int:
    if size <= _EXACT:
        return size
    step = 1 << max(0, size.bit_length() - _STEPS.bit_length())
    return -(-size // step) * step
