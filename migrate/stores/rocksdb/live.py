"""RocksDB directories that a processor reads and writes: column families, batches over several of them, scans.

An iterator, a snapshot or a column family handle that stays alive keeps the LOCK: all are dropped before `close()`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn, cast

from rocksdict import ColumnFamily, Rdict, WriteBatch, WriteOptions

from migrate.errors import RefusedError, StoreClosedError, StoreLockedError
from migrate.library_messages import is_lock_held, is_not_found
from migrate.stores.files import raise_open_files
from migrate.stores.lock import check_unlocked
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database
from migrate.stores.rocksdb.layout import database_files, is_half_made, is_rocksdb
from migrate.stores.rocksdb.options_file import check_comparator, check_options, read_options
from migrate.stores.rocksdb.scan import OnColumns, Scan, value_of
from migrate.stores.rocksdb.transactions import check_nothing_prepared
from migrate.stores.rocksdb.unreadable import cannot_open
from migrate.stores.rocksdb.writing import TableOptions, table_options
from migrate.stores.state_store import Record

_OWN_CONFIG = "rocksdict-config.json"
_RECOVERING = "] Recovering from manifest file: "


class Family:
    """One column family. After `close` every call raises StoreClosedError.

    `get`, `put` and the like are rocksdict's own, bound: a frame of ours would cost a tenth of a read.
    """

    get: Callable[[bytes], bytes | None]
    put: Callable[[bytes, bytes], None]
    delete: Callable[[bytes], None]
    contains: Callable[[bytes], bool]

    def __init__(
        self,
        column: Rdict,
        name: str,
        directory: Path,
        handle: ColumnFamily | None = None,
        on_columns: OnColumns | None = None,
    ) -> None:
        """`on_columns`: for wide-column records, where the store may have them."""
        self._on_columns = on_columns
        self.name = name
        self.where = f"column family {name!r} of {directory}"
        self._column: Rdict | None = column
        self._handle = handle
        self.get = column.get if on_columns is None else partial(_value_of, column, on_columns)
        self.put = column.__setitem__
        self.delete = column.delete
        self.contains = column.__contains__

    @property
    def handle(self) -> ColumnFamily:
        return self._handle if self._handle is not None else self._raise_closed()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if self._on_columns is not None:
            return list(map(self.get, keys))
        return cast(list[bytes | None], self._open.get(list(keys)))

    def scan(
        self,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        reverse: bool = False,
        max_skips: int | None = None,
    ) -> Scan:
        """A scan of the records in [start, end), as they are now."""
        return Scan(
            self._open, start, end, self.where, reverse=reverse, max_skips=max_skips, on_columns=self._on_columns
        )

    def first(self, start: bytes | None = None, *, max_skips: int | None = None) -> Record | None:
        """The first record from `start` on. Raises TooManyTombstonesError past `max_skips` deleted records."""
        scan = self.scan(start, max_skips=max_skips)
        try:
            return next(iter(scan.pull(1)), None)
        finally:
            scan.close()

    @property
    def estimated_records(self) -> int:
        return self._property("estimate-num-keys")

    @property
    def file_bytes(self) -> int:
        return self._property("total-sst-files-size")

    @property
    def is_blank(self) -> bool:
        """Whether metadata prove it empty: no SST file and nothing in memory, neither a record nor a tombstone."""
        entries = ("num-entries-active-mem-table", "num-entries-imm-mem-tables")
        return self.file_bytes == 0 and not any(self._property(name) for name in entries)

    def flush(self) -> None:
        """Write what is in memory to an SST file. Other Python threads run meanwhile."""
        self._open.flush(True)

    def compact(self) -> None:
        """Rewrite the family without its tombstones. Other Python threads run meanwhile."""
        self._open.compact_range(None, None)

    def close(self) -> None:
        def closed(*_: object) -> NoReturn:
            self._raise_closed()

        self.get = self.put = self.delete = self.contains = closed
        self._handle = None
        self._column = None

    @property
    def _open(self) -> Rdict:
        return self._column if self._column is not None else self._raise_closed()

    def _property(self, name: str) -> int:
        return self._open.property_int_value(f"rocksdb.{name}") or 0

    def _raise_closed(self) -> NoReturn:
        raise StoreClosedError(f"{self.where} is closed", hint="open the store again")


def _value_of(column: Rdict, on_columns: OnColumns, key: bytes) -> bytes | None:
    try:
        columns = column.get_entity(key)
    except Exception as error:
        if is_not_found(str(error)):
            return None
        raise
    return None if columns is None else value_of(key, columns, on_columns)


class LiveDatabase:
    """A RocksDB directory, open for writing and locked.

    `sync`: every write is durable when it returns. `wal`: without it, a write is lost with the process, unless flushed.
    `keeps_config`: the owner uses rocksdict too, and its configuration file stays.
    """

    write: Callable[[WriteBatch], None]
    """Write a batch whole or, after a crash, not at all. rocksdict's own method, like those of a Family."""
    new_batch = staticmethod(partial(WriteBatch, True))
    """Create an empty batch; its methods take the `handle` of a family."""

    def __init__(self, database: Rdict, directory: Path, *, sync: bool, wal: bool, keeps_config: bool) -> None:
        self.directory = directory
        self._keeps_config = keeps_config
        self._remove_config()
        self._database: Rdict | None = database
        self._logged, self._plain = WriteOptions(), WriteOptions()
        # Properties, where rocksdict's stub has methods.
        self._logged.sync = sync
        self._plain.sync = sync and wal
        self._plain.disable_wal = not wal  # type: ignore[method-assign, assignment]
        database.set_write_options(self._plain)
        self.write = database.write
        self._wal = wal
        self._families: dict[str, Family] = {}
        self._is_stopped = False

    @property
    def sequence_number(self) -> int:
        return int(self._open.latest_sequence_number())

    @property
    def manifest_found(self) -> str:
        """The manifest that this opening found, from RocksDB's own log, which each opening starts; empty if not known.

        CURRENT, read before the opening, may be outdated by then: the directory is locked only by the opening.
        """
        log = self.directory / "LOG"
        if not log.is_file():
            return ""
        with log.open(encoding="utf-8", errors="replace") as lines:
            found = next((line for line in lines if _RECOVERING in line), "")
        return found.rstrip().rpartition("/")[2]

    def family(self, name: str, on_columns: OnColumns | None = None) -> Family:
        """The open family of that name. Raises Exception where there is none.

        `on_columns`: for wide-column records, from the first call on.
        """
        if name not in self._families:
            column = self._open.get_column_family(name)
            column.set_write_options(self._plain)
            handle = self._open.get_column_family_handle(name)
            self._families[name] = Family(column, name, self.directory, handle, on_columns)
        return self._families[name]

    def write_logged(self, batch: WriteBatch) -> None:
        """Write a batch to the write-ahead log too, even where other writes are not logged."""
        self._open.write(batch, self._logged)

    def sync(self) -> None:
        """Make everything that was written before durable."""
        if not self._wal:
            self.flush()
        self._open.flush_wal(True)

    def flush(self) -> None:
        """Write what is in memory to SST files, so that the next opening need not replay the log."""
        for family in self._families.values():
            family.flush()

    def make_family(self, name: str, *, filters_everywhere: bool = False) -> None:
        """Create the family unless it exists. `filters_everywhere`: see `table_options`."""
        if name not in families_of(self.directory):
            self._open.create_column_family(name, table_options(TableOptions(), filters_everywhere=filters_everywhere))
            self._remove_config()

    def drop_family(self, name: str) -> None:
        """Drop the family; RocksDB deletes its files after the last iterator over them was closed."""
        self._open.drop_column_family(name)
        self._families.pop(name).close()
        self._remove_config()

    def stop_background_work(self) -> None:
        """Abort flushes and compactions; nothing can be written to disk afterwards."""
        self._is_stopped = True
        self._open.cancel_all_background(True)

    def close(self) -> None:
        database, self._database = self._database, None

        def closed(_: WriteBatch) -> None:
            self._open  # noqa: B018 - raises

        self.write = closed
        for family in self._families.values():
            family.close()
        try:
            if database is not None:
                database.close()
        except Exception:
            if not self._is_stopped:  # otherwise the log has what was in memory
                raise
        self._remove_config()

    def _remove_config(self) -> None:
        """Remove the file that rocksdict writes repeatedly: after a crash it would look like the owner's."""
        if not self._keeps_config:
            (self.directory / _OWN_CONFIG).unlink(missing_ok=True)

    @property
    def _open(self) -> Rdict:
        if self._database is None:
            raise StoreClosedError(f"{self.directory} is closed", hint="open the store again")
        return self._database


