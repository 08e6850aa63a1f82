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
            None if self.headers is None else of(self.headers),
            None if self.offsets is None else of(self.offsets),
        )
