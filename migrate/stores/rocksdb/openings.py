"""RocksDB directories that stay open from one task to the next: opening takes time for each file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

from migrate.stores.rocksdb.database import Database, open_read_only

_MOST_IDLE = 4
"""The old and the new store of two tasks; each may have 256 files open."""


class _Openings:
    """Open databases that are not in use, the least recently used first."""

    def __init__(self) -> None:
        self.users = 0
        self._lock = Lock()
        self._idle: OrderedDict[Path, tuple[Database, ExitStack]] = OrderedDict()

    def take(self, directory: Path) -> tuple[Database, ExitStack]:
        """An open database for exclusive use by the caller."""
        with self._lock:
            kept = self._idle.pop(directory, None)
        if kept is not None:
            return kept
        stack = ExitStack()
        return stack.enter_context(open_read_only(directory)), stack

    def give_back(self, directory: Path, database: Database, stack: ExitStack) -> None:
        """Keep the database for the next task while there are users, or close it."""
        with self._lock:
            closing = [stack] if directory in self._idle else []
            if not closing:
                self._idle[directory] = (database, stack)
            while len(self._idle) > (_MOST_IDLE if self.users else 0):
                closing.append(self._idle.popitem(last=False)[1][1])
        for each in closing:
            each.close()

    def close(self) -> None:
        """Close all databases that are not in use."""
        while self._idle:
            self._idle.popitem()[1][1].close()


_openings = _Openings()


@contextmanager
def keeping_open() -> Iterator[None]:
    """Keep databases that tasks of this process open to read for the following tasks; none may change meanwhile."""
    _openings.users += 1
    try:
        yield
    finally:
        _openings.users -= 1
        if not _openings.users:
            _openings.close()


@contextmanager
def open_to_read(directory: Path) -> Iterator[Database]:
    """Open a directory as `open_read_only` does, or reuse the database of an earlier task."""
    database, stack = _openings.take(directory)
    try:
        yield database
    except BaseException:
        stack.close()
        raise
    _openings.give_back(directory, database, stack)
