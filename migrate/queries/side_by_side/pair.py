"""A store partition of the old store and the one of the new store, read by stored keys."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter

from formats import Format
from migrate.model.plan import KeyPlace
from migrate.queries.open.partition import Opened, Partition
from migrate.queries.views.composite import records

Entry = tuple[bytes, bytes]


class Pair:
    """A store partition of both stores, as they were when they were opened."""

    def __init__(
        self,
        old: Partition | None,
        new: Partition | None,
        times: str | None = None,
        key_place: KeyPlace | None = None,
        *,
        is_early: bool = False,
        is_gone: bool = False,
    ) -> None:
        self.id = "".join(each.id for each in (old or new,) if each is not None)
        self.times = times
        """The run of times that new records took theirs from; None: there is none."""
        self.key_place = key_place
        """Where new keys belong; None: they are not checked."""
        self.is_early = is_early
        """Whether the new store is not assembled yet."""
        self.is_gone = is_gone
        """Whether the old store was removed."""
        self._partitions = old, new
        self._old, self._new = (None if each is None else each.opened() for each in (old, new))

    @property
    def old_format(self) -> Format:
        """The old store's format, whose serdes read values as they were written."""
        assert self._old is not None
        return self._old.format

    @property
    def new_format(self) -> Format | None:
        """The new store's format; None: it is not there."""
        return None if self._new is None else self._new.format

    def old_value(self, key: bytes) -> bytes | None:
        """The stored value of a stored key."""
        return _value(self._old, key)

    def new_value(self, key: bytes) -> bytes | None:
        """The stored value of a stored key."""
        return _value(self._new, key)

    def scan_old(self, start: bytes | None, end: bytes | None) -> Iterator[Entry]:
        """The old entries in [start, end)."""
        return _scan(self._old, start, end)

    def scan_new(self, start: bytes | None, end: bytes | None) -> Iterator[Entry]:
        """The new entries in [start, end)."""
        return _scan(self._new, start, end)

    def check(self) -> None:
        """Raises StateStoreMigratedError where a switch has moved one of them meanwhile."""
        for each in self._partitions:
            if each is not None:
                each.check()


def place_of(partition: Partition) -> object:
    """What a partition of the old store has in common with that of the new one, whose name may be another."""
    return partition.id if partition.number is None else (partition.id.partition("/")[0], partition.number)


def _value(opened: Opened | None, key: bytes) -> bytes | None:
    found = (each.entries.get(key) for each in reversed(opened.segments)) if opened is not None else ()
    return next((value for value in found if value is not None), None)


def _scan(opened: Opened | None, start: bytes | None, end: bytes | None) -> Iterator[Entry]:
    """The entries of all segments in one order of keys."""
    segments = () if opened is None else opened.segments
    return merge(*(records(each.entries.scan(start, end)) for each in segments), key=itemgetter(0))
