"""Changelog records as columns: the unit of work of readers and writers of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

RecordHeaders = list[tuple[str, bytes | None]]
T = TypeVar("T")


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
        return self.chosen([at for at, is_wanted in enumerate(mask) if is_wanted])

    def chosen(self, places: Sequence[int]) -> ChangelogBatch:
        """The records at these places, in their order."""

        def of(column: Sequence[T]) -> list[T]:
            return [column[at] for at in places]

        return ChangelogBatch(
            of(self.keys),
            of(self.values),
            of(self.timestamps),
            self.headers and of(self.headers),
            self.offsets and of(self.offsets),
        )

    def part(self, start: int, end: int) -> ChangelogBatch:
        """The records at the places [start, end)."""
        if (start, end) == (0, len(self)):
            return self
        at = slice(start, end)
        return ChangelogBatch(
            self.keys[at],
            self.values[at],
            self.timestamps[at],
            self.headers and self.headers[at],
            self.offsets and self.offsets[at],
        )
