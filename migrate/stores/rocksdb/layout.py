"""The files in a RocksDB directory, by name (RocksDB's db/filename.cc)."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.files import files_named
from migrate.stores.regular_files import check_regular, open_regular, read_regular
from migrate.stores.rocksdb.options_file import check_is_text
from migrate.stores.rocksdb.unreadable import COPIED, check_is_rocksdb

_SST = re.compile(r"\d+\.(sst|blob)")
_WAL = re.compile(r"\d+\.log")
_META = re.compile(r"CURRENT|IDENTITY|(MANIFEST|OPTIONS)-\d+|rocksdict-config\.json")
_LEFT_BEHIND = re.compile(r"LOCK|LOG(\.old\.\d+)?|archive|stateferry\.json|\d+\.dbtmp|.+\.trash|OPTIONS-\d+\.dbtmp")
_MAKING = re.compile(
    r"LOCK|LOG(\.old\.\d+)?|IDENTITY|MANIFEST-000001|00000[01]\.dbtmp|rocksdict-config\.json"
    r"|stateferry\.json|\.stateferry\.json\.\d+\.tmp"
)


def is_immutable(name: str) -> bool:
    """Whether it is an SST or blob file: written once, so that a hard link is as good as a copy."""
    return _SST.fullmatch(name) is not None


def _is_metadata(name: str) -> bool:
    return _META.fullmatch(name) is not None or _WAL.fullmatch(name) is not None


def is_rocksdb(directory: Path) -> bool:
    """Whether this is a RocksDB directory: it has CURRENT or a manifest."""
    return (directory / "CURRENT").is_file() or any(directory.glob("MANIFEST-*"))


def is_half_made(directory: Path) -> bool:
    """Whether it is empty, or a crash left it while RocksDB created it: it has no record, and RocksDB starts again."""
    if not directory.is_dir():
        return False
    names = {path.name for path in directory.iterdir()}  # without CURRENT, which comes before the first log
    return all(_MAKING.fullmatch(name) for name in names)


def is_rocksdb_file(name: str) -> bool:
    """Whether RocksDB, or an adapter beside it, gives a file in its directory this name."""
    return any(pattern.fullmatch(name) for pattern in (_SST, _WAL, _META, _LEFT_BEHIND))


def foreign_entries(directory: Path) -> list[str]:
    """Names in a RocksDB directory that are not RocksDB's. Raises RefusedError where it is no such directory."""
    names = sorted(path.name for path in directory.iterdir())
    check_is_rocksdb(directory, names)  # the tables of another database are not in its way
    return [name for name in names if not is_rocksdb_file(name)]


def rocksdb_identities(folder: Path) -> frozenset[str]:
    """The identities that RocksDB gave to the databases at or below a folder, which never change."""
    return frozenset(identity_of(file.parent) for file in files_named("IDENTITY", folder)) - {""}


def identity_of(directory: Path) -> str:
    """The identity that RocksDB gave to the database when it created it; empty where there is none."""
    file = directory / "IDENTITY"
    return read_regular(file).decode("utf-8", "backslashreplace").strip() if file.is_file() else ""


def file_states(directory: Path, known: DatabaseFiles | None = None) -> list[tuple[str, int, int]]:
    """(name, size, modification time in ns) of each file that makes up a RocksDB directory.

    Unchanged: no program has opened it for writing. Changed: one has, though it may have written nothing.
    `known`: its files, if the caller has listed them.
    """
    files = known or database_files(directory)
    names = sorted((*files.tables, *files.metadata))
    return [
        (name, status.st_size, status.st_mtime_ns)
        for name in names
        for status in [os.stat(f"{files.directory}/{name}")]  # noqa: PTH116 - see DatabaseFiles
    ]


@dataclass(frozen=True, slots=True)
class DatabaseFiles:
    """The names of the files that make up a RocksDB directory, without LOCK and the information logs, sorted.

    There may be thousands, and to make a path takes longer than to list a file.
    """

    directory: Path
    tables: tuple[str, ...]
    """SST and blob files."""
    metadata: tuple[str, ...]
    """Manifest, CURRENT, options and write-ahead logs, which a running owner appends to or replaces."""

    @property
    def immutable(self) -> tuple[Path, ...]:
        return tuple(self.directory / name for name in self.tables)

    @property
    def mutable(self) -> tuple[Path, ...]:
        return tuple(self.directory / name for name in self.metadata)

    @property
    def every(self) -> tuple[Path, ...]:
        return self.immutable + self.mutable


def database_files(directory: Path) -> DatabaseFiles:
    """List a RocksDB directory. Raises RefusedError where CURRENT or its manifest is missing, or it is none."""
    names = _list_regular(directory)
    check_is_rocksdb(directory, names)
    _check_manifest(directory, names)
    return DatabaseFiles(
        directory=directory,
        tables=tuple(name for name in names if is_immutable(name)),
        metadata=tuple(name for name in names if _is_metadata(name)),
    )


def _list_regular(directory: Path) -> list[str]:
    """The names in it. Raises RefusedError where an entry with the name of a RocksDB file is no regular file."""
    with os.scandir(directory) as entries:
        is_file = {entry.name: _is_file(entry) for entry in entries}
    for name in sorted(name for name in is_file if not is_file[name]):
        if is_immutable(name) or _is_metadata(name):
            check_regular(directory / name)
    return sorted(is_file)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


def metadata_digest(directory: Path, known: DatabaseFiles | None = None) -> str:
    """A digest of manifest, CURRENT, options, identity and write-ahead logs; SST files have their own checksums.

    Raises RefusedError where CURRENT or its manifest is missing.
    """
    digest = hashlib.sha256()
    files = known or database_files(directory)
    for name in files.metadata:
        content = read_regular(files.directory / name)
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def log_files(directory: Path) -> set[str]:
    """The names of the write-ahead logs."""
    with os.scandir(directory) as entries:
        return {entry.name for entry in entries if _WAL.fullmatch(entry.name)}


def _check_manifest(directory: Path, names: list[str]) -> None:
    hint = f"{COPIED}it is damaged or incomplete: restore it from a backup or let its owner rebuild it"
    if "CURRENT" not in names:
        if names and is_half_made(directory):
            hint = "it was being created and can hold no record: remove it, or let its owner open it once"
        raise RefusedError(f"{directory} has no file CURRENT", hint=hint)
    try:
        manifest = read_regular(directory / "CURRENT").decode("ascii").strip()
    except PermissionError as error:
        raise unreadable(directory / "CURRENT") from error
    except UnicodeDecodeError as error:
        check_is_text(directory / "CURRENT")
        raise RefusedError(f"{directory / 'CURRENT'} does not name a manifest", hint=hint) from error
    if manifest not in names:
        raise RefusedError(f"{directory} lacks {manifest or 'a manifest'}, which its CURRENT names", hint=hint)


def check_readable(files: DatabaseFiles) -> None:
    """Raises RefusedError naming the first file that cannot be read."""
    for name in (*files.tables, *files.metadata):
        if not os.access(f"{files.directory}/{name}", os.R_OK):  # a tenth of the time of opening it
            try:
                open_regular(files.directory / name).close()
            except OSError as error:
                raise unreadable(files.directory / name) from error


def unreadable(path: Path) -> RefusedError:
    """The error for a file that this user may not read."""
    return RefusedError(f"cannot read {path}", hint="run as the application's user, or make the file readable")
