"""Sorted runs of a stream of changelog records: the last record of each key, as many as fit in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from migrate.stores.batch import ChangelogBatch, RecordHeaders

_OVERHEAD = 250
"""Bytes of memory that a record without headers takes besides its key and value: objects, and places in lists."""
_LONGEST = 256
"""Longer keys are sorted one by one: by columns each takes the room of the longest one."""
_LENGTH_BYTES = 2
_Value = TypeVar("_Value")


def sorted_runs(batches: Iterable[ChangelogBatch], memory: int) -> Iterator[tuple[ChangelogBatch, bool]]:
    """Runs in the order of their making, and of each whether it is the last one; there is always a last one.

    A run has the last record of each key since the run before, in key order, with offsets (0: unknown).

    Args:
        batches: Records in the order of their offsets.
        memory: About the most bytes that records take in memory.
    """
    recent = _Recent()
    for batch in batches:
        recent.add(batch)
        if recent.size > memory:
            found = recent.latest()
            recent = _Recent()
            recent.add(found)
            if recent.size > memory // 2:  # else later records have replaced most
                recent = _Recent()
                yield found, False
    yield recent.latest(), True


@dataclass(slots=True)
class _Recent:
    """Records in the order of their offsets, as columns."""

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    headers: list[RecordHeaders] | None = None
    size: int = 0
    """About the bytes of memory that they take."""

    def add(self, batch: ChangelogBatch) -> None:
        if batch.headers is not None and self.headers is None:
            self.headers = [[]] * len(self.keys)
        if self.headers is not None:
            self.headers += batch.headers or [[]] * len(batch)
        self.keys += batch.keys
        self.values += batch.values
        self.timestamps += batch.timestamps
        self.offsets += batch.offsets or [0] * len(batch)
        self.size += len(batch) * _OVERHEAD + sum(map(len, batch.keys)) + sum(map(len, filter(None, batch.values)))

    def latest(self) -> ChangelogBatch:
        """The last record of each key, in key order."""
        order = last_in_order(self.keys)
        headers = None if self.headers is None else _taken(self.headers, order)
        return ChangelogBatch(
            _taken(self.keys, order),
            _taken(self.values, order),
            _taken(self.timestamps, order),
            headers if headers is not None and any(headers) else None,
            _taken(self.offsets, order),
        )


def last_in_order(keys: Sequence[bytes]) -> list[int]:
    """Where the last occurrence of each key is, in key order."""
    sizes = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    width = int(sizes.max(initial=0))
    if not 0 < width <= _LONGEST:
        last = dict(zip(keys, range(len(keys)), strict=True))
        return [last[key] for key in sorted(last)]
    column = _column(keys, width, is_padded=bool((sizes != width).any()))
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    is_last = np.ones(len(keys), dtype=bool)
    is_last[:-1] = ordered[1:] != ordered[:-1]
    found: list[int] = order[is_last].tolist()
    return found


def _column(keys: Sequence[bytes], width: int, *, is_padded: bool) -> npt.NDArray[np.bytes_]:
    """The keys as rows of one size that sort as they do: a shorter key before one that only has zeros behind it."""
    if not is_padded:
        return np.frombuffer(b"".join(keys), dtype=f"S{width}")
    rows = b"".join([key.ljust(width, b"\0") + len(key).to_bytes(_LENGTH_BYTES, "big") for key in keys])
    return np.frombuffer(rows, dtype=f"S{width + _LENGTH_BYTES}")


def _taken(column: list[_Value], order: list[int]) -> list[_Value]:
    return list(map(column.__getitem__, order))
