"""The OPTIONS file of a RocksDB directory, an ini file (RocksDB's options/options_parser.cc)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.regular_files import read_regular

BYTEWISE = "leveldb.BytewiseComparator"
_OF_ROCKSDICT = "rocksdict"
_NONE = ("", "nullptr")
_PLAIN_TABLE = "BlockBasedTable"
NEWEST_FORMAT_VERSION = 6
"""The newest table format that the RocksDB in rocksdict (9.8) reads; 7 is the default since RocksDB 10.11."""
_OLDEST_READER = (6, 6)
"""The oldest RocksDB that reads the table format and the manifest of new stores."""


@dataclass(frozen=True, slots=True)
class FamilyOptions:
    """The options of one column family that decide whether it can be read, and how it is best written."""

    family: str
    comparator: str
    merge_operator: str | None
    compression: str
    """As RocksDB spells it: kNoCompression, kLZ4Compression, ..."""
    table_factory: str
    format_version: int | None


def read_options(directory: Path) -> dict[str, FamilyOptions]:
    """The options in the newest OPTIONS file, by column family; empty where there is none.

    Raises RefusedError for a damaged file, and where the write-ahead log is in another directory.
    """
    parsed = newest_options(directory)
    if parsed.wal_dir and _is_log_elsewhere(directory, Path(parsed.wal_dir)):
        is_gone = "" if Path(parsed.wal_dir).is_dir() else ", which is not there"
        raise RefusedError(
            f"{directory} has its write-ahead log in another directory, {parsed.wal_dir}{is_gone}",
            hint=f"with its owner stopped, move the *.log files {'' if is_gone else 'from there '}into {directory}: "
            "without them, what only they hold is lost; then open and close the store once with its owner, with "
            "wal_dir set to that directory",
        )
    return {options.family: options for options in parsed.families}


def _is_log_elsewhere(directory: Path, named: Path) -> bool:
    """Whether the write-ahead log is in the directory that OPTIONS names.

    RocksDB up to 6.22 names the directory of the database itself, as it was: the files may have been copied since.
    Each opening begins a log and a manifest, with numbers in either order: an older log is one of an earlier opening.
    """
    if named.resolve() == directory.resolve() or (named / "CURRENT").exists():
        return False
    here, there = (max(map(_number, each.glob("*.log")), default=-1) for each in (directory, named))
    return here < _manifest_number(directory) - 1 or there > here


def _manifest_number(directory: Path) -> int:
    """Of the manifest that CURRENT names; 1, the first, where that cannot be read."""
    with suppress(OSError, ValueError):
        return int(read_regular(directory / "CURRENT").decode().strip().removeprefix("MANIFEST-"))
    return 1


def _number(log: Path) -> int:
    return int(log.stem) if log.stem.isdecimal() else -1


def reads_new_stores(version: str) -> bool:
    """Whether the RocksDB of that version, as an OPTIONS file names it, can open a new store."""
    numbers = version.split(".")[:2]
    return not all(map(str.isdecimal, numbers)) or tuple(map(int, numbers)) >= _OLDEST_READER


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """The parts of an OPTIONS file that are needed."""

    families: tuple[FamilyOptions, ...] = ()
    wal_dir: str = ""
    rocksdb_version: str | None = None
    """The version of the last RocksDB that opened the directory for writing; None: not known."""
    blob_compression: str = ""
    """As RocksDB spells it."""
    allows_transactions: bool = False
    """Whether a TransactionDB was the last to open the directory."""


def newest_options(directory: Path) -> DatabaseOptions:
    """The newest OPTIONS file; empty values where there is none. Raises RefusedError for a damaged one."""
    named = {path.name.removeprefix("OPTIONS-"): path for path in directory.glob("OPTIONS-*")}
    # RocksDB writes OPTIONS-000007.dbtmp first, which a crash leaves behind.
    files = [named[number] for number in sorted(filter(str.isdecimal, named), key=int)]
    if not files:
        return DatabaseOptions()
    try:
        return _parse(read_regular(files[-1]).decode("utf-8", "replace"))
    except ConfigParserError as error:
        check_is_text(files[-1])
        raise RefusedError(
            f"{files[-1]} cannot be parsed: {str(error).splitlines()[0]}",
            hint="restore it from a backup, or remove it: its owner writes a new one when it opens the store",
        ) from error


_SHORTEST_BYTES = len("MANIFEST-000001\n")
"""What CURRENT holds, encrypted or not: what is shorter was cut."""


def check_is_text(file: Path) -> None:
    """Raises RefusedError where a file of text holds random bytes, and not only a few damaged ones."""
    content = read_regular(file)
    if len(content) >= _SHORTEST_BYTES and 4 * sum(byte > 127 for byte in content) > len(content):
        raise RefusedError(
            f"{file} is not text, as RocksDB writes it: the store is encrypted, or this is no RocksDB directory",
            hint="only its own application can read an encrypted store: let that copy the records into a RocksDB "
            "directory that is not encrypted, and name this one",
        )


@lru_cache(maxsize=64)
def _parse(text: str) -> DatabaseOptions:
    """Parse a text once: it takes 3 ms, and the store partitions of an application have the same one."""
    parser = ConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None, strict=False)
    parser.read_string(text)
    sections = [section for section in parser.sections() if section.startswith("CFOptions ")]
    return DatabaseOptions(
        families=tuple(_family(parser, section) for section in sections),
        wal_dir=parser.get("DBOptions", "wal_dir", fallback=""),
        rocksdb_version=parser.get("Version", "rocksdb_version", fallback=None),
        blob_compression=next((parser.get(each, "blob_compression_type", fallback="") for each in sections), ""),
        allows_transactions=parser.get("DBOptions", "allow_2pc", fallback="false") == "true",
    )


def _family(parser: ConfigParser, section: str) -> FamilyOptions:
    family = section.removeprefix("CFOptions ").strip('"')
    table = f'TableOptions/BlockBasedTable "{family}"'
    version = parser.get(table, "format_version", fallback="")
    merge_operator = (
        parser.get(section, "merge_operator", fallback="").strip("{}").removeprefix("id=").partition(";")[0]
    )
    return FamilyOptions(
        family=family,
        comparator=parser.get(section, "comparator", fallback=BYTEWISE),
        merge_operator=None if merge_operator in _NONE else merge_operator,
        compression=parser.get(section, "compression", fallback="kNoCompression"),
        table_factory=parser.get(section, "table_factory", fallback=_PLAIN_TABLE),
        format_version=int(version) if version.isdigit() else None,
    )


def check_comparator(family: FamilyOptions, where: str) -> None:
    """Raises RefusedError for any order except the bytewise one."""
    if family.comparator != BYTEWISE:
        raise ordered_otherwise(where, family.comparator)


def ordered_otherwise(where: str, comparator: str) -> RefusedError:
    """The error for any order except the bytewise one."""
    hint = "only RocksDB's bytewise order can be read: migrate this store through its own application"
    if comparator == _OF_ROCKSDICT:
        hint = (
            "that is RocksDict without raw_mode, whose keys and values are pickled or tagged Python objects: copy them "
            "with RocksDict, as bytes, into a store that is opened with Options(raw_mode=True), and name that one"
        )
    return RefusedError(f"{where} is ordered by the comparator {comparator!r}", hint=hint)


def check_merge_operator(family: FamilyOptions, where: str) -> None:
    """Raises RefusedError for a family with a merge operator."""
    if family.merge_operator is not None:
        raise RefusedError(
            f"{where} has the merge operator {family.merge_operator!r}",
            hint="its values may be unmerged operands, which only that operator can combine: migrate this "
            "store through its own application",
        )


def check_table(family: FamilyOptions, where: str) -> None:
    """Raises RefusedError for tables that the RocksDB here cannot read."""
    if not family.table_factory.startswith(_PLAIN_TABLE):
        raise RefusedError(
            f"{where} is stored as {family.table_factory!r}",
            hint="only block-based tables can be read: have its owner rewrite it with them",
        )
    check_format_version(family.format_version or 0, where)


def check_format_version(version: int, where: str) -> None:
    """Raises RefusedError for a table format that the RocksDB here cannot read."""
    if version > NEWEST_FORMAT_VERSION:
        raise RefusedError(
            f"{where} has table format version {version}",
            hint=f"nothing is damaged, but only up to {NEWEST_FORMAT_VERSION} can be read: let its owner write that "
            f"(format_version; Streamiz: SetFormatVersion({NEWEST_FORMAT_VERSION}) in its RocksDbConfigHandler) and "
            "rewrite the store: compact all of it, or, where the owner cannot (Streamiz), stop it, remove the task's "
            "directory and start it again, so that it restores the store from its changelog; then stop it",
        )


OptionsCheck = Callable[[FamilyOptions, str], None]
"""Called with the options of a column family, and its name and directory in words."""
OPTIONS_CHECKS: tuple[OptionsCheck, ...] = (check_comparator, check_merge_operator, check_table)


def check_options(
    directory: Path, options: dict[str, FamilyOptions], checks: Iterable[OptionsCheck] = OPTIONS_CHECKS
) -> None:
    """Raises RefusedError for column families whose order or form cannot be read."""
    for family in options.values():
        for check in checks:
            check(family, f"column family {family.family!r} of {directory}")
