"""Old keys that become one new key, or whose new keys come in another order: neither can be written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice, pairwise
from operator import lt

from migrate.dry_run.report import Collision
from migrate.showing import shown

_KEPT = 3


class KeyOrder:
    """Watches the new keys of one store partition's column family after the other."""

    def __init__(self) -> None:
        self.colliding = 0
        self.collisions: list[Collision] = []
        self.out_of_order: Collision | None = None
        self._seen: dict[bytes, bytes] = {}
        self._last: tuple[bytes, bytes] | None = None
        self._store_partition = ""

    def begin(self, store_partition: str) -> None:
        """The next keys belong to another column family, or another RocksDB directory."""
        self._store_partition = store_partition
        self._seen = {}
        self._last = None

    def add(self, keys: Iterable[tuple[bytes, bytes]]) -> None:
        """(old key, new key), in the order of the old ones; every new one is remembered until `begin`."""
        for old, new in keys:
            self._add_neighbour(old, new)
            if (other := self._seen.setdefault(new, old)) != old:
                self._collide(other, old, new)

    def add_ascending(self, keys: list[bytes], last_old: bytes, old_keys: Callable[[], list[bytes]]) -> None:
        """New keys, many of them: neighbours are compared, and nothing is remembered but the last one.

        `old_keys` tells what they were made from, and is asked for an example alone; `last_old`: the last of them.
        """
        if self._last is not None and self._last[1] >= keys[0]:
            last = self._last
            self._add_equal_or_descending(last[1], keys[0], lambda: (last[0], old_keys()[0]))
        if not all(map(lt, keys, islice(keys, 1, None))):
            for at, (before, key) in enumerate(pairwise(keys)):
                if before >= key:
                    self._add_equal_or_descending(before, key, partial(_pair, old_keys, at))
        self._last = last_old, keys[-1]

    def _add_equal_or_descending(self, before: bytes, key: bytes, old: Callable[[], tuple[bytes, bytes]]) -> None:
        if before == key:
            self.colliding += 1
            if len(self.collisions) < _KEPT:
                self.collisions.append(self._collision(*old(), key))
        elif self.out_of_order is None:
            self.out_of_order = self._collision(*old(), key)

    def _add_neighbour(self, old: bytes, new: bytes) -> None:
        if self._last is not None and new < self._last[1] and self.out_of_order is None:
            self.out_of_order = self._collision(self._last[0], old, new)
        self._last = old, new

    def _collide(self, first: bytes, second: bytes, new: bytes) -> None:
        self.colliding += 1
        if len(self.collisions) < _KEPT:
            self.collisions.append(self._collision(first, second, new))

    def _collision(self, first: bytes, second: bytes, new: bytes) -> Collision:
        return Collision(
            store_partition=self._store_partition, first=shown(first), second=shown(second), new_key=shown(new)
        )


def _pair(keys: Callable[[], list[bytes]], at: int) -> tuple[bytes, bytes]:
    first, second = keys()[at : at + 2]
    return first, second
