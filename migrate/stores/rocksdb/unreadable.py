"""Why RocksDB cannot read a directory: reported as damage only where nothing else explains it."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from migrate.errors import RefusedError
from migrate.library_messages import (
    has_errno,
    has_family_not_utf8,
    is_about_transactions,
    missing_file,
    other_comparator,
)
from migrate.stores.regular_files import open_regular
from migrate.stores.rocksdb.options_file import check_format_version, newest_options, ordered_otherwise, read_options
from migrate.stores.rocksdb.sst import SstFile, SstFormatError, TableProperties, varint

_UNREADABLE = {"Zlib": "zlib", "Xpress": "XPRESS", "kZlibCompression": "zlib", "kXpressCompression": "XPRESS"}
"""Compressions, as tables and OPTIONS files spell them, that the RocksDB in rocksdict is built without."""
_RECOMPRESS = (
    "nothing is damaged: have its owner rewrite it with lz4 (docs/operations.md has a program that does, with the "
    "application stopped; or set LZ4_COMPRESSION in the RocksDBConfigSetter and let the application restore the store)"
)
FLUSH = (
    "nothing is damaged: let its application commit or roll back what it has prepared, then flush every column family "
    "and close the database"
)
"""The hint for a database with transactions that cannot be read."""
COPIED = "if it is a copy that was made while its owner wrote: copy it again, with the owner stopped; else "
"""The first cause of missing and damaged files: said before any other."""
_OLDEST_FOOTER, _OLDEST_MAGIC = 48, 0xDB4775248B80FB57
"""Of LevelDB's tables and RocksDB's oldest ones: two handles as varints in 40 bytes, the metaindex's first."""


def check_is_rocksdb(directory: Path, names: Sequence[str]) -> None:
    """Raises RefusedError for LevelDB's directories, which RocksDB itself would open, and for a part of a backup.

    `names`: what is in the directory, sorted.
    """
    check_no_backup(directory)
    tables = [name for name in names if name.endswith(".sst")]
    is_marked = any(name == "IDENTITY" or name.startswith("OPTIONS-") for name in names)
    if any(name.endswith(".ldb") for name in names) or not (
        has_properties(directory / tables[0]) if tables else is_marked or "CURRENT" not in names
    ):
        raise of_leveldb(directory)


def has_properties(table: Path) -> bool:
    """Whether a table has properties, as all of RocksDB's and none of LevelDB's; True for what is no such table."""
    with suppress(OSError, LookupError, struct.error), open_regular(table) as file:
        start = os.fstat(file.fileno()).st_size - _OLDEST_FOOTER
        footer = os.pread(file.fileno(), _OLDEST_FOOTER, max(0, start))
        if struct.unpack_from("<Q", footer, _OLDEST_FOOTER - 8)[0] == _OLDEST_MAGIC:
            offset, at = varint(footer, 0)
            size, _ = varint(footer, at)
            return b"rocksdb." in os.pread(file.fileno(), min(size, start), offset)
    return True


def of_leveldb(directory: Path) -> RefusedError:
    """The error for a directory of LevelDB."""
    way = "copy its records with LevelDB into a new RocksDB directory, and name that one"
    if any(directory.glob("OPTIONS-*")):
        way = (
            "RocksDB has opened it, and LevelDB no longer can: copy its records with RocksDB into a new directory, "
            "and name that one"
        )
    return RefusedError(
        f"{directory} is a LevelDB database, or has tables of one, and only RocksDB's can be migrated",
        hint=f"nothing is damaged: {way}",
    )


def check_no_backup(path: Path) -> None:
    """Raises RefusedError for a folder of RocksDB's backup engine, and for what is in it."""
    if (folder := _backup_around(path)) is not None:
        raise RefusedError(
            f"{path} is {'' if folder.samefile(path) else 'in '}a folder of RocksDB's backup engine, and no database",
            hint="restore one of its backups into a directory of its own (ldb restore --db=DIRECTORY "
            f"--backup_dir={folder}, or BackupEngine's RestoreDBFromBackup), and name that one",
        )


def _backup_around(path: Path) -> Path | None:
    """The folder of RocksDB's backup engine that `path` is, or lies in: of backup N it has meta/N and private/N.

    `path` may be a link, or lead through a descriptor.
    """
    path = Path(os.path.realpath(path))  # for a link that leads to itself resolve() raises
    for folder, inside in ((path, "private"), (path.parent, path.name), (path.parent.parent, path.parent.name)):
        with suppress(OSError):  # it is not there, or may not be read
            numbers = os.listdir(folder / inside) if inside == "private" else []  # noqa: PTH208 - names alone
            if any(each.isdecimal() and (folder / "meta" / each).is_file() for each in numbers):
                return folder
    return None


def cannot_open(directory: Path, reason: str) -> RefusedError:
    """The error for a directory that RocksDB cannot open, with the reason that RocksDB gives."""
    return explain(directory, reason) or RefusedError(
        f"RocksDB cannot open {directory}: {reason}",
        hint=f"{COPIED}if its own application can open it, nothing is damaged: report this; else restore it from a "
        "backup or let its owner rebuild it",
    )


def explain(directory: Path, reason: str) -> RefusedError | None:
    """The error where a cause other than damage is found; None: the files may be damaged."""
    if has_errno(reason, errno.EACCES):
        return RefusedError(f"RocksDB cannot open {directory}: {reason}", hint="run as the application's user")
    if (comparator := other_comparator(reason)) is not None:
        families = (name for name, known in read_options(directory).items() if known.comparator == comparator)
        return ordered_otherwise(f"column family {next(families, 'default')!r} of {directory}", comparator)
    if is_about_transactions(reason):
        return RefusedError(f"{directory} has transactions in its write-ahead log, which was not flushed", hint=FLUSH)
    if has_family_not_utf8(reason):
        return RefusedError(
            f"{directory} has a column family whose name is not UTF-8",
            hint="nothing is damaged, but such a name cannot be used here: let its application copy the records to a "
            "column family with another name, and drop this one",
        )
    if (missing := missing_file(reason)) is not None:
        return _no_file(directory, missing)
    return _unreadable_tables(directory)


def _no_file(directory: Path, name: str) -> RefusedError | None:
    if (directory / name).exists():
        return None
    return RefusedError(
        f"{directory} lacks {name}, which its manifest names",
        hint=f"{COPIED}if its owner keeps files elsewhere (db_paths, cf_paths), link them into the directory under "
        "their names: nothing is damaged then, and a new store has all its files in its own directory; else restore "
        "the file from a backup, or let its owner rebuild the store",
    )


def _unreadable_tables(directory: Path) -> RefusedError | None:
    for path in sorted(directory.glob("*.sst")):
        try:
            with SstFile(path) as table:
                check_table_readable(path, table.properties())
        except (SstFormatError, OSError):
            continue
        except RefusedError as error:
            return error
    if (compression := _UNREADABLE.get(newest_options(directory).blob_compression)) and any(directory.glob("*.blob")):
        return _compressed(f"the blob files of {directory}", compression)
    return None


def check_table_readable(path: Path, properties: TableProperties) -> None:
    """Raises RefusedError for a table that the RocksDB here cannot read, even if it is not damaged."""
    if (compression := _UNREADABLE.get(properties.compression)) is not None:
        raise _compressed(str(path), compression)
    check_format_version(properties.format_version, str(path))


def _compressed(what: str, compression: str) -> RefusedError:
    return RefusedError(
        f"{what} is compressed with {compression}, which the RocksDB here cannot read", hint=_RECOMPRESS
    )
