"""Reading a RocksDB directory through rocksdict, and the traps in that.

* `items()` ends silently on a damaged block: every scan ends with a status check (I4).
* `set_iterate_lower_bound` sets the upper bound and `set_iterate_upper_bound` keeps no reference to its bytes: neither
  is used; scans start by `from_key` and stop by comparing.
* Opening writes `LOG` and `rocksdict-config.json` into the directory, even read-only: it is opened through a view.
* An iterator or a column family handle that lives on keeps the LOCK: both are dropped before `close()`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from rocksdict import AccessType, BlockBasedOptions, Cache, DBPath, DBRecoveryMode, Options, Rdict

from migrate.errors import CorruptionError
from migrate.model.key_range import KeyRange
from migrate.stores.batch import Batch
from migrate.stores.files import temporary_folder
from migrate.stores.rocksdb.scan import MAX_BATCH_RECORDS, READAHEAD, OnColumns, check_end, items, pull, streaming
from migrate.stores.rocksdb.unreadable import explain, has_properties, of_leveldb
from migrate.stores.rocksdb.view import View, open_in_view, opened_in_view

DEFAULT_FAMILY = "default"
_FILE_NUMBER = re.compile(r"^ (\d+):", re.MULTILINE)
"""One per line of RocksDB's list of a family's files, which has keys in hex (VersionStorageInfo's DebugString)."""
_NEWEST_SEQUENCE_NUMBER = re.compile(r"^ \d+:\d+\[\d+ \.\. (\d+)\]", re.MULTILINE)
"""Of each file in that list."""
_LESS_THAN_RECORDS = ("deletions", "merge operands", "range deletions")
_TABLE_COUNTS = re.compile(rf"# (entries|{'|'.join(_LESS_THAN_RECORDS)})=(\d+)")
ANY_SIZE = 1 << 62
FEW_TABLES = 20
"""The fewest open files that RocksDB takes: 10 tables."""
_FIRST_BATCH = 64
_SHARED_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One SST file that the manifest names."""

    name: str
    size: int
    level: int = 0
    """Files of one level above 0 do not overlap; each file of level 0 is a sorted run of its own."""
    last_key: bytes = b""


@dataclass(frozen=True, slots=True)
class StoreContent:
    """What the metadata of a RocksDB directory say of its content; every write changes it."""

    sequence_number: int
    families: tuple[str, ...]
    files: tuple[tuple[str, int], ...]
    """(name, size) of each SST file in use, by name."""


class Database:
    """A RocksDB directory, read through a view; nothing in it is changed."""

    def __init__(self, database: Rdict, families: tuple[str, ...], view: View) -> None:
        self._database = database
        self.view = view
        self.view_folder: TemporaryDirectory[str] | None = None
        """The folder of the view, where that is needed until nothing refers to the database any more."""
        self.families = families
        self.directory = view.directory

    @property
    def sequence_number(self) -> int:
        """The number of the last write: a changed number means that the directory has changed."""
        return int(self._database.latest_sequence_number())

    @cached_property
    def live_files(self) -> tuple[LiveFile, ...]:
        """The SST files in use, of all column families, by name; they stay the same while it is open."""
        files = [
            LiveFile(file["name"].lstrip("/"), file["size"], file["level"], bytes(file["end_key"] or b""))
            for file in self._database.live_files()
        ]
        return tuple(sorted(files, key=lambda file: file.name))

    def content(self) -> StoreContent:
        files = tuple((file.name, file.size) for file in self.live_files)
        return StoreContent(self.sequence_number, self.families, files)

    def files_of(self, family: str) -> list[LiveFile]:
        """The SST files of one column family. (Ingested files do not name their family themselves.)"""
        numbers = {int(number) for number in _FILE_NUMBER.findall(self._text(family, "sstables"))}
        return [file for file in self.live_files if int(file.name.partition(".")[0]) in numbers]

    def estimated_records(self, family: str) -> int:
        """RocksDB's own estimate, from metadata."""
        return self._number(family, "estimate-num-keys")

    def proven_records(self, family: str) -> int | None:
        """The number of records that metadata prove; None: only a scan can count them.

        It is proven if every entry of the files has sequence number 0, which RocksDB gives to the only remaining
        version of a key, and to files that were ingested into an empty family; and if nothing was deleted or is in the
        log.
        """
        if any(self._number(family, f"num-entries-{which}-mem-table") for which in ("active", "imm")):
            return None
        listing = self._text(family, "sstables")
        files, newest = len(_FILE_NUMBER.findall(listing)), _NEWEST_SEQUENCE_NUMBER.findall(listing)
        if not files:
            return 0
        counts = self._table_counts(family)
        entries = counts.pop("entries", None)
        is_plain = len(counts) == len(_LESS_THAN_RECORDS) and not any(counts.values())
        return entries if is_plain and newest == ["0"] * files else None

    def count(self, family: str, keys: KeyRange, check: Callable[[], None]) -> int:
        """Count the records in the range; `check` is called for each batch, and may raise. Without values a scan takes
        40 % less time.

        Raises CorruptionError unless the range was read whole.
        """
        found = self.column(family).keys(from_key=keys.start, read_opt=streaming(READAHEAD))
        scan = cast("Iterator[bytes]", found)
        count, last = 0, None
        while batch := [*islice(scan, MAX_BATCH_RECORDS)]:
            check()
            if keys.end is not None and batch[-1] >= keys.end:
                return count + bisect_left(batch, keys.end)
            count, last = count + len(batch), batch[-1]
        self.check_ended(family, keys.start, last)
        return count

    def table_puts(self, family: str) -> int:
        """Entries that are no deletions in all SST files, as these were when the database was opened.

        Raises RefusedError for tables of LevelDB: RocksDB dies where one has no properties.
        """
        if not all(has_properties(self.directory / file.name) for file in self.live_files):
            raise of_leveldb(self.directory)
        counts = self._table_counts(family)
        return counts.get("entries", 0) - counts.get("deletions", 0)

    def unflushed_entries(self, family: str) -> tuple[int, int]:
        """(entries, deletions among them) that are in the write-ahead log only."""
        entries, deletions = (self._number(family, f"num-{what}-active-mem-table") for what in ("entries", "deletes"))
        return entries, deletions

    def _table_counts(self, family: str) -> dict[str, int]:
        summary = self._text(family, "aggregated-table-properties")
        return {name: int(number) for name, number in _TABLE_COUNTS.findall(summary)}

    def _number(self, family: str, name: str) -> int:
        return self.column(family).property_int_value(f"rocksdb.{name}") or 0

    def _text(self, family: str, name: str) -> str:
        return self.column(family).property_value(f"rocksdb.{name}") or ""

    def last_key(self, family: str) -> bytes | None:
        """The greatest key; None: the family is empty."""
        cursor = self.column(family).iter(streaming())
        cursor.seek_to_last()
        key = cursor.key() if cursor.valid() else None
        return None if key is None else bytes(key)

    def get(self, family: str, key: bytes) -> bytes | None:
        return self.column(family).get(key)

    def batches(
        self, family: str, keys: KeyRange | None = None, *, on_columns: OnColumns | None = None
    ) -> Iterator[Batch]:
        """Every record of a family in the range, in key order. Raises CorruptionError unless the range was read whole.

        A batch holds at most 1024 records and 512 KiB, not counting its last record. If the range has an end, the first
        batches are smaller, so that no more records are read beyond the end than within the range.
        """
        keys = keys or KeyRange()
        column = self.column(family)
        records = items(column, on_columns, from_key=keys.start, read_opt=streaming(READAHEAD))
        last: bytes | None = None
        limit = MAX_BATCH_RECORDS if keys.end is None else _FIRST_BATCH
        while (batch := pull(records, limit)) is not None:
            limit = min(2 * limit, MAX_BATCH_RECORDS)
            if keys.end is not None and batch.keys[-1] >= keys.end:
                if inside := bisect_left(batch.keys, keys.end):
                    yield batch.part(0, inside)
                return
            last = batch.keys[-1]
            yield batch
            del batch  # so that a large value is freed before the next one is read
        self.check_ended(family, keys.start, last)

    def sample(
        self,
        family: str,
        start: bytes | None,
        count: int,
        max_bytes: int = 1 << 20,
        *,
        on_columns: OnColumns | None = None,
    ) -> Batch:
        """Up to `count` records from `start` on, fewer once they have `max_bytes`. Raises CorruptionError."""
        keys: list[bytes] = []
        values: list[bytes] = []
        for key, value in islice(items(self.column(family), on_columns, from_key=start, read_opt=streaming()), count):
            keys.append(key)
            values.append(value)
            max_bytes -= len(key) + len(value)
            if max_bytes <= 0:
                break
        if len(keys) < count and max_bytes > 0:
            self.check_ended(family, start, keys[-1] if keys else None)
        return Batch(keys, values)

    def check_ended(self, family: str, start: bytes | None, last: bytes | None) -> None:
        """Raises CorruptionError where a scan from `start` ended after `last`, and records follow (I4)."""
        where = f"column family {family!r} of {self.directory}"
        try:
            at = start if last is None else last
            check_end(self.column(family).iter(streaming()), at, where, is_record=last is not None)
        except CorruptionError as error:
            message = error.message.replace(str(self.view.folder), str(self.directory))
            known = explain(self.directory, message)
            raise known or CorruptionError(message, hint=error.hint, place=self.directory) from error

    def column(self, family: str) -> Rdict:
        """rocksdict's object for one family; its references must be dropped before the database is closed."""
        return self._database.get_column_family(family)


def family_names(directory: Path) -> tuple[str, ...]:
    """The column families that the manifest names, in a hundredth of the time of opening the directory."""
    return tuple(Rdict.list_cf(str(directory), Options(raw_mode=True)))


@contextmanager
def open_read_only(directory: Path, *, all_files: bool = False) -> Iterator[Database]:
    """Open a RocksDB directory without changing it, also while its owner runs.

    `all_files`: open every file at once, for an owner that may remove some of them meanwhile.

    Raises RefusedError for a missing, truncated or unreadable file, or where it is no RocksDB directory.
    """
    options = Options(raw_mode=True)
    if not all_files:
        keep_few_tables_open(options)
    with opened_in_view(directory, lambda view: _open_rocksdb(view, options)) as database:
        yield database


@cache
def _shared_blocks() -> Cache:
    """One cache for all databases that are opened unmanaged: records, indexes and filters of tables."""
    return Cache(_SHARED_BYTES)


def open_unmanaged(directory: Path) -> Database:
    """Open a RocksDB directory as `open_read_only` does, with every file open, until nothing refers to it any more.

    Indexes and filters are in the cache that such databases share, so that many open tables take no more memory.
    """
    options = Options(raw_mode=True)
    tables = BlockBasedOptions()
    tables.set_block_cache(_shared_blocks())
    tables.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(tables)
    with ExitStack() as stack:
        folder = temporary_folder()
        name = Path(stack.enter_context(folder))
        view, (database, _) = open_in_view(directory, name, lambda view: _open_rocksdb(view, options))
        if view.is_needed:
            database.view_folder = folder
            stack.pop_all()
        return database


def _open_rocksdb(view: View, options: Options) -> tuple[Database, Callable[[], None]]:
    """The database, and what closes it."""
    options.set_db_paths([DBPath(str(view.tables), ANY_SIZE)])
    # By default RocksDB stops reading a write-ahead log where it is damaged, without an error (I4).
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    name = str(view.folder)
    families = tuple(Rdict.list_cf(name, options))
    each = dict.fromkeys(families, options)
    database = Rdict(name, options, column_families=each, access_type=AccessType.read_only())
    return Database(database, families, view), database.close


def keep_few_tables_open(options: Options) -> None:
    """Open tables when scans reach them: an open one has its index in memory, 8 MB for a GiB of small records."""
    options.set_max_open_files(FEW_TABLES)
    options.set_table_cache_num_shard_bits(0)  # else 64: it keeps one in each of so many shards
    options.set_max_file_opening_threads(1)  # to start 16 takes a third of opening a small store
