"""Reading RocksDB through rocksdict, and what is known of its traps.

* `items()` ends silently on a damaged block: every scan ends with a status check (I4).
* `set_iterate_lower_bound` sets the upper bound and `set_iterate_upper_bound` keeps no reference to its bytes: neither
  is used; scans start by `from_key` and stop by comparing.
* Opening writes `rocksdict-config.json` into the directory, even read-only: what is not ours is opened through a
  directory of symbolic links.
* An iterator or a column family handle that lives on keeps the LOCK: both are dropped before `close()`.
"""

from __future__ import annotations

import os
import re
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from rocksdict import AccessType, DBRecoveryMode, Options, Rdict, RdictIter, ReadOptions

from migrate.errors import CorruptionError, RefusedError
from migrate.model.key_range import KeyRange, show_key
from migrate.stores.batch import Batch
from migrate.stores.rocksdb.layout import DatabaseFiles, check_readable, database_files
from migrate.stores.rocksdb.transactions import check_nothing_prepared
from migrate.stores.rocksdb.unreadable import cannot_open, explain

DEFAULT_FAMILY = "default"
MAX_BATCH_RECORDS = 1024
MAX_BATCH_BYTES = 1 << 18
_SMALL = MAX_BATCH_BYTES // MAX_BATCH_RECORDS
READAHEAD = 1 << 17
_FILE_NUMBER = re.compile(r"^ (\d+):", re.MULTILINE)
"""In RocksDB's list of a family's files: one to a line, its keys in hex (VersionStorageInfo's DebugString)."""
_COUNTS = ("entries", "deletes")
_SUMMED_UP = re.compile(r"# (entries|deletions)=(\d+)")
_LOOKS = 5
_OPEN_FILES = 256  # tables are opened when a scan reaches them, so that a chunk of a huge store opens only its own


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One SST file that the manifest names."""

    name: str
    size: int
    level: int = 0
    """Files of one level above 0 do not overlap; each file of level 0 is a sorted run of its own."""


class Database:
    """A RocksDB directory, read through symbolic links; nothing in it is touched."""

    def __init__(self, database: Rdict, families: tuple[str, ...], directory: Path, view: Path) -> None:
        self._database = database
        self._view = view
        self.families = families
        self.directory = directory

    @property
    def sequence_number(self) -> int:
        """Raised by every write: tells whether the directory has changed."""
        return int(self._database.latest_sequence_number())

    @cached_property
    def _files(self) -> tuple[LiveFile, ...]:
        """Asked once: what is open for reading alone stays as it is."""
        files = [
            LiveFile(name=file["name"].lstrip("/"), size=file["size"], level=file["level"])
            for file in self._database.live_files()
        ]
        return tuple(sorted(files, key=lambda file: file.name))

    def live_files(self) -> list[LiveFile]:
        """The SST files in use, of all column families, by name."""
        return list(self._files)

    def files_of(self, family: str) -> list[LiveFile]:
        """The SST files of one column family: those that were ingested do not say whose they are."""
        listing = self.column(family).property_value("rocksdb.sstables") or ""
        numbers = {int(number) for number in _FILE_NUMBER.findall(listing)}
        return [file for file in self.live_files() if int(file.name.partition(".")[0]) in numbers]

    def estimated_records(self, family: str) -> int:
        """RocksDB's own estimate, from metadata."""
        return self.column(family).property_int_value("rocksdb.estimate-num-keys") or 0

    def table_puts(self, family: str) -> int:
        """Entries of all its SST files that are no deletions: from the files as they were when it was opened."""
        summary = self.column(family).property_value("rocksdb.aggregated-table-properties") or ""
        numbers = {name: int(number) for name, number in _SUMMED_UP.findall(summary)}
        return numbers.get("entries", 0) - numbers.get("deletions", 0)

    def unflushed_entries(self, family: str) -> tuple[int, int]:
        """(entries, deletions among them) that lie in the write-ahead log alone."""
        column = self.column(family)
        entries, deletions = (
            column.property_int_value(f"rocksdb.num-{what}-active-mem-table") or 0 for what in _COUNTS
        )
        return entries, deletions

    def last_key(self, family: str) -> bytes | None:
        """The greatest key; None: there is no record."""
        cursor = self.column(family).iter(streaming())
        cursor.seek_to_last()
        key = cursor.key() if cursor.valid() else None
        return None if key is None else bytes(key)

    def get(self, family: str, key: bytes) -> bytes | None:
        """One value."""
        return self.column(family).get(key)

    def batches(self, family: str, keys: KeyRange | None = None) -> Iterator[Batch]:
        """Every record of a family in the range, in key order. Raises CorruptionError unless the range was read whole.

        A batch holds at most 1024 records and 512 KiB, not counting its last record.
        """
        keys = keys or KeyRange()
        column = self.column(family)
        items = column.items(from_key=keys.start, read_opt=streaming(READAHEAD))
        last: bytes | None = None
        while (batch := pull(items)) is not None:
            if keys.end is not None and batch.keys[-1] >= keys.end:
                if inside := bisect_left(batch.keys, keys.end):
                    yield batch.head(inside)
                return
            last = batch.keys[-1]
            yield batch
            del batch  # or a large value would live on while the next one is read
        self.check_ended(family, keys.start, last)

    def sample(self, family: str, start: bytes | None, count: int, max_bytes: int = 1 << 20) -> Batch:
        """Up to `count` records from `start` on, fewer once they have `max_bytes`. Raises CorruptionError."""
        keys: list[bytes] = []
        values: list[bytes] = []
        items: Iterator[tuple[bytes, bytes]] = self.column(family).items(from_key=start, read_opt=streaming())  # type: ignore[assignment]
        for key, value in islice(items, count):
            keys.append(key)
            values.append(value)
            max_bytes -= len(key) + len(value)
            if max_bytes <= 0:
                break
        if len(keys) < count and max_bytes > 0:
            self.check_ended(family, start, keys[-1] if keys else None)
        return Batch(keys, values)

    def check_ended(self, family: str, start: bytes | None, last: bytes | None) -> None:
        """A scan from `start` ended behind `last`: raises CorruptionError where that is not the end (I4)."""
        where = f"column family {family!r} of {self.directory}"
        try:
            at = start if last is None else last
            check_end(self.column(family).iter(streaming()), at, where, is_record=last is not None)
        except CorruptionError as error:
            message = error.message.replace(str(self._view), str(self.directory))
            known = explain(self.directory, message)
            raise known or CorruptionError(message, hint=error.hint, place=self.directory) from error

    def column(self, family: str) -> Rdict:
        """rocksdict's own view of one family; to be dropped before the database is closed."""
        return self._database.get_column_family(family)


