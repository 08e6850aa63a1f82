"""Splitting old store partitions into new ones: records merged in key order, each checked to be where its key belongs.

The partitioner is asked with a key as its serde wrote it, without the window, session or version that is stored beside
it. A key that cannot be read has no payload: it goes along with its old partition, so that its conversion rejects it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from formats import EntryError, Format
from formats.layout import PAYLOAD
from formats.partitioners import Partitioner
from migrate.engine.partitioning import Numbers, partitions_of
from migrate.errors import RefusedError
from migrate.model.key_range import show_key
from migrate.model.plan import Share
from migrate.stores.batch import Batch, joined


class OldPartition(NamedTuple):
    """An old store partition."""

    number: int
    id: str
    """The task and the store."""


Taken = Sequence[tuple[OldPartition, Batch]]


@dataclass(slots=True)
class Split:
    """Splits the records of old store partitions into those of new ones."""

    share: Share
    """Of any of the new ones that are made from these old ones."""
    source: Format
    function: Partitioner | None = None
    """The user's partitioner, where the share names one."""
    used: Counter[tuple[int, OldPartition]] = field(default_factory=Counter, init=False)
    """How many records `of` has found so far, by the number of the new store partition and the old one."""
    _payloads: Payloads = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._payloads = Payloads(self.source)

    def check(self, batch: Batch, old: OldPartition) -> None:
        """Raises RefusedError for a key that is not in the old store partition where the partitioner puts it."""
        self._numbers([(old, batch)], batch)

    def own(self, batches: Iterator[Batch], old: OldPartition) -> Iterator[Batch]:
        """The records of an old store partition that belong to the share's own number. Raises RefusedError as `of`."""
        for batch in batches:
            mask = self._numbers([(old, batch)], batch) == self.share.number
            if len(mine := batch.where(mask.tolist())):
                yield mine
            del batch, mine  # or a large value would live on while the next one is read

    def of(
        self, olds: Sequence[tuple[OldPartition, Iterator[Batch]]], wanted: Sequence[int]
    ) -> Iterator[list[tuple[int, Batch]]]:
        """For each span of keys the records of each new store partition that is `wanted` by its number, in key order.

        Raises RefusedError for a key that is not in the old store partition where the partitioner puts it.
        """
        heads = [(old, batch, scan) for old, scan in olds if (batch := next(scan, None)) is not None]
        while heads:
            border = min(batch.keys[-1] for _, batch, _ in heads)
            taken, left = list[tuple[OldPartition, Batch]](), list[tuple[OldPartition, Batch, Iterator[Batch]]]()
            for old, batch, scan in heads:
                count = bisect_right(batch.keys, border)
                if count:
                    taken.append((old, batch.part(0, count)))
                rest = batch.part(count, len(batch)) if count < len(batch) else next(scan, None)
                if rest is not None:
                    left.append((old, rest, scan))
            heads = left
            yield self._split(taken, wanted)

    def _split(self, taken: Taken, wanted: Sequence[int]) -> list[tuple[int, Batch]]:
        whole = joined([batch for _, batch in taken])
        new = self._numbers(taken, whole)
        order = None
        if len(taken) > 1:
            order = np.array(sorted(range(len(whole)), key=whole.keys.__getitem__))
            new = new[order]
        by_number = np.argsort(new.astype(np.int16), kind="stable")  # in linear time
        places = by_number if order is None else order[by_number]
        pick = _picker(places.tolist())
        keys, values = pick(whole.keys), pick(whole.values)
        borders = np.searchsorted(new[by_number], [(number, number + 1) for number in wanted]).tolist()
        found = []
        for number, (start, end) in zip(wanted, borders, strict=True):
            if start < end:
                found.append((number, Batch(keys[start:end], values[start:end], whole.sizes)))
                self._count(number, taken, places[start:end])
        return found

    def _count(self, number: int, taken: Taken, places: Numbers) -> None:
        if len(taken) == 1:
            self.used[number, taken[0][0]] += len(places)
            return
        ends = np.cumsum([len(batch) for _, batch in taken])
        counts = np.diff(np.searchsorted(np.sort(places), ends), prepend=0)
        for (old, _), count in zip(taken, counts.tolist(), strict=True):
            self.used[number, old] += count

    def _numbers(self, taken: Taken, whole: Batch) -> Numbers:
        """The new number of each key; `whole`: all that is taken. Raises RefusedError for one in a wrong place."""
        share, keys = self.share, whole.keys
        old, new = self._payloads.partitions(share.partitioner, whole, (share.old, share.new), self.function)
        actual = [each.number for each, _ in taken]
        lies = np.array(actual) if len(taken) == 1 else np.repeat(actual, [len(batch) for _, batch in taken])
        for at in np.flatnonzero(old != lies).tolist():
            ends = np.cumsum([len(batch) for _, batch in taken])
            where = taken[int(np.searchsorted(ends, at, side="right"))][0]
            if not self._payloads.is_unreadable(keys[at]):
                raise misplaced_key(share, where.id, keys[at], int(old[at]))
            new[at] = where.number % share.groups
        return new


class Payloads:
    """What the partitioner is asked with, of stored keys; of a key that cannot be read it is any bytes."""

    def __init__(self, known: Format) -> None:
        self._known = known
        cut = _payload_slice(known)
        self._cuts_alike = cut is not None
        self._of: Callable[[list[bytes]], list[bytes]] = self._one_by_one if cut is None else _slicing(cut)

    def partitions(
        self, partitioner: str, records: Batch, counts: Sequence[int], function: Partitioner | None
    ) -> list[Numbers]:
        """As `partitions_of`, of the records' keys."""
        payloads = self._of(records.keys)
        size = len(payloads[0]) if records.sizes is not None and self._cuts_alike and payloads else None
        return partitions_of(partitioner, payloads, counts, function, size=size)

    def is_unreadable(self, key: bytes) -> bool:
        try:
            self._known.key_payload(key)
        except EntryError:
            return True
        return False

    def _one_by_one(self, keys: list[bytes]) -> list[bytes]:
        return [b"" if self.is_unreadable(key) else self._known.key_payload(key) for key in keys]


def _picker(places: list[int]) -> Callable[[list[bytes]], list[bytes]]:
    """What takes the items at these places out of a column: in half the time of a loop."""
    if len(places) == 1:
        return lambda column: [column[places[0]]]
    get = itemgetter(*places)
    return lambda column: list(get(column))


def misplaced_key(share: Share, partition: str, key: bytes, right: int) -> RefusedError:
    """The error for a key of an old store partition that belongs to the one numbered `right`."""
    task, _, store = partition.rpartition("/")
    return RefusedError(
        f"the key {show_key(key)} of the store {store!r} is in task {task}, and {share.partitioner} of {share.old} "
        f"partitions puts it into {re.sub('[0-9]+$', str(right), task)}: nobody knows which new task would look for it",
        hint='name the partitioner that the keys were written by in [source] partitioner: "murmur2" (Java\'s clients), '
        '"crc32" (librdkafka\'s) or "module:function"; it is asked with the serialized key',
    )


def _payload_slice(source: Format) -> slice | None:
    """Where the payload lies in each key that can be read; None: each key tells."""
    if source.kind == "versioned":
        return slice(8, None)
    fields = source.key_schema.fields
    if fields[0].name != PAYLOAD or any(each.size is None for each in fields[1:]):
        return None
    return slice(0, -sum(each.size or 0 for each in fields[1:]) or None)


def _slicing(cut: slice) -> Callable[[list[bytes]], list[bytes]]:
    return (lambda keys: keys) if cut == slice(0, None) else lambda keys: [key[cut] for key in keys]
