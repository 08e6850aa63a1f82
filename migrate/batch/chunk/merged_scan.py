"""Several sorted scans merged into one: of segments that become one, and of families of a store in upgrade mode."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise
from operator import ne

from migrate.stores.batch import Batch


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
        for batch, scan in self._heads:
            self._heads = []
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
                taken.append(batch if count == len(batch) else batch.head(count))
            rest = batch.tail(count) if count < len(batch) else next(scan, None)
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