def check_end(cursor: RdictIter, at: bytes | None, where: str, *, is_record: bool, backwards: bool = False) -> None:
    """An iterator ended after `at`: is that the end, or an error that rocksdict kept to itself? (I4)

    `cursor`: of the same instant. `at`: the last record that came, or where the scan began; None: at its end.

    Raises CorruptionError.
    """
    try:
        if at is None:
            cursor.seek_to_last() if backwards else cursor.seek_to_first()
        else:
            cursor.seek_for_prev(at) if backwards else cursor.seek(at)
        if is_record and cursor.valid():
            cursor.prev() if backwards else cursor.next()
        cursor.status()
    except Exception as error:
        raise _damaged(where, at, str(error)) from error
    if cursor.valid():
        raise _damaged(where, at, "the scan ended before the records did")


def streaming(readahead: int = 0) -> ReadOptions:
    """For one pass over the data: what is read once is not cached.

    Memory-mapped reads would save 2 % more, but count the whole chunk as the worker's memory, which YARN kills it for,
    and turn a bad sector into the death of the process.
    """
    options = ReadOptions()
    options.fill_cache(False)  # type: ignore[call-arg]  # its stub lacks the argument; 5 to 10 % less time
    options.set_readahead_size(readahead)  # 3 % less: one system call for 32 blocks
    return options


def pull(items: Iterator[tuple[Any, Any]], limit: int = MAX_BATCH_RECORDS) -> Batch | None:
    """The next records, as long as all have the size of the first; those of any size once one differs.

    At most `limit`, which is at most 1024, and 512 KiB, not counting the last one; None: the iterator has ended.

    Two plain loops: appending to two lists costs 20 ns a record, flattening the pairs in C 60. To compare the sizes
    here costs 25 ns and saves 80 further on (`Batch.lengths`, `CompiledProgram`). And the size of the first record says
    how many of the kind fit into a batch, before the second one is read.
    """
    first = next(items, None)
    if first is None:
        return None
    key, value = first
    key_size, value_size = sizes = len(key), len(value)
    keys, values = [key], [value]
    fit = MAX_BATCH_BYTES // (key_size + value_size or 1)
    for key, value in islice(items, max(0, min(limit, fit) - 1)):
        keys.append(key)
        values.append(value)
        if len(value) != value_size or len(key) != key_size:
            return _pull_uneven(items, keys, values, limit)
    return Batch(keys, values, sizes)


