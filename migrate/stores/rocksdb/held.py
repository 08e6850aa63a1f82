"""RocksDB directories held by descriptor, so that whatever is opened in them later is theirs and not another store's.

A cut-over exchanges two directories under their names. A path through `/proc/self/fd` stays with the directory that was
opened, whatever its name has become.
"""

from __future__ import annotations

import os
import resource
import weakref
from pathlib import Path

from migrate.errors import MigrationError, RefusedError, StoreNotReadyError
from migrate.stores.rocksdb.database import Database, open_unmanaged
from migrate.stores.rocksdb.layout import database_files

_DESCRIPTORS = Path("/proc/self/fd")
_ATTEMPTS = 5
_SPARE_FILES = 64
"""Descriptors that opening takes for a while, besides those of tables."""


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
            if database.has_every_log():
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
