"""Records as columns: the unit in which scans, conversions, digests and SST writers work."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt


class Batch:
    """Some records in key order. `keys[i]` belongs to `values[i]`; the joined columns are made once and shared."""

    def __init__(self, keys: list[bytes], values: list[bytes]) -> None:
        self.keys = keys
        self.values = values

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def joined_keys(self) -> bytes:
        """All keys, one after the other."""
        return b"".join(self.keys)

    @cached_property
    def joined_values(self) -> bytes:
        """All values, one after the other."""
        return b"".join(self.values)

    @cached_property
    def lengths(self) -> npt.NDArray[np.uint32]:
        """(key length, value length) of each record, little-endian."""
        lengths = np.empty((len(self.keys), 2), dtype="<u4")
        lengths[:, 0] = np.fromiter(map(len, self.keys), dtype="<u4", count=len(self.keys))
        lengths[:, 1] = np.fromiter(map(len, self.values), dtype="<u4", count=len(self.values))
        return lengths

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        return len(self.joined_keys) + len(self.joined_values)

    def head(self, count: int) -> Batch:
        """The first `count` records."""
        return Batch(self.keys[:count], self.values[:count])
