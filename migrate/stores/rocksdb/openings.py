"""RocksDB directories that stay open: a pool from one task to the next in every process, and those held by descriptor.

An opening takes time for each file. What is open is used again only while the directory and its metadata are the same
(`View.is_current`): a directory that was made again under the same path is another one. It keeps no data: each
scan reads its blocks from the files (`streaming`).

A cut-over exchanges two directories under their names. A path through `/proc/self/fd` stays with the directory that was
opened (`HeldDirectory`), whatever its name has become: what is opened in it later is not another store's.
"""

from __future__ import annotations

import os
import resource
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Lock, Thread
from typing import Protocol, TypeVar, cast

from migrate.errors import MigrationError, RefusedError, StoreNotReadyError
from migrate.stores.files import make_directories, remove_tree
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database, open_read_only, open_unmanaged
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.view import View
from migrate.stores.rocksdb.writing import create_database

_MOST_IDLE = 4
"""The old and the new store of two tasks. Each takes about 1 KiB for each of its tables, and has up to 64 files open:
at 4 000 tables 3 MiB, at 16 000 17 MiB."""
_IDLE_SECONDS = 5.0
"""Longer than a worker waits for its next task; removed files take up space for so long."""
_DESCRIPTORS = Path("/proc/self/fd")
_ATTEMPTS = 5
_SPARE_FILES = 64
"""Descriptors that opening takes for a while, besides those of tables."""


class Viewed(Protocol):
    """What is opened through a view."""

    view: View


_Opening = Callable[[Path], AbstractContextManager[Viewed]]
_Opened = tuple[Viewed, ExitStack]
_Place = tuple[_Opening, Path]
T = TypeVar("T", bound=Viewed)


class _Openings:
    """Open databases that are not in use, the least recently used first."""

    def __init__(self) -> None:
        self.users = 0
        self._inherited: list[object] = []
        self._reset()

    def _reset(self) -> None:
        self._lock = Lock()
        self._idle: OrderedDict[_Place, tuple[float, _Opened]] = OrderedDict()
        self._is_watched = False

    def take(self, place: _Place) -> _Opened:
        """An open database for exclusive use by the caller."""
        with self._lock:
            _, kept = self._idle.pop(place, (0.0, None))
        if kept is not None:
            if kept[0].view.is_current():
                return kept
            kept[1].close()
        stack = ExitStack()
        open_, directory = place
        return stack.enter_context(open_(directory)), stack

    def give_back(self, place: _Place, opened: _Opened) -> None:
        database, stack = opened
        if database.view.is_needed:
            stack.close()  # a worker that is ended would leave it behind
            return
        with self._lock:
            before = self._idle.pop(place, None)
            self._idle[place] = (time.monotonic(), opened)
            surplus = [before] if before else []
            while len(self._idle) > _MOST_IDLE:
                surplus.append(self._idle.popitem(last=False)[1])
            if not self._is_watched:
                self._is_watched = True
                Thread(target=self._watch, name="stateferry-openings", daemon=True).start()
        _close(surplus)

    def close(self, *, idle_since: float = float("inf")) -> None:
        """Close the databases that have not been in use since then."""
        with self._lock:
            late = [place for place, (since, _) in self._idle.items() if since <= idle_since]
            closing = [self._idle.pop(place) for place in late]
        _close(closing)

    def _watch(self) -> None:
        while True:
            time.sleep(_IDLE_SECONDS / 5)
            self.close(idle_since=time.monotonic() - _IDLE_SECONDS)
            with self._lock:
                if not self._idle:
                    self._is_watched = False
                    return

    def forget(self) -> None:
        """Leave what is open to the process that this one was forked from, whose threads are not here to close it."""
        self._inherited.append(self._idle)
        self._reset()


def _close(openings: list[tuple[float, _Opened]]) -> None:
    for _, (_, stack) in openings:
        stack.close()


_openings = _Openings()


