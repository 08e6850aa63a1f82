"""Transactions that were prepared and neither committed nor rolled back, found in write-ahead logs.

A database of RocksDB's TransactionDB may hold them in its log alone (WRITE_COMMITTED) or in its tables too
(WRITE_PREPARED, WRITE_UNPREPARED), where a program that opens it without its transactions takes them for committed.

| log, in blocks of 32 KiB     | batch: sequence number u64, count u32, then entries                                  |
|------------------------------|--------------------------------------------------------------------------------------|
| checksum u32, length u16     | tag u8; in column families other than the default one: id varint                     |
| type u8: 1 full, 2 first,    | then, by the tag, as many byte strings, each with its length as a varint before it   |
| 3 middle, 4 last; 5 to 8 the | 09, 12, 13: a prepared transaction begins; 0a: it ends, and its name                 |
| same with the log's number   | 0b, 15: it is committed; 0c: it is rolled back                                       |

Source: RocksDB's db/log_format.h, db/dbformat.h (ValueType), db/write_batch.cc (ReadRecordFromWriteBatch).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.regular_files import read_regular
from migrate.stores.rocksdb.options_file import newest_options
from migrate.stores.rocksdb.sst import varint
from migrate.stores.rocksdb.unreadable import FLUSH

_BLOCK = 32768
_HEADER = struct.Struct("<IHB")
_RECYCLABLE = range(5, 9)
_FIRST, _LAST, _COMPRESSED = (1, 2), (1, 4), 9
_BATCH_HEADER = 12
_PREPARED, _COMMITTED, _COMMITTED_AT, _ROLLED_BACK = 0x0A, 0x0B, 0x15, 0x0C
_STRINGS = {
    **dict.fromkeys((0x09, 0x0D, 0x12, 0x13), 0),
    **dict.fromkeys((0x00, 0x03, 0x04, 0x07, 0x08, _PREPARED, _COMMITTED, _ROLLED_BACK), 1),
    **dict.fromkeys((0x01, 0x02, 0x05, 0x06, 0x0E, 0x0F, 0x10, 0x11, _COMMITTED_AT, 0x16, 0x17, 0x18, 0x19), 2),
}
"""Byte strings after each tag."""
_WITH_FAMILY = frozenset((0x04, 0x05, 0x06, 0x08, 0x0E, 0x10, 0x17, 0x19))


def check_nothing_prepared(directory: Path) -> None:
    """Raises RefusedError where a transaction is prepared, neither committed nor rolled back, or may be."""
    if not newest_options(directory).allows_transactions:
        return
    open_ones: dict[bytes, None] = {}
    for log in sorted(directory.glob("*.log")):
        try:
            for batch in _records(read_regular(log), int(log.stem) if log.stem.isdecimal() else 0):
                _follow(batch, open_ones)
        except (LookupError, ValueError, struct.error) as error:
            raise RefusedError(
                f"{log} cannot be searched for prepared transactions ({error}), and its database has transactions",
                hint=FLUSH,
            ) from error
    if open_ones:
        names = ", ".join(repr(name.decode("utf-8", "backslashreplace")) for name in open_ones)
        raise RefusedError(
            f"{directory} has transactions that were prepared and neither committed nor rolled back: {names}",
            hint=FLUSH,
        )


def _records(log: bytes, number: int) -> Iterator[bytes]:
    """The batches in the log, without an unfinished one at the end."""
    parts: list[bytes] = []
    for kind, part in _fragments(log, number):
        if kind == _COMPRESSED:
            raise ValueError("it is compressed")
        if kind in _FIRST:
            parts.clear()
        parts.append(part)
        if kind in _LAST:
            yield b"".join(parts)


def _fragments(log: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(log):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:
            at += left
            continue
        _, length, kind = _HEADER.unpack_from(log, at)
        if kind == 0:  # space that was reserved
            at += left
            continue
        start = at + _HEADER.size
        if kind in _RECYCLABLE:
            if struct.unpack_from("<I", log, start)[0] != number & 0xFFFFFFFF:
                return  # left from the log file that RocksDB recycled for this one
            start, kind = start + 4, kind - 4
        at = start + length
        if kind <= _LAST[1] or kind == _COMPRESSED:
            yield kind, log[start:at]


def _follow(batch: bytes, open_ones: dict[bytes, None]) -> None:
    """Add the transactions that the batch prepares, remove those that it ends."""
    at = _BATCH_HEADER
    while at < len(batch):
        tag = batch[at]
        at += 1
        if tag in _WITH_FAMILY:
            _, at = varint(batch, at)
        text = b""
        for _ in range(_STRINGS[tag]):
            size, at = varint(batch, at)
            text = batch[at : at + size]
            at += size
        if tag == _PREPARED:
            open_ones[text] = None
        elif tag in (_COMMITTED, _COMMITTED_AT, _ROLLED_BACK):
            open_ones.pop(text, None)