def manifest_of(directory: Path) -> str:
    """The manifest that CURRENT names: every opening for writing creates one. Empty where there is no database."""
    current = directory / "CURRENT"
    return current.read_text(encoding="ascii").strip() if current.is_file() else ""


def families_of(directory: Path) -> tuple[str, ...]:
    """The column families of a RocksDB directory, which may be open. Raises RefusedError."""
    try:
        return tuple(Rdict.list_cf(str(directory), table_options(TableOptions())))
    except Exception as error:
        raise cannot_open(directory, str(error)) from error


@contextmanager
def open_live(
    directory: Path, *, sync: bool = False, wal: bool = True, filtered: str | None = None
) -> Iterator[LiveDatabase]:
    """Open a RocksDB directory for writing, with options that its owner can read; create it if it is missing.

    `filtered`: the family of which many missing keys are read.

    Raises StoreLockedError where any process has it open, RefusedError where RocksDB cannot open it.
    """
    raise_open_files()
    # One name for each directory: RocksDB finds by name what this process has open, and a second opening under another
    # name would drop the lock of the first.
    directory = directory.resolve()
    has_config = (directory / _OWN_CONFIG).exists()
    is_made = is_rocksdb(directory) and not is_half_made(directory)
    if is_made:
        database_files(directory)  # RocksDB would open LevelDB's directory too, and make it its own
        check_options(directory, read_options(directory), [check_comparator])
        check_nothing_prepared(directory)
    known = families_of(directory) if is_made else (DEFAULT_FAMILY,)
    options = {name: table_options(TableOptions(), filters_everywhere=name == filtered) for name in known}
    try:
        database = Rdict(str(directory), table_options(TableOptions()), column_families=options)
    except Exception as error:
        if is_lock_held(str(error)):
            _check_unlocked(directory)
        raise cannot_open(directory, str(error)) from error
    live = LiveDatabase(database, directory, sync=sync, wal=wal, keeps_config=has_config)
    del database
    try:
        yield live
    finally:
        live.close()


def _check_unlocked(directory: Path) -> None:
    try:
        check_unlocked([directory / "LOCK"])
    except StoreLockedError as held:
        if held.pid != os.getpid():
            raise
        hint = "share that store between threads, or close it first"
        raise StoreLockedError(f"this process already has {directory} open", pid=held.pid, hint=hint) from held


def read_only_family(database: Database, name: str, on_columns: OnColumns | None = None) -> Family:
    """A family of a database that is open for reading, which must be closed first. Writes raise RefusedError."""
    family = Family(database.column(name), name, database.directory, on_columns=on_columns)
    where = family.where  # a reference to the family itself would keep its files open until garbage is collected

    def refuse(*_: object) -> NoReturn:
        raise RefusedError(f"{where} is open for reading only", hint="open it with read_only=False")

    family.put = family.delete = refuse
    return family
