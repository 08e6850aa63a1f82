"""RocksDB through its C API, called with ctypes: opening stores, scanning them, and writing SST files.

It is for loops that are compiled, which call the functions by their addresses; what is called for each record from
Python takes longer than through rocksdict. Both are in one process: each has its own RocksDB, and the library's symbols
are its own (RTLD_LOCAL).

| memory                                   | belongs to                                                      |
|------------------------------------------|-----------------------------------------------------------------|
| a database, its column families          | `NativeDatabase`, whose closing closes its iterators first      |
| an iterator, its options                 | `NativeIterator`                                                |
| the upper bound of an iterator           | Python: RocksDB has a bare pointer, so the iterator keeps it    |
| the key and value at an iterator         | RocksDB, until the iterator moves                               |
| an error's text                          | the caller, who frees it (`CApi.take_error`)                    |
| keys and values that are written         | the caller: RocksDB copies them                                 |
"""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from migrate.model.key_range import KeyRange
from migrate.stores.rocksdb.c_library import LibraryMissingError, unpacked_library
from migrate.stores.rocksdb.database import ANY_SIZE, FEW_TABLES
from migrate.stores.rocksdb.openings import pooled
from migrate.stores.rocksdb.scan import READAHEAD
from migrate.stores.rocksdb.view import Close, View, opened_in_view
from migrate.stores.rocksdb.writing import BLOCK_SIZE, BLOOM_BITS, ROCKSDB_VERSION, TableOptions

_P, _Size, _Int, _Flag, _Text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_ubyte, ctypes.c_char_p
_SIGNATURES: dict[tuple[Any, ...], str] = {
    (None, _P): """
        free options_destroy dbpath_destroy column_family_handle_destroy close readoptions_destroy iter_destroy
        iter_seek_to_first iter_next block_based_options_destroy envoptions_destroy sstfilewriter_destroy
    """,
    (_P,): "options_create readoptions_create block_based_options_create envoptions_create",
    (None, _P, _P, _Size): "options_set_db_paths",
    (None, _P, _Int): """
        options_set_wal_recovery_mode options_set_max_open_files options_set_table_cache_numshardbits
        options_set_max_file_opening_threads options_set_compaction_style options_set_compression
        options_set_optimize_filters_for_hits block_based_options_set_format_version
    """,
    (None, _P, _P): """
        options_set_block_based_table_factory iter_get_error block_based_options_set_filter_policy
        sstfilewriter_finish
    """,
    (_P, _Text, ctypes.c_uint64): "dbpath_create",
    (_P, _P, _Text, _P, _P): "list_column_families",
    (None, _P, _Size): "list_column_families_destroy readoptions_set_readahead_size block_based_options_set_block_size",
    (_P, _P, _Text, _Int, _P, _P, _P, _Flag, _P): "open_for_read_only_column_families",
    (None, _P, _Flag): "readoptions_set_fill_cache",
    (None, _P, _Text, _Size): "readoptions_set_iterate_upper_bound iter_seek",
    (_P, _P, _P, _P): "create_iterator_cf",
    (_Flag, _P): "iter_valid",
    (_P, _P, _P): "iter_key iter_value sstfilewriter_create",
    (None, _P, ctypes.c_byte): "block_based_options_set_checksum",
    (_P, ctypes.c_double): "filterpolicy_create_bloom_full",
    (None, _P, _Text, _P): "sstfilewriter_open",
    (None, _P, _Text, _Size, _Text, _Size, _P): "sstfilewriter_put",
}
"""What functions return, and their parameters; the last one of those that can fail is `char **error`."""
_TOLERATE_CORRUPTED_TAIL = 0
_UNIVERSAL = 1
_CRC32C = 1
_COMPRESSIONS = {
    "kSnappyCompression": 1,
    "kBZip2Compression": 3,
    "kLZ4Compression": 4,
    "kLZ4HCCompression": 5,
    "kZSTD": 7,
}
"""zlib is not among them: rocksdict, which opens what is written here, has none."""


class StatusError(Exception):
    """What RocksDB reports, in its own words."""