def pull_records(items: Iterator[tuple[Any, Any]], limit: int) -> list[tuple[bytes, bytes]]:
    """The same as pairs, empty at the end: a quarter less time where nobody needs columns."""
    records = []
    for record in islice(items, limit):
        records.append(record)
        if len(record[1]) > _SMALL:
            break
    else:
        return records
    size = sum(len(key) + len(value) for key, value in records)
    for record in islice(items, limit - len(records)) if size < MAX_BATCH_BYTES else ():
        records.append(record)
        size += len(record[0]) + len(record[1])
        if size >= MAX_BATCH_BYTES:
            break
    return records


def _pull_uneven(items: Iterator[tuple[Any, Any]], keys: list[bytes], values: list[bytes], limit: int) -> Batch:
    """These records and the next ones; bytes are counted, for 40 ns each, once one of them is not small."""
    if len(keys[-1]) <= _SMALL and len(values[-1]) <= _SMALL:
        for key, value in islice(items, limit - len(keys)):
            keys.append(key)
            values.append(value)
            if len(value) > _SMALL or len(key) > _SMALL:
                break
        else:
            return Batch(keys, values)
    size = sum(map(len, keys)) + sum(map(len, values))
    if size < MAX_BATCH_BYTES:
        for key, value in islice(items, limit - len(keys)):
            keys.append(key)
            values.append(value)
            size += len(key) + len(value)
            if size >= MAX_BATCH_BYTES:
                break
    return Batch(keys, values)


def _damaged(where: str, at: bytes | None, reason: str) -> CorruptionError:
    after = "its first record" if at is None else f"the key {show_key(at)}"
    return CorruptionError(
        f"{where} cannot be read beyond {after}: {reason}",
        hint="nothing was lost that was not lost before; unless its own application still reads it, restore this store "
        "from a backup or let its owner rebuild it",
    )


def family_names(directory: Path) -> tuple[str, ...]:
    """The column families that the manifest names: a hundredth of what it takes to open the directory."""
    return tuple(Rdict.list_cf(str(directory), Options(raw_mode=True)))


@contextmanager
def open_read_only(directory: Path, *, all_files: bool = False) -> Iterator[Database]:
    """Open a RocksDB directory without touching it, beside a running owner too.

    `all_files`: open every file at once, for an owner that may remove some of them meanwhile.

    Raises RefusedError where it cannot be opened: a missing, truncated or unreadable file, no RocksDB directory at all.
    """
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        view = Path(folder)
        database, families = _open_view(directory, view, all_files=all_files)
        try:
            yield Database(database, families, directory, view)
        finally:
            database.close()


def _open_view(directory: Path, view: Path, *, all_files: bool) -> tuple[Rdict, tuple[str, ...]]:
    """Once more where its owner has changed its files meanwhile."""
    for left in reversed(range(_LOOKS)):
        seen = _entries(directory)
        try:
            files = database_files(directory)
            check_readable(files)
            check_nothing_prepared(directory)
            _link(files, view)
            return _open_links(view, all_files=all_files)
        except Exception as error:
            if left and _entries(directory) != seen:
                continue
            if isinstance(error, RefusedError):
                error.place = directory
                raise
            problem = cannot_open(directory, str(error).replace(str(view), str(directory)))
            problem.place = directory
            raise problem from error
    raise AssertionError("the last look returns or raises")


def _entries(directory: Path) -> set[tuple[str, int]]:
    """Names, and the inodes behind them: a file that is made anew is another one."""
    with os.scandir(directory) as entries:
        return {(entry.name, entry.inode()) for entry in entries}


def _link(files: DatabaseFiles, view: Path) -> None:
    for link in view.iterdir():
        link.unlink()
    for path in files.every:
        if path.name != "rocksdict-config.json":
            (view / path.name).symlink_to(path.absolute())


def _open_links(view: Path, *, all_files: bool) -> tuple[Rdict, tuple[str, ...]]:
    options = Options(raw_mode=True)
    options.set_max_open_files(-1 if all_files else _OPEN_FILES)
    # By default RocksDB ends a damaged write-ahead log where the damage is, and says nothing (I4).
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    families = tuple(Rdict.list_cf(str(view), options))
    database = Rdict(
        str(view),
        options,
        column_families=dict.fromkeys(families, options),
        access_type=AccessType.read_only(),
    )
    return database, families
