"""The record digest: equal for two ordered sets of records if and only if they are the same records.

Three streaming XXH64 states (seed 0), in key order: the lengths (little-endian u32 key, u32 value, for each record),
the keys, the values. Independent of batching, and the same in every engine. The lengths distinguish `ab|c`
from `a|bc`.
"""

from __future__ import annotations

import xxhash

from migrate.stores.batch import Batch


class RecordDigest:
    """A digest over batches in key order."""

    def __init__(self) -> None:
        self.records = 0
        self.size = 0
        self._lengths = xxhash.xxh64()
        self._keys = xxhash.xxh64()
        self._values = xxhash.xxh64()

    def update(self, batch: Batch) -> None:
        """Add the next records."""
        self.records += len(batch)
        self.size += batch.size
        self._lengths.update(batch.lengths)
        self._keys.update(batch.joined_keys)
        self._values.update(batch.joined_values)

    def __str__(self) -> str:
        return "-".join(state.hexdigest() for state in (self._lengths, self._keys, self._values))
