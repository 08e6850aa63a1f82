"""Changelog records as columns: the unit of work of readers and writers of a topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

RecordHeaders = list[tuple[str, bytes | None]]


@dataclass(slots=True)
class ChangelogBatch:
    """Records of one topic partition: `values[i]` and `timestamps[i]` belong to `keys[i]`."""

    keys: list[bytes]
    values: Sequence[bytes | None]
    """None: a tombstone."""
    timestamps: Sequence[int]
    """Milliseconds since the epoch; -1: unknown."""
    headers: Sequence[RecordHeaders] | None = None
    """None: no record has any."""
    offsets: Sequence[int] | None = None
    """None: they were not read from a topic."""

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, mask: Sequence[bool]) -> ChangelogBatch:
        """The records for which it is True."""
        return self._of(lambda column: list(compress(column, mask)))

    def part(self, start: int, end: int) -> ChangelogBatch:
        """The records from one place up to another."""
        return self if (start, end) == (0, len(self)) else self._of(lambda column: list(column[start:end]))

    def _of(self, some: Callable[[Sequence[Any]], list[Any]]) -> ChangelogBatch:
        headers = None if self.headers is None else some(self.headers)
        offsets = None if self.offsets is None else some(self.offsets)
        return ChangelogBatch(some(self.keys), some(self.values), some(self.timestamps), headers, offsets)
