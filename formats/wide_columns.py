"""Wide-column records, which RocksDB's PutEntity writes: keys with several named values.

| 1 | number of columns: varint | size of the name: varint, name, size of the value: varint | ... | values ... |

Source: RocksDB's db/wide/wide_column_serialization.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from formats.encoding.varint import pack_unsigned

NOT_A_PAIR = "it is a wide-column record (RocksDB's PutEntity), which has named columns, and no value"


class WideColumns(bytes):
    """All columns of such a record, where its value is expected; no format can decode it."""

    __slots__ = ()


def wide_columns(_: bytes, columns: Sequence[tuple[bytes, bytes]]) -> bytes:
    """What stands for the value of the record of a key with these columns, which are pairs of a name and a value."""
    index = b"".join(pack_unsigned(len(name)) + name + pack_unsigned(len(value)) for name, value in columns)
    return WideColumns(b"\x01" + pack_unsigned(len(columns)) + index + b"".join(value for _, value in columns))
