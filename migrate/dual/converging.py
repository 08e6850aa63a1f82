"""How far old records have been converted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the old store has been converted."""

    old_keys_left: int
    """An estimate; 0 once the old store is empty."""
    moved_by_read: int = 0
    moved_by_write: int = 0
    """Keys that were written and may have had an old copy, which is not checked; not those behind the sweep."""
    moved_by_delete: int = 0
    moved_by_converge: int = 0
    rejected: int = 0
    """Old records that the sweep found and could not convert."""
    dropped: int = 0
    """Old records that `convert` dropped, with `may_drop`: they are in neither store any more."""
    superseded: int = 0
    """Inside a processor: old values that were found beside a new one, which wins."""


class Converging(Protocol):
    """What has progress to show: a lazy store, or an adapter inside a processor."""

    @property
    def progress(self) -> Progress: ...

    @property
    def is_converged(self) -> bool: ...
