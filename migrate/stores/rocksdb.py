"""RocksDB through rocksdict: the only module that calls it, and the only one that knows its traps.

* `items()` ends silently on a damaged block: every scan ends with a status check (I4).
* `set_iterate_lower_bound` sets the upper bound and `set_iterate_upper_bound` keeps no reference to its bytes: neither
  is used; scans start by `from_key` and stop by comparing.
* Opening writes `rocksdict-config.json` into the directory, even read-only: what is not ours is opened through a
  directory of symbolic links.
* An iterator or a column family handle that lives on keeps the LOCK: both are dropped before `close()`.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    ChecksumType,
    DBCompactionStyle,
    DBCompressionType,
    DBRecoveryMode,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    SstFileWriter,
)

from migrate.errors import ChunkFailedError, CorruptionError, RefusedError
from migrate.keyrange import KeyRange, show_key
from migrate.stores.batch import Batch
from migrate.stores.layout import check_readable, database_files
from migrate.stores.lock import check_unlocked

DEFAULT_FAMILY = "default"
MAX_BATCH_RECORDS = 1024
MAX_BATCH_BYTES = 1 << 18
_SMALL = MAX_BATCH_BYTES // MAX_BATCH_RECORDS
_READAHEAD = 1 << 17
_OPEN_FILES = 256  # tables are opened when a scan reaches them, so that a chunk of a huge store opens only its own

_COMPRESSIONS = {
    "kSnappyCompression": DBCompressionType.snappy,
    "kZlibCompression": DBCompressionType.zlib,
    "kBZip2Compression": DBCompressionType.bz2,
    "kLZ4Compression": DBCompressionType.lz4,
    "kLZ4HCCompression": DBCompressionType.lz4hc,
    "kZSTD": DBCompressionType.zstd,
}


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How SST files are written: what every version of the owning system can open."""

    compression: str = "kNoCompression"
    format_version: int = 5
    """RocksDB 7.9.2 (Kafka Streams up to 3.9) reads no newer one."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One SST file that the manifest names."""

    name: str
    size: int


def table_options(table: TableOptions) -> Options:
    """RocksDB's options for new tables and the databases that hold them."""
    blocks = BlockBasedOptions()
    blocks.set_block_size(4096)
    blocks.set_bloom_filter(10, False)
    blocks.set_format_version(table.format_version)
    blocks.set_checksum_type(ChecksumType.crc32c() if table.format_version < 5 else ChecksumType.xxh3())
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_compression_type(_COMPRESSIONS.get(table.compression, DBCompressionType.none)())
    options.set_optimize_filters_for_hits(True)
    options.set_block_based_table_factory(blocks)
    return options


