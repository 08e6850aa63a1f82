"""Writing RocksDB directories through rocksdict: sorted SST files, new databases, and single records.

A column family handle that stays alive keeps the LOCK: handles are dropped before `close()`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    ChecksumType,
    DBCompactionStyle,
    DBCompressionType,
    DBPath,
    IngestExternalFileOptions,
    Options,
    Rdict,
    SstFileWriter,
    WriteOptions,
)

from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, explain_system_error
from migrate.model.key_range import show_key
from migrate.stores.batch import Batch
from migrate.stores.files import temporary_folder, write_file
from migrate.stores.rocksdb.database import ANY_SIZE, DEFAULT_FAMILY, StoreContent, family_names, keep_few_tables_open
from migrate.stores.rocksdb.layout import database_files

_OF_ITS_MAKING = re.compile(rb"(?m)^  (wal_dir|max_open_files|table_cache_numshardbits|max_file_opening_threads)=.*\n")
"""Lines of an OPTIONS file that hold while a database is made; without them its owner gets the defaults."""
ROCKSDB_VERSION = "9.8.4"
"""The version of RocksDB in rocksdict, as its OPTIONS files have it."""
BLOCK_SIZE = 4096
BLOOM_BITS = 10
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
    """How SST files are written: so that the RocksDB of the owning system can open them, from 6.6 on."""

    compression: str = "kNoCompression"
    format_version: int = 5
    """RocksDB 6.6 is the first to read it; 7.9 (Kafka Streams up to 3.9) reads no newer one."""


def table_options(table: TableOptions, *, filters_everywhere: bool = False) -> Options:
    """RocksDB's options for new tables and the databases that hold them.

    `filters_everywhere`: Bloom filters in the last level too, where Kafka Streams omits them, for a store of which many
    missing keys are read.
    """
    blocks = BlockBasedOptions()
    blocks.set_block_size(BLOCK_SIZE)
    blocks.set_bloom_filter(BLOOM_BITS, False)
    blocks.set_format_version(table.format_version)
    blocks.set_checksum_type(ChecksumType.crc32c())  # RocksDB reads XXH3 from 6.27 on only
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_compression_type(_COMPRESSIONS.get(table.compression, DBCompressionType.none)())
    options.set_optimize_filters_for_hits(not filters_everywhere)
    options.set_block_based_table_factory(blocks)
    return options


class SstWriter:
    """One sorted SST file, which is made with its first record; keys must ascend strictly."""

    def __init__(self, path: Path, table: TableOptions) -> None:
        self.path = path
        self._writer = SstFileWriter(table_options(table))
        self._last = b""
        self._records = 0

    def write(self, batch: Batch) -> None:
        """Append records. Raises KeyOrderError where a key is not greater than the one before."""
        writer = self._writer
        with self._appending(batch.keys):
            for key, value in zip(batch.keys, batch.values, strict=True):
                writer[key] = value

    def write_changes(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Append changes of another store; None: the key's record is deleted there. Raises as `write`."""
        writer = self._writer
        with self._appending(keys):
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    del writer[key]
                else:
                    writer[key] = value

    @contextmanager
    def _appending(self, keys: Sequence[bytes]) -> Iterator[None]:
        try:
            if not self._records:
                self._writer.open(str(self.path))
            yield
        except Exception as error:
            self._check_order(keys)
            raise cannot_write(self.path, error) from error
        self._last = keys[-1]
        self._records += len(keys)

    def finish(self) -> list[Path]:
        """Complete the file, which RocksDB syncs before it closes it; only the name is not durable then.

        Returns it, or nothing where no record was written.
        """
        if not self._records:
            return []
        try:
            self._writer.finish()
        except Exception as error:
            raise cannot_write(self.path, error) from error
        return [self.path]

    def _check_order(self, keys: Sequence[bytes]) -> None:
        last = self._last if self._records else None
        for key in keys:
            if last is not None and key <= last:
                raise KeyOrderError(last, key)
            last = key