os.register_at_fork(after_in_child=_openings.forget)


@contextmanager
def keeping_open() -> Iterator[None]:
    """Close the pool at the end of the last such block of this process, rather than some seconds later."""
    _openings.users += 1
    try:
        yield
    finally:
        _openings.users -= 1
        if not _openings.users:
            _openings.close()


def open_pooled(directory: Path) -> AbstractContextManager[Database]:
    """As `open_read_only`, or the database that an earlier task has left open."""
    return pooled(open_read_only, directory)


@contextmanager
def pooled(open_: Callable[[Path], AbstractContextManager[T]], directory: Path) -> Iterator[T]:
    """What `open_` opens, or the database that it has opened for an earlier task."""
    place = open_, directory
    opened = _openings.take(place)
    try:
        yield cast(T, opened[0])
    except BaseException:
        opened[1].close()
        raise
    _openings.give_back(place, opened)


@contextmanager
def open_tables(files: Sequence[Path], folder: Path) -> Iterator[Database]:
    """Open SST files as a database of the default family; of a key in several of them, the last file's entry counts.

    `folder`: a scratch folder on their file system, which is removed. Raises CorruptionError where a file is damaged,
    and FileNotFoundError where it is gone.
    """
    remove_tree(folder)
    make_directories(folder)
    try:
        links = [folder / f"{number:06d}.sst" for number in range(len(files))]
        for link, file in zip(links, files, strict=True):
            link.hardlink_to(file)
        create_database(folder / "rocksdb", {}, {DEFAULT_FAMILY: links}, {})
        with open_read_only(folder / "rocksdb") as database:
            yield database
    finally:
        remove_tree(folder)


class HeldDirectory:
    """A directory, held as long as this object lives."""

    def __init__(self, name: Path, within: HeldDirectory | None = None) -> None:
        """`within`: the directory that `name` is relative to. Raises FileNotFoundError."""
        self.name: Path = name if within is None else within.name / name
        descriptor = os.open(self.name if within is None else within.path / name, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, descriptor)
        status = os.fstat(descriptor)
        self.identity = status.st_dev, status.st_ino
        self.path: Path = _DESCRIPTORS / str(descriptor) if _DESCRIPTORS.is_dir() else self.name
        """Leads to this directory, whatever has its name by now."""

    def has_its_name(self) -> bool:
        """Whether the directory still has its name. Raises FileNotFoundError where nothing has it."""
        status = os.stat(self.name)  # noqa: PTH116 - asked for each read
        return (status.st_dev, status.st_ino) == self.identity


def open_held(directory: HeldDirectory) -> Database:
    """Open it with every table, until nothing refers to the database, its families and their scans any more.

    What it holds is of one time, also beside a running owner.

    Raises RefusedError for a missing, truncated or unreadable file, where it is no RocksDB directory, or where this
    process may not open that many files.
    """
    try:
        _check_files_allowed(directory)
        for _ in range(_ATTEMPTS):
            database = open_unmanaged(directory.path)
            if database.view.has_every_log():
                return database
    except MigrationError as error:
        error.message = error.message.replace(str(directory.path), str(directory.name))
        error.args = (error.message,)
        raise
    raise StoreNotReadyError(f"{directory.name} is being written to faster than it opens", hint="retry with backoff")


def _check_files_allowed(directory: HeldDirectory) -> None:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    tables = len(database_files(directory.path).tables)
    in_use = len(os.listdir(_DESCRIPTORS)) if _DESCRIPTORS.is_dir() else 0  # noqa: PTH208 - names alone
    needed = tables + in_use + _SPARE_FILES
    if allowed not in (resource.RLIM_INFINITY, -1) and needed > allowed:
        raise RefusedError(
            f"{directory.name} has {tables} tables, which queries hold open; this process has {in_use} files open, "
            f"and may have {allowed}",
            hint=f"raise the limit of open files: ulimit -n {max(2 * needed, 4096)}",
        )
