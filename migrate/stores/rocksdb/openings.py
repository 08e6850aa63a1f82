"""RocksDB directories that stay open from one task to the next: to open one costs time for each of its files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

from migrate.stores.rocksdb.database import Database, open_read_only

_MOST_IDLE = 4
"""The old and the new store of a task, and those of the next one; each may hold 256 files."""


class _Openings:
    """Databases that nobody uses at the moment, the least recently used first."""

    def __init__(self) -> None:
        self.users = 0
        self._lock = Lock()
        self._idle: OrderedDict[Path, tuple[Database, ExitStack]] = OrderedDict()

    def take(self, directory: Path) -> tuple[Database, ExitStack]:
        """For the caller alone."""
        with self._lock:
            kept = self._idle.pop(directory, None)
        if kept is not None:
            return kept
        stack = ExitStack()
        return stack.enter_context(open_read_only(directory)), stack

    def give_back(self, directory: Path, database: Database, stack: ExitStack) -> None:
        """Kept for the next one, as long as somebody wants that."""
        with self._lock:
            closing = [stack] if directory in self._idle else []
            if not closing:
                self._idle[directory] = (database, stack)
            while len(self._idle) > (_MOST_IDLE if self.users else 0):
                closing.append(self._idle.popitem(last=False)[1][1])
        for each in closing:
            each.close()

    def close(self) -> None:
        """All that are idle."""
        while self._idle:
            self._idle.popitem()[1][1].close()


_openings = _Openings()


@contextmanager
def keeping_open() -> Iterator[None]:
    """What tasks of this process open to read meanwhile is kept for the tasks that follow: nobody changes it."""
    _openings.users += 1
    try:
        yield
    finally:
        _openings.users -= 1
        if not _openings.users:
            _openings.close()


@contextmanager
def open_to_read(directory: Path) -> Iterator[Database]:
    """As `open_read_only`, which see; the one of an earlier task where one was kept."""
    database, stack = _openings.take(directory)
    try:
        yield database
    except BaseException:
        stack.close()
        raise
    _openings.give_back(directory, database, stack)