def cannot_write(path: Path, error: Exception) -> MigrationError:
    """The error for an SST file that cannot be made, written or completed."""
    what = f"cannot write {path}"
    known = explain_system_error(error, where=what)
    return known or ChunkFailedError(f"{what}: {error}", hint="run the same command again: what is finished is kept")


SORT = "[run] sort = true lets Spark sort the new keys: then run the same command again"
"""The hint where a conversion changes the order of keys."""
COLLAPSE = (
    'the function must map no two keys to one; or [conversion] on_collision = "newest" keeps the newest record of each'
)
"""The hint where it makes two keys one."""


class KeyOrderError(ChunkFailedError):
    """A converted key is not greater than the one before it."""

    def __init__(self, before: bytes, key: bytes) -> None:
        is_same = key == before
        what = "two old keys become one" if is_same else "the conversion changes the order of keys"
        super().__init__(f"{what}: {show_key(key)} follows {show_key(before)}", hint=COLLAPSE if is_same else SORT)


def create_database(
    path: Path,
    families: dict[str, TableOptions],
    files: dict[str, list[Path]],
    entries: dict[str, dict[bytes, bytes]],
    *,
    changes: Mapping[str, list[Path]] | None = None,
    is_compacted: bool = False,
) -> StoreContent:
    """Create a RocksDB directory: ingest each family's SST files in one step, and put the few `entries`.

    `changes`: for a family, a file of what is put and deleted on top of those. All files are moved into the directory.
    `is_compacted`: files that overlap become one sorted run, without deletions.
    Afterwards only the content of the tables is durable: the metadata are made in memory and then copied, as RocksDB
    would sync them 15 times.
    """
    path.mkdir(parents=True, exist_ok=True)
    options = {family: table_options(table) for family, table in families.items()}
    default = options.setdefault(DEFAULT_FAMILY, table_options(TableOptions()))
    keep_few_tables_open(default)
    default.set_db_paths([DBPath(str(path), ANY_SIZE)])
    with temporary_folder() as name:
        folder = Path(name).absolute()
        database = Rdict(str(folder), default, column_families=options)
        try:
            for family in options:
                layers = [files.get(family, []), (changes or {}).get(family, [])]
                _fill(database, family, layers, entries.get(family, {}), path)
                if is_compacted and len(files.get(family, [])) > 1:
                    database.get_column_family(family).compact_range(None, None)
            tables = sorted((file["name"].lstrip("/"), file["size"]) for file in database.live_files())
            last_write = database.latest_sequence_number()
        finally:
            database.close()
        for file in database_files(folder).mutable:
            if file.name != "rocksdict-config.json":
                content = file.read_bytes()
                is_options = file.name.startswith("OPTIONS-")
                write_file(path / file.name, _OF_ITS_MAKING.sub(b"", content) if is_options else content)
        write_file(path / "LOCK", b"")
        return StoreContent(last_write, family_names(folder), tuple(tables))


def _fill(database: Rdict, family: str, layers: list[list[Path]], entries: dict[bytes, bytes], tables: Path) -> None:
    column = database.get_column_family(family)
    try:
        for files in filter(None, layers):
            _ingest(column, files, tables)
        unlogged = WriteOptions()
        # Its stub takes this property for a method. What is put is flushed to a table, which RocksDB syncs.
        unlogged.disable_wal = True  # type: ignore[method-assign, assignment]
        for key, value in entries.items():
            column.put(key, value, unlogged)
        column.flush(True)
    finally:
        del column  # else an error that is kept would keep the database open, and that removes other files later


def _ingest(column: Rdict, files: list[Path], tables: Path) -> None:
    move = IngestExternalFileOptions()
    move.set_move_files(True)
    try:
        column.ingest_external_file([str(file) for file in files], move)
    except Exception as error:
        if explain_system_error(error) is not None:
            raise
        raise CorruptionError(
            f"a chunk's file was damaged since it was written: {error}",
            hint="run the command again: it rewrites what is damaged",
            place=tables,
        ) from error
    finally:
        del column
