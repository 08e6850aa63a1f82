"""The parts of a block-based SST file that planning needs: its properties, and a sample of its index.

Neither rocksdict nor the C API reports how the bytes of one file are spread over its key range. The file's own index
has that, at about a hundredth of the data's size, and only the sampled entries of it are read.

| footer, last 53 bytes | format version < 6        | format version >= 6                            |
|-----------------------|---------------------------|------------------------------------------------|
| 0                     | checksum type             | checksum type                                  |
| 1                     | metaindex handle, varints | 3e 00 7a 00, footer checksum, base context     |
| ...                   | index handle, varints     | 13: metaindex size, u32 LE; then zeros         |
| 45                    | format version, u32 LE    | the same                                       |
| 49                    | magic, u64 LE (from 45)   | the same                                       |

Source: RocksDB's table/format.cc (Footer), table/block_based/block.h (restart array), table/table_properties.cc.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from migrate.stores.files import side_by_side

FOOTER_SIZE = 53
MAGIC = 0x88E241B785F4CFF7
TRAILER_SIZE = 5  # compression type, checksum
INTERNAL_KEY_SUFFIX = 8  # sequence number and type
_SNAPPY = 1
_CODECS = {_SNAPPY: "snappy", 4: "lz4_raw", 5: "lz4_raw", 7: "zstd"}
_PARTITIONED_INDEX = 2


class SstFormatError(Exception):
    """The file is no block-based SST file, is damaged, or has a form that is not supported here."""


@dataclass(frozen=True, slots=True)
class TableProperties:
    """The properties that RocksDB wrote into the file."""

    entries: int
    deletions: int
    raw_bytes: int
    """Keys and values before compression, internal keys included."""
    data_bytes: int
    """Data blocks, as they are on disk."""
    format_version: int
    compression: str
    """As RocksDB spells it in its files: "NoCompression", "Snappy", "LZ4", "ZSTD"."""
    range_deletions: int


@dataclass(frozen=True, slots=True)
class IndexSample:
    """A key, and the bytes of data blocks in the file up to it."""

    key: bytes
    offset: int


class SstFile:
    """A block-based SST file, memory-mapped and read only where needed. A context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb")
        try:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            self._file.close()
            raise SstFormatError(f"{path} is empty") from error
        self._map.madvise(mmap.MADV_RANDOM)
        self.bytes_read = 0
        """Bytes that were read, for the plan's budget."""

    def __enter__(self) -> SstFile:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BufferError):  # an error's traceback may still hold a view of it
            self._map.close()
        self._file.close()

    def properties(self) -> TableProperties:
        """The properties of the table. Raises SstFormatError."""
        with self._parsing():
            raw = self._raw_properties
            return TableProperties(
                entries=_number(raw, "rocksdb.num.entries"),
                deletions=_number(raw, "rocksdb.deleted.keys"),
                raw_bytes=_number(raw, "rocksdb.raw.key.size") + _number(raw, "rocksdb.raw.value.size"),
                data_bytes=_number(raw, "rocksdb.data.size"),
                format_version=self._footer()[0],
                compression=raw.get("rocksdb.compression", b"").decode("utf-8", "replace"),
                range_deletions=_number(raw, "rocksdb.num.range-deletions"),
            )

    def index_samples(self, count: int) -> list[IndexSample]:
        """About `count` entries of the index, evenly spread over its length. Raises SstFormatError."""
        with self._parsing():
            raw = self._raw_properties
            _, _, index = self._footer()
            if index is None:
                index = dict(self._metaindex())["rocksdb.index"]
            block = self._block(*index)
            is_user_key = _number(raw, "rocksdb.index.key.is.user.key") == 1
            is_delta = _number(raw, "rocksdb.index.value.is.delta.encoded") == 1
            partitioned = int.from_bytes(raw.get("rocksdb.block.based.table.index.type", b"")[:4], "little")
            samples = []
            for at in _restarts(block, count):
                key, handle, touched = _index_entry(block, at, is_delta=is_delta)
                self.bytes_read += touched
                offset, size = handle
                if partitioned != _PARTITIONED_INDEX:
                    offset += size + TRAILER_SIZE
                samples.append(IndexSample(key if is_user_key else key[:-INTERNAL_KEY_SUFFIX], offset))
            if partitioned == _PARTITIONED_INDEX:
                samples = _spread_evenly(samples, _number(raw, "rocksdb.data.size"))
            return samples

    @contextmanager
    def _parsing(self) -> Iterator[None]:
        """Turn every error of parsing damaged bytes into an SstFormatError."""
        try:
            yield
        except (struct.error, LookupError, ValueError, OSError, ArithmeticError, MemoryError) as error:
            raise SstFormatError(f"{self.path} is damaged: {error!r}") from error

    def _footer(self) -> tuple[int, tuple[int, int], tuple[int, int] | None]:
        """(format version, metaindex handle, index handle or None where the metaindex names it)."""
        if len(self._map) < FOOTER_SIZE:
            raise SstFormatError(f"{self.path} is too short for an SST file")
        start = len(self._map) - FOOTER_SIZE
        footer = self._map[start:]
        self.bytes_read += FOOTER_SIZE
        version, magic = struct.unpack_from("<IQ", footer, FOOTER_SIZE - 12)
        if magic != MAGIC:
            raise SstFormatError(f"{self.path} is no block-based SST file")
        if version >= 6:
            (size,) = struct.unpack_from("<I", footer, 13)
            return version, (start - TRAILER_SIZE - size, size), None
        offset, at = varint(footer, 1)
        size, at = varint(footer, at)
        index_offset, at = varint(footer, at)
        index_size, at = varint(footer, at)
        return version, (offset, size), (index_offset, index_size)

    def _metaindex(self) -> Iterator[tuple[str, tuple[int, int]]]:
        _, metaindex, _ = self._footer()
        for name, value in _entries(bytes(self._block(*metaindex))):
            offset, at = varint(value, 0)
            size, _ = varint(value, at)
            yield name.decode("utf-8", "replace"), (offset, size)

    @cached_property
    def _raw_properties(self) -> dict[str, bytes]:
        handle = dict(self._metaindex()).get("rocksdb.properties")
        if handle is None:
            raise SstFormatError(f"{self.path} has no properties")
        self.bytes_read += handle[1]
        return {name.decode("utf-8", "replace"): value for name, value in _entries(bytes(self._block(*handle)))}

    def _block(self, offset: int, size: int) -> memoryview:
        """A block's content, uncompressed."""
        if offset + size + TRAILER_SIZE > len(self._map):
            raise SstFormatError(f"{self.path} is truncated")
        compression = self._map[offset + size]
        content = memoryview(self._map)[offset : offset + size]
        if compression == 0:
            return content
        codec = _CODECS.get(compression)
        if codec is None:
            raise SstFormatError(f"{self.path} has a block of compression type {compression}")
        self.bytes_read += size
        raw_size, at = varint(bytes(content[:10]), 0)
        at = 0 if compression == _SNAPPY else at  # its own format begins with the size
        return memoryview(_decompress(content[at:].tobytes(), codec, raw_size))