class ReadOnlyDatabase:
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

    def live_files(self) -> list[LiveFile]:
        """The SST files in use, of all column families, by name."""
        files = [LiveFile(name=file["name"].lstrip("/"), size=file["size"]) for file in self._database.live_files()]
        return sorted(files, key=lambda file: file.name)

    def estimated_records(self, family: str) -> int:
        """RocksDB's own estimate, from metadata."""
        return self._column(family).property_int_value("rocksdb.estimate-num-keys") or 0

    def get(self, family: str, key: bytes) -> bytes | None:
        """One value."""
        return self._column(family).get(key)

    def batches(self, family: str, keys: KeyRange | None = None) -> Iterator[Batch]:
        """Every record of a family in the range, in key order. Raises CorruptionError unless the range was read whole.

        A batch holds at most 1024 records and 512 KiB, not counting its last record.
        """
        keys = keys or KeyRange()
        column = self._column(family)
        items = column.items(from_key=keys.start, read_opt=_streaming(_READAHEAD))
        last: bytes | None = None
        while (batch := _pull(items)) is not None:
            if keys.end is not None and batch.keys[-1] >= keys.end:
                if inside := bisect_left(batch.keys, keys.end):
                    yield batch.head(inside)
                return
            last = batch.keys[-1]
            yield batch
            del batch  # or a large value would live on while the next one is read
        self._check_end(column, family, keys.start if last is None else last, is_record=last is not None)

    def sample(self, family: str, start: bytes | None, count: int, max_bytes: int = 1 << 20) -> Batch:
        """Up to `count` records from `start` on, fewer once they have `max_bytes`."""
        keys: list[bytes] = []
        values: list[bytes] = []
        items: Iterator[tuple[bytes, bytes]] = self._column(family).items(from_key=start, read_opt=_streaming())  # type: ignore[assignment]
        for key, value in islice(items, count):
            keys.append(key)
            values.append(value)
            max_bytes -= len(key) + len(value)
            if max_bytes <= 0:
                break
        return Batch(keys, values)

    def _column(self, family: str) -> Rdict:
        return self._database.get_column_family(family)

    def _check_end(self, column: Rdict, family: str, at: bytes | None, *, is_record: bool) -> None:
        """The iterator ended after `at`: is that the end, or an error that rocksdict kept to itself?"""
        cursor = column.iter(_streaming())
        where = f"column family {family!r} of {self.directory}"
        try:
            if at is None:
                cursor.seek_to_first()
            else:
                cursor.seek(at)
            if is_record and cursor.valid():
                cursor.next()
            cursor.status()
        except Exception as error:
            raise _damaged(where, at, str(error).replace(str(self._view), str(self.directory))) from error
        if cursor.valid():
            raise _damaged(where, at, "the scan ended before the records did")


def _streaming(readahead: int = 0) -> ReadOptions:
    """For one pass over the data: what is read once is not cached.

    Memory-mapped reads would save 2 % more, but count the whole chunk as the worker's memory, which YARN kills it for,
    and turn a bad sector into the death of the process.
    """
    options = ReadOptions()
    options.fill_cache(False)  # type: ignore[call-arg]  # its stub lacks the argument; 5 to 10 % less time
    options.set_readahead_size(readahead)  # 3 % less: one system call for 32 blocks
    return options


