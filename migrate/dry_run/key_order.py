"""Detect old keys that become one new key, or whose new keys are in another order: neither can be written."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, pairwise
from operator import lt

from migrate.dry_run.report import Collision
from migrate.model.preview import shown

_KEPT = 3
OldKeys = Callable[[], list[bytes]]


class KeyOrder:
    """Compares neighbouring new keys, one column family of a store partition after the other."""

    def __init__(self) -> None:
        self.colliding = 0
        self.collisions: list[Collision] = []
        self.out_of_order: Collision | None = None
        self._last: tuple[bytes, OldKeys] | None = None
        self._store_partition = ""

    def begin(self, store_partition: str) -> None:
        """The next keys belong to another column family, or another RocksDB directory."""
        self._store_partition = store_partition
        self._last = None

    def add(self, keys: list[bytes], old_keys: OldKeys) -> None:
        """Compare new keys, in the order of the old ones; `old_keys` returns the old ones, for an example."""
        last = [] if self._last is None else [self._last[0]]
        if (last and last[0] >= keys[0]) or not all(map(lt, keys, islice(keys, 1, None))):
            last_old = [] if self._last is None else self._last[1]()[-1:]
            self._compare([*zip(last_old + old_keys(), last + keys, strict=True)])
        self._last = keys[-1], old_keys

    def _compare(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Compare neighbours among (old key, new key)."""
        for (first, before), (second, key) in pairwise(pairs):
            if before < key:
                continue
            found = Collision(
                store_partition=self._store_partition, first=shown(first), second=shown(second), new_key=shown(key)
            )
            if before > key:
                self.out_of_order = self.out_of_order or found
                continue
            self.colliding += 1
            if len(self.collisions) < _KEPT:
                self.collisions.append(found)