class CApi:
    """RocksDB's functions: `api.iter_next(iterator)` calls `rocksdb_iter_next`."""

    def __init__(self, path: Path) -> None:
        """Raises LibraryMissingError where this process cannot load it, or it is another version."""
        try:
            library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
            version = library.Java_org_rocksdb_RocksDB_version  # of two parameters that it does not use
            self._functions = {
                name: library[f"rocksdb_{name}"] for names in _SIGNATURES.values() for name in names.split()
            }
        except (OSError, AttributeError) as error:
            raise LibraryMissingError(f"cannot load {path}: {error}") from error
        number = version(None, None)
        found = f"{number >> 16}.{number >> 8 & 255}.{number & 255}"
        if found != ROCKSDB_VERSION:
            raise LibraryMissingError(f"{path} is RocksDB {found}, and rocksdict has {ROCKSDB_VERSION}")
        for (result, *parameters), names in _SIGNATURES.items():
            for name in names.split():
                self._functions[name].restype, self._functions[name].argtypes = result, parameters

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function: Callable[..., Any] = self._functions[name]
        return function

    def address(self, name: str) -> int:
        """Where a function is in memory, for compiled code."""
        return ctypes.cast(self._functions[name], _P).value or 0

    def checked(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - what that function returns
        """Call a function that can fail. Raises StatusError."""
        error = _P()
        result = self._functions[name](*arguments, ctypes.byref(error))
        if error.value is not None:
            raise StatusError(self.take_error(error.value))
        return result

    def take_error(self, address: int) -> str:
        """The text of an error, whose memory is freed."""
        try:
            return ctypes.string_at(address).decode("utf-8", "replace")
        finally:
            self._functions["free"](address)


_loaded: list[CApi] = []


def give_memory_back() -> None:
    """Let the C library return what RocksDB has freed; musl's does so by itself."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def library() -> CApi:
    """The library, loaded once in a process. Raises LibraryMissingError."""
    if not _loaded:  # without a lock, which a fork could leave locked: of two threads, the first one's counts
        _loaded.append(CApi(unpacked_library()))
    return _loaded[0]


class _Owned(ABC):
    """Something of RocksDB's, which is closed at the end of a `with` block; afterwards it has no pointer."""

    _pointer: int
    """0: it is closed."""

    @property
    def pointer(self) -> int:
        """Its address, for the C API."""
        if not self._pointer:
            raise ValueError("it is closed")
        return self._pointer

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NativeDatabase(_Owned):
    """A RocksDB directory, read through a view; nothing in it is changed. For one thread at a time."""

    def __init__(self, api: CApi, pointer: int, handles: dict[str, int], view: View) -> None:
        self.api, self.view, self.directory = api, view, view.directory
        self.families = tuple(handles)
        self._pointer = pointer
        self.handles = handles
        """Of its column families, for the C API."""
        self.iterators: set[NativeIterator] = set()
        """Those that are open."""

    def iterator(self, family: str, keys: KeyRange, *, readahead: int = READAHEAD) -> NativeIterator:
        """An iterator at the first record of the range, which ends with it."""
        return NativeIterator(self, family, keys, readahead)

    def close(self) -> None:
        """Close it after its iterators and its column families, as RocksDB demands."""
        for iterator in tuple(self.iterators):
            iterator.close()
        while self.handles:
            self.api.column_family_handle_destroy(self.handles.popitem()[1])
        pointer, self._pointer = self._pointer, 0
        if pointer:
            self.api.close(pointer)


class NativeIterator(_Owned):
    """A position in a column family's records, as they were when it was made.

    At its end, ask for its error (I4). Of a wide-column record it has the column without a name, or nothing.
    """

    def __init__(self, database: NativeDatabase, family: str, keys: KeyRange, readahead: int) -> None:
        self._database = database
        self._api = api = database.api
        self._options = api.readoptions_create()
        api.readoptions_set_fill_cache(self._options, 0)
        api.readoptions_set_readahead_size(self._options, readahead)
        if (end := keys.end) is not None:
            api.readoptions_set_iterate_upper_bound(self._options, end, len(end))
            self._kept = end  # RocksDB has a bare pointer to these bytes
        self._pointer: int = api.create_iterator_cf(database.pointer, self._options, database.handles[family])
        database.iterators.add(self)
        self.seek(keys.start)

    def seek(self, key: bytes | None) -> None:
        """Go to the first record from `key` on; None: to the first one."""
        if key is None:
            self._api.iter_seek_to_first(self.pointer)
        else:
            self._api.iter_seek(self.pointer, key, len(key))

    def valid(self) -> bool:
        """Whether it is at a record."""
        return bool(self._api.iter_valid(self.pointer))

    def next(self) -> None:
        self._api.iter_next(self._at_record())

    def key(self) -> bytes:
        return self._bytes(self._api.iter_key)

    def value(self) -> bytes:
        return self._bytes(self._api.iter_value)

    def error(self) -> str | None:
        """Why it ended before its records did, in RocksDB's words."""
        try:
            self._api.checked("iter_get_error", self.pointer)
        except StatusError as error:
            return str(error)
        return None

    def _bytes(self, part: Callable[..., int]) -> bytes:
        size = _Size()
        return ctypes.string_at(part(self._at_record(), ctypes.byref(size)), size.value)

    def _at_record(self) -> int:
        if not self.valid():
            raise ValueError("the iterator is at no record")
        return self.pointer

    def close(self) -> None:
        pointer, self._pointer = self._pointer, 0
        if pointer:
            self._api.iter_destroy(pointer)
            self._api.readoptions_destroy(self._options)
            self._database.iterators.discard(self)


@contextmanager
def open_native(directory: Path) -> Iterator[NativeDatabase]:
    """Open a RocksDB directory as `open_read_only` does; it raises the same errors, and LibraryMissingError."""
    api = library()
    with opened_in_view(directory, lambda view: _open_native_rocksdb(api, view)) as database:
        yield database


def open_native_pooled(directory: Path) -> AbstractContextManager[NativeDatabase]:
    """As `open_native`, or the database that an earlier task has left open."""
    return pooled(open_native, directory)


def _open_native_rocksdb(api: CApi, view: View) -> tuple[NativeDatabase, Close]:
    """As in `database`; the database, and what closes it."""
    name = os.fsencode(view.folder)
    with ExitStack() as made:
        options = api.options_create()
        made.callback(api.options_destroy, options)
        path = api.dbpath_create(os.fsencode(view.tables), ANY_SIZE)
        made.callback(api.dbpath_destroy, path)
        api.options_set_db_paths(options, (_P * 1)(path), 1)
        api.options_set_wal_recovery_mode(options, _TOLERATE_CORRUPTED_TAIL)
        api.options_set_max_open_files(options, FEW_TABLES)
        api.options_set_table_cache_numshardbits(options, 0)
        api.options_set_max_file_opening_threads(options, 1)
        families = _family_names(api, options, name)
        count = len(families)
        names = (_Text * count)(*(family.encode() for family in families))
        each, handles = (_P * count)(*[options] * count), (_P * count)()
        pointer = api.checked("open_for_read_only_column_families", options, name, count, names, each, handles, 0)
    database = NativeDatabase(api, pointer, dict(zip(families, handles, strict=True)), view)
    return database, database.close


def _family_names(api: CApi, options: int, name: bytes) -> list[str]:
    count = _Size()
    listed = api.checked("list_column_families", options, name, ctypes.byref(count))
    try:
        named = ctypes.cast(listed, ctypes.POINTER(_Text))[: count.value]
        return [(each or b"").decode("utf-8", "replace") for each in named]  # as rocksdict: what is not UTF-8 is missed
    finally:
        api.list_column_families_destroy(listed, count)


class NativeSstWriter(_Owned):
    """One sorted SST file, as `SstWriter` makes it; keys must ascend strictly. Unless it is finished, it is removed."""

    def __init__(self, path: Path, table: TableOptions) -> None:
        """Raises StatusError where the file cannot be made."""
        self.path = path
        self._api = api = library()
        self._is_finished = False
        with ExitStack() as made:
            environment = api.envoptions_create()
            made.callback(api.envoptions_destroy, environment)
            options = _native_table_options(api, table)
            made.callback(api.options_destroy, options)
            self._pointer: int = api.sstfilewriter_create(environment, options)
            made.callback(api.sstfilewriter_destroy, self._pointer)
            api.checked("sstfilewriter_open", self._pointer, os.fsencode(path))
            self._made = made.pop_all()

    def put(self, key: bytes, value: bytes) -> None:
        """Append a record. Raises StatusError."""
        self._api.checked("sstfilewriter_put", self.pointer, key, len(key), value, len(value))

    def finish(self) -> None:
        """Complete the file, which RocksDB syncs before it closes it. Raises StatusError, also without a record."""
        self._api.checked("sstfilewriter_finish", self.pointer)
        self._is_finished = True

    def close(self) -> None:
        if self._pointer:
            self._pointer = 0
            self._made.close()
            if not self._is_finished:
                self.path.unlink(missing_ok=True)


def _native_table_options(api: CApi, table: TableOptions) -> int:
    """As `table_options`, for SST files; to be destroyed."""
    blocks = api.block_based_options_create()
    api.block_based_options_set_block_size(blocks, BLOCK_SIZE)
    api.block_based_options_set_filter_policy(blocks, api.filterpolicy_create_bloom_full(BLOOM_BITS))  # which it owns
    api.block_based_options_set_format_version(blocks, table.format_version)
    api.block_based_options_set_checksum(blocks, _CRC32C)
    options: int = api.options_create()
    api.options_set_compaction_style(options, _UNIVERSAL)
    api.options_set_compression(options, _COMPRESSIONS.get(table.compression, 0))
    api.options_set_optimize_filters_for_hits(options, 1)
    api.options_set_block_based_table_factory(options, blocks)  # which copies them
    api.block_based_options_destroy(blocks)
    return options