def _pull(items: Iterator[tuple[Any, Any]]) -> Batch | None:
    """The next records, as long as all have the size of the first; those of any size once one differs.

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
    for key, value in islice(items, max(0, min(MAX_BATCH_RECORDS, fit) - 1)):
        keys.append(key)
        values.append(value)
        if len(value) != value_size or len(key) != key_size:
            return _pull_uneven(items, keys, values)
    return Batch(keys, values, sizes)


def _pull_uneven(items: Iterator[tuple[Any, Any]], keys: list[bytes], values: list[bytes]) -> Batch:
    """These records and the next ones; bytes are counted, for 40 ns each, once one of them is not small."""
    if len(keys[-1]) <= _SMALL and len(values[-1]) <= _SMALL:
        for key, value in islice(items, MAX_BATCH_RECORDS - len(keys)):
            keys.append(key)
            values.append(value)
            if len(value) > _SMALL or len(key) > _SMALL:
                break
        else:
            return Batch(keys, values)
    size = sum(map(len, keys)) + sum(map(len, values))
    if size < MAX_BATCH_BYTES:
        for key, value in islice(items, MAX_BATCH_RECORDS - len(keys)):
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
        hint="nothing was lost that was not lost before; restore this store from a backup or let its owner rebuild it",
    )


@contextmanager
def open_read_only(directory: Path) -> Iterator[ReadOnlyDatabase]:
    """Open a RocksDB directory without touching it, beside a running owner too.

    Raises RefusedError where it cannot be opened: a missing, truncated or unreadable file, no RocksDB directory at all.
    """
    files = database_files(directory)
    check_readable(files)
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        view = Path(folder)
        for path in files.every:
            if path.name != "rocksdict-config.json":
                (view / path.name).symlink_to(path.absolute())
        options = Options(raw_mode=True)
        options.set_max_open_files(_OPEN_FILES)
        # By default RocksDB ends a damaged write-ahead log where the damage is, and says nothing (I4).
        options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
        try:
            families = tuple(Rdict.list_cf(folder, options))
            database = Rdict(
                folder,
                options,
                column_families=dict.fromkeys(families, options),
                access_type=AccessType.read_only(),
            )
        except Exception as error:
            raise RefusedError(
                f"RocksDB cannot open {directory}: {str(error).replace(folder, str(directory))}",
                hint="the directory is damaged or incomplete: restore it from a backup or let its owner rebuild it",
            ) from error
        try:
            yield ReadOnlyDatabase(database, families, directory, view)
        finally:
            database.close()


class WritableDatabase(ReadOnlyDatabase):
    """A RocksDB directory, open for writing and locked."""

    def put(self, family: str, key: bytes, value: bytes) -> None:
        """Write one record."""
        self._column(family)[key] = value

    def delete(self, family: str, key: bytes) -> None:
        """Delete one record."""
        self._column(family).delete(key)


@contextmanager
def open_writable(directory: Path) -> Iterator[WritableDatabase]:
    """Open a RocksDB directory for writing. Raises StoreLockedError where another process holds it."""
    database_files(directory)
    check_unlocked([directory / "LOCK"])
    options = table_options(TableOptions())
    families = tuple(Rdict.list_cf(str(directory), options))
    database = Rdict(str(directory), options, column_families=dict.fromkeys(families, options))
    try:
        yield WritableDatabase(database, families, directory, directory)
    finally:
        database.close()


class SstWriter:
    """One sorted SST file. It needs at least one record; keys must ascend strictly."""

    def __init__(self, path: Path, table: TableOptions) -> None:
        self.path = path
        self._writer = SstFileWriter(table_options(table))
        self._writer.open(str(path))
        self._last = b""
        self._records = 0

    def write(self, batch: Batch) -> None:
        """Append records. Raises KeyOrderError where a key does not come after the one before."""
        writer = self._writer
        try:
            for key, value in zip(batch.keys, batch.values, strict=True):
                writer[key] = value
        except Exception as error:
            self._check_order(batch)
            raise ChunkFailedError(
                f"cannot write {self.path}: {error}", hint="is the disk full? rerun to resume"
            ) from error
        self._last = batch.keys[-1]
        self._records += len(batch)

    def finish(self) -> None:
        """Complete the file; RocksDB syncs it."""
        self._writer.finish()

    def _check_order(self, batch: Batch) -> None:
        last = self._last if self._records else None
        for key in batch.keys:
            if last is not None and key <= last:
                raise KeyOrderError(last, key)
            last = key


class KeyOrderError(ChunkFailedError):
    """A converted key does not come after the one before it."""

    def __init__(self, before: bytes, key: bytes) -> None:
        what = "two old keys become one" if key == before else "the conversion changes the order of keys"
        super().__init__(
            f"{what}: {show_key(key)} follows {show_key(before)}",
            hint="the function must keep the order of keys and map no two keys to one",
        )


def create_database(
    path: Path,
    families: dict[str, TableOptions],
    files: dict[str, list[Path]],
    entries: dict[str, list[tuple[bytes, bytes]]],
) -> None:
    """Make a RocksDB directory: ingest each family's SST files in one step, and put the few `entries`.

    The files are moved into it. The caller syncs the directory.
    """
    options = {family: table_options(table) for family, table in families.items()}
    default = options.setdefault(DEFAULT_FAMILY, table_options(TableOptions()))
    database = Rdict(str(path), default, column_families=options)
    try:
        move = IngestExternalFileOptions()
        move.set_move_files(True)
        for family in options:
            column = database.get_column_family(family)
            if files.get(family):
                column.ingest_external_file([str(file) for file in files[family]], move)
            for key, value in entries.get(family, []):
                column[key] = value
            column.flush(True)
            del column
    finally:
        database.close()
    for name in ("rocksdict-config.json", "LOG"):
        (path / name).unlink(missing_ok=True)
