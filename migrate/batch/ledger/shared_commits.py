"""One commit for all tasks that finish within a short time, so that the driver keeps up however long a commit takes.

What waits is durable, or is synced just before the commit. After a crash it is adopted (`reconcile`) or made again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from migrate.batch.ledger.table import Ledger
from migrate.model.ledger_row import Row
from migrate.stores.files import fsync_all


@dataclass(frozen=True, slots=True)
class Pace:
    """The least time between two commits: the larger of both."""

    seconds: float
    """A fixed time."""
    duration_factor: float = 9.0
    """Times the duration of the last commit: with 9, commits take a tenth of the time at most."""


PACE = Pace(0.25)
_MOST_ROWS = 1000
"""Rows of one commit, about: it holds them in memory several times."""


class SharedCommits:
    """The rows of one phase that wait for a commit. The caller commits them all before it ends, or raises."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[Row] = []
        self._unsynced: list[Iterable[Path]] = []
        self._due = time.monotonic() + PACE.seconds

    def add(self, *rows: Row, unsynced: Iterable[Path] = ()) -> None:
        """Let rows wait for the next commit. What they record must be durable, but for the files and directories
        `unsynced`, which is iterated just before it."""
        if rows:
            self._waiting += rows
            self._unsynced.append(unsynced)

    def commit_due(self) -> bool:
        """Commit what waits if that is much, or the last commit long ago; whether it did. Raises as `Ledger.commit`."""
        return (time.monotonic() >= self._due or len(self._waiting) >= _MOST_ROWS) and self.commit()

    def commit(self) -> bool:
        """Commit what waits, now; whether anything did. Raises as `Ledger.commit`."""
        if not self._waiting:
            return False
        if unsynced := {path for paths in self._unsynced for path in paths}:
            self._unsynced = [unsynced]  # for another try, should this one fail
            fsync_all(unsynced)
        self._unsynced = []
        begun = time.monotonic()
        self._ledger.commit(*self._waiting)
        self._waiting.clear()
        ended = time.monotonic()
        self._due = ended + max(PACE.seconds, PACE.duration_factor * (ended - begun))
        return True
