"""Opening a RocksDB directory without changing it, also while its owner runs: through a temporary view of it.

Opening may write files of its own into a directory, even read-only. A view is a folder with links to the few files of
metadata; the tables are found where they are, by `db_paths`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from migrate.errors import ChunkFailedError, RefusedError, explain_system_error
from migrate.stores.files import raise_open_files, temporary_folder
from migrate.stores.rocksdb.layout import DatabaseFiles, check_readable, database_files, log_files
from migrate.stores.rocksdb.transactions import check_nothing_prepared
from migrate.stores.rocksdb.unreadable import cannot_open

_ATTEMPTS = 5
_NOT_NEEDED = ("rocksdict-config.json", "OPTIONS-")
"""Options files: an opening with options of its own does not use them, and rocksdict takes 0.5 ms to parse one."""
_Stamp = tuple[int, int, int, int]
T = TypeVar("T")
Close = Callable[[], None]


@dataclass(frozen=True, slots=True)
class View:
    """A folder through which a directory is opened."""

    directory: Path
    folder: Path
    stamps: dict[Path, _Stamp]
    """The directory and its metadata, as they were before any file was read."""

    @property
    def tables(self) -> Path:
        """Where RocksDB finds the tables: in the directory, or by a link to it where rocksdict cannot take its name."""
        try:
            os.fsencode(self.directory).decode()
        except UnicodeDecodeError:
            return self.folder / "tables"
        return self.directory.absolute()

    @property
    def is_needed(self) -> bool:
        """Whether tables are found through the folder, which therefore lasts as long as the database is open."""
        return self.tables.is_relative_to(self.folder)

    def is_current(self) -> bool:
        """Whether an opening now would find the same directory, with the same names in it and the same metadata."""
        try:
            return all(_stamp(path) == stamp for path, stamp in self.stamps.items())
        except OSError:
            return False

    def has_every_log(self) -> bool:
        """Whether the owner began no write-ahead log while the database was opened: its families are of one time then.

        Otherwise one family may hold what the owner wrote to that log and flushed, and another one not.
        """
        return log_files(self.directory) <= {path.name for path in self.stamps}

    def fill(self, files: DatabaseFiles) -> None:
        """Make the links, in place of those that are there."""
        for link in self.folder.iterdir():
            link.unlink()
        for name in files.metadata:
            if not name.startswith(_NOT_NEEDED):
                (self.folder / name).symlink_to(self.directory.absolute() / name)
        if self.is_needed:
            self.tables.symlink_to(self.directory.absolute())


@contextmanager
def opened_in_view(directory: Path, open_: Callable[[View], tuple[T, Close]]) -> Iterator[T]:
    """What `open_` returns, until it is closed. Raises as `open_in_view`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(temporary_folder()))
        view, (opened, close) = open_in_view(directory, folder, open_)
        if not view.is_needed:
            stack.close()  # before a worker can be killed: an open database does not need its metadata
        stack.callback(close)
        yield opened


def open_in_view(directory: Path, folder: Path, open_: Callable[[View], T]) -> tuple[View, T]:
    """Fill a view in `folder` and open it, again if the owner changes files meanwhile.

    Raises RefusedError for a missing, truncated or unreadable file, or where it is no RocksDB directory.
    """
    raise_open_files()  # here, so that it is so in the driver and in workers, for a command and for a library's caller
    for left in reversed(range(_ATTEMPTS)):
        seen = _entries(directory)
        try:
            stamps = {directory: _stamp(directory)}  # before any file is read
            files = database_files(directory)
            stamps |= {path: _stamp(path) for path in files.mutable}
            check_readable(files)
            check_nothing_prepared(directory)
            view = View(directory, folder, stamps)
            view.fill(files)
            return view, open_(view)
        except Exception as error:
            if left and _entries(directory) != seen:
                continue
            if isinstance(error, RefusedError):
                error.place = directory
                raise
            known = explain_system_error(error, where=f"cannot open {directory}")
            if isinstance(known, ChunkFailedError):  # no space for the view, for one: the directory is not at fault
                raise known from error
            problem = cannot_open(directory, str(error).replace(str(folder), str(directory)))
            problem.place = directory
            raise problem from error
    raise AssertionError("the last attempt returns or raises")


def _entries(directory: Path) -> set[tuple[str, int]]:
    """Names and inodes of the files: a file that was replaced has another inode."""
    with os.scandir(directory) as entries:
        return {(entry.name, entry.inode()) for entry in entries}


def _stamp(path: Path) -> _Stamp:
    """Which file it is, and its last change; no program can set that time, as copies and archives set others."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns
