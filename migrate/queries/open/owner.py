"""Whether an application has a store open, which may then hold writes in memory that no file has yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path

from migrate.errors import StoreNotReadyError
from migrate.stores.lock import holds_for_us, lock_holders


class Owners:
    """Looks for the holders of lock files, of many at once and not too often: each look starts a process."""

    def __init__(self, *, stale: bool, fresh_seconds: float) -> None:
        """`stale`: stores that are in use may be read as their files are."""
        self._stale = stale
        self._fresh_seconds = fresh_seconds
        self._lock = threading.Lock()
        self._watched: set[Path] = set()
        self._holders: dict[Path, int] = {}
        self._looked: float | None = None

    def watch(self, files: Iterable[Path]) -> None:
        """Look at these lock files too, at the next look."""
        with self._lock:
            if not self._watched.issuperset(added := set(files)):
                self._watched |= added
                self._looked = None

    def has_owner(self, files: Iterable[Path], name: str) -> bool:
        """Whether a process holds one of these lock files. Raises StoreNotReadyError unless `stale`."""
        files = list(files)
        self.watch(files)
        with self._lock:
            if self._looked is None or time.monotonic() - self._looked >= self._fresh_seconds:
                self._holders = self._look()
                self._looked = time.monotonic()
            file = next((file for file in files if file in self._holders), None)
        if file is None:
            return False
        if self._stale:
            return True
        pid = self._holders[file]
        who = f"process {pid}" if pid else "a process of another host"
        raise StoreNotReadyError(
            f"the store partition {name} is in use: {who} holds {file}, and may hold writes in memory",
            hint="stop that application, or read what it has written to its files: stale=True",
        )

    def _look(self) -> dict[Path, int]:
        found = {file: pid for file, pid in lock_holders(self._watched).items() if not holds_for_us(pid)}
        if found:  # one that ended after the look cannot be asked whether it was ours
            found = {file: pid for file, pid in lock_holders(found).items() if pid == found[file]}
        return found
