"""Changelog records as columns: the unit of work of readers and writers of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
