"""Why RocksDB cannot read a directory: reported as damage only where nothing else explains it."""

from __future__ import annotations

import re
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.rocksdb.options_file import blob_compression, check_format_version
from migrate.stores.rocksdb.sst import SstFile, SstFormatError, TableProperties

_UNREADABLE = {"Zlib": "zlib", "Xpress": "XPRESS", "kZlibCompression": "zlib", "kXpressCompression": "XPRESS"}
"""Compressions, as tables and OPTIONS files spell them, that the RocksDB in rocksdict is built without."""
_MISSING = re.compile(r"(\d+\.(?:sst|blob))")
_NO_FAMILY = re.compile(r"Column famil(y|ies) not (found|opened)")
_TRANSACTIONS = re.compile(r"TransactionDB|txn tag")
_RECOMPRESS = (
    "nothing is damaged: have its owner rewrite it with lz4 (docs/operations.md has a program that does, with the "
    "application stopped; or set LZ4_COMPRESSION in the RocksDBConfigSetter and let the application restore the store)"
)
FLUSH = (
    "nothing is damaged: let its application commit or roll back what it has prepared, then flush every column family "
    "and close the database"
)
"""The hint for a database with transactions that cannot be read."""


def cannot_open(directory: Path, reason: str) -> RefusedError:
    """The error for a directory that RocksDB cannot open, with the reason that RocksDB gives."""
    return explain(directory, reason) or RefusedError(
        f"RocksDB cannot open {directory}: {reason}",
        hint="if its own application can open it, nothing is damaged: report this; else restore it from a backup or "
        "let its owner rebuild it",
    )


def explain(directory: Path, reason: str) -> RefusedError | None:
    """The error where a cause other than damage is found; None: the files may be damaged."""
    if "Permission denied" in reason:
        return RefusedError(f"RocksDB cannot open {directory}: {reason}", hint="run as the application's user")
    if _TRANSACTIONS.search(reason):
        return RefusedError(f"{directory} has transactions in its write-ahead log, which was not flushed", hint=FLUSH)
    if _NO_FAMILY.search(reason) and "\ufffd" in reason:  # rocksdict's replacement for bytes that are not UTF-8
        return RefusedError(
            f"{directory} has a column family whose name is not UTF-8",
            hint="nothing is damaged, but such a name cannot be used here: let its application copy the records to a "
            "column family with another name, and drop this one",
        )
    if "No such file" in reason and (missing := _MISSING.findall(reason)):
        return _no_file(directory, missing[-1])
    return _unreadable_tables(directory)


def _no_file(directory: Path, name: str) -> RefusedError | None:
    if (directory / name).exists():
        return None
    return RefusedError(
        f"{directory} lacks {name}, which its manifest names",
        hint="if its owner keeps files elsewhere (db_paths, cf_paths), link them into the directory under their names: "
        "nothing is damaged then, and a new store has all its files in its own directory; else restore the file from "
        "a backup, or let its owner rebuild the store",
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
    if (compression := _UNREADABLE.get(blob_compression(directory))) and any(directory.glob("*.blob")):
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
