"""The content of a RocksDB directory, read by one opening, and the state of its files then."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.stores.rocksdb.database import StoreContent, open_read_only
from migrate.stores.rocksdb.layout import database_files, file_states, metadata_digest


@dataclass(frozen=True, slots=True)
class Files:
    """The state of a directory's files. If it is the same, so is the content: there is no need to open it."""

    states: tuple[tuple[str, int, int], ...]
    metadata: str
    """A digest of all files but SST and blob files."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a RocksDB directory."""

    content: StoreContent
    files: Files | None
    """The files that it was read from; None: they changed meanwhile."""
    sorted_runs: int = 0
    """The tables that one scan has open at a time: of level 0 all, of each other level one."""


def read_store(directory: Path) -> Reading:
    """Open a RocksDB directory, and read its content. Raises RefusedError where it cannot be opened."""
    with open_read_only(directory) as opened:
        content, files = opened.content(), files_of(directory)
        runs = {table.level or table.name for table in opened.live_files()}
        return Reading(content, files if opened.is_current() else None, len(runs))


def files_of(directory: Path, metadata: str | None = None) -> Files:
    """The present files. `metadata`: their digest, where the caller has it. Raises RefusedError without a manifest."""
    files = database_files(directory)
    return Files(tuple(file_states(directory, files)), metadata or metadata_digest(directory, files))