_known_tables: dict[tuple[int, int, int, int], TableProperties] = {}
_MOST_KNOWN_TABLES = 1 << 16  # 40 MB
_FEW_TABLES = 64
_END_BYTES = 1 << 16


def table_properties(path: Path) -> TableProperties:
    """The properties of a file, of which this process reads each once, also behind another hard link: it never changes.

    Raises SstFormatError, FileNotFoundError.
    """
    status = path.stat()
    known = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if (properties := _known_tables.get(known)) is None:
        with SstFile(path) as file:
            properties = file.properties()
        if len(_known_tables) >= _MOST_KNOWN_TABLES:
            _known_tables.clear()
        _known_tables[known] = properties
    return properties


def read_ahead(directory: Path, names: Sequence[str]) -> None:
    """Bring the ends of tables, which have their properties, into the page cache, several at a time.

    Of thousands of files that are not there, each takes a disk some milliseconds. Few files are left as they are.
    """
    if len(names) >= _FEW_TABLES:
        side_by_side(_read_end, [directory / name for name in names])


def _read_end(path: Path) -> None:
    with suppress(OSError), path.open("rb", buffering=0) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END_BYTES))
        file.read(_END_BYTES)


def _decompress(block: bytes, codec: str, raw_size: int) -> bytes:
    try:
        from pyarrow import Codec
    except ModuleNotFoundError as error:
        raise SstFormatError(f"a block is compressed with {codec}, and pyarrow is not installed") from error
    plain: bytes = Codec(codec).decompress(block, decompressed_size=raw_size, asbytes=True)
    return plain


def _number(raw: dict[str, bytes], name: str) -> int:
    value = raw.get(name)
    return varint(value, 0)[0] if value else 0


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(the number that is encoded at `at`, the place after it). Raises IndexError past the end."""
    value = shift = 0
    while (byte := data[at]) >= 128:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1


def _restart_array(block: memoryview) -> tuple[int, int]:
    """(offset of the first restart, count). The top bit of the count flags a hash index, which index blocks lack."""
    (count,) = struct.unpack_from("<I", block, len(block) - 4)
    count &= 0x7FFFFFFF
    start = len(block) - 4 - 4 * count
    if count < 1 or start < 0:
        raise SstFormatError("a block's restart array does not fit it")
    return start, count


def _restarts(block: memoryview, wanted: int) -> Iterator[int]:
    start, count = _restart_array(block)
    taken = min(wanted, count)
    for number in range(1, taken + 1):
        (at,) = struct.unpack_from("<I", block, start + 4 * (number * count // taken - 1))
        yield at


def _index_entry(block: memoryview, at: int, *, is_delta: bool) -> tuple[bytes, tuple[int, int], int]:
    """(key, handle, bytes touched) of the entry at a restart point, where nothing is shared with the one before."""
    head = bytes(block[at : at + 30])
    shared, cursor = varint(head, 0)
    key_size, cursor = varint(head, cursor)
    if not is_delta:
        _, cursor = varint(head, cursor)
    if shared != 0:
        raise SstFormatError("an index entry at a restart point shares bytes with the one before")
    key = bytes(block[at + cursor : at + cursor + key_size])
    value = bytes(block[at + cursor + key_size : at + cursor + key_size + 20])
    offset, end = varint(value, 0)
    size, end = varint(value, end)
    return key, (offset, size), cursor + key_size + end + 4


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    end, _ = _restart_array(memoryview(block))
    at = 0
    key = b""
    while at < end:
        shared, key_size, value_size = block[at : at + 3]
        at += 3
        if (shared | key_size | value_size) >= 128:  # one of them takes more than a byte
            shared, at = varint(block, at - 3)
            key_size, at = varint(block, at)
            value_size, at = varint(block, at)
        key = key[:shared] + block[at : at + key_size]
        at += key_size
        yield key, block[at : at + value_size]
        at += value_size


def _spread_evenly(samples: list[IndexSample], data_bytes: int) -> list[IndexSample]:
    """Offsets for the top level of a partitioned index, whose parts have about the same number of blocks each."""
    return [IndexSample(s.key, data_bytes * (n + 1) // len(samples)) for n, s in enumerate(samples)]
