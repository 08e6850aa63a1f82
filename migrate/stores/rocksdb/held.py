"""RocksDB directories held by descriptor, so that whatever is opened in them later is theirs and not another store's.

A cut-over exchanges two directories under their names. A path through `/proc/self/fd` stays with the directory that was
opened, whatever its name has become.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from rocksdict import Cache

from migrate.errors import MigrationError
from migrate.stores.rocksdb.database import Database, open_unmanaged

_DESCRIPTORS = Path("/proc/self/fd")
_CACHE_BYTES = 256 << 20
_cache = Cache(_CACHE_BYTES)
"""Of all directories that this process holds: blocks of records, indexes and filters."""


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

    Raises RefusedError for a missing, truncated or unreadable file, or where it is no RocksDB directory.
    """
    try:
        return open_unmanaged(directory.path, _cache)
    except MigrationError as error:
        error.message = error.message.replace(str(directory.path), str(directory.name))
        error.args = (error.message,)
        raise
