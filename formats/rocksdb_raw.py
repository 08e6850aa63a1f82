"""`rocksdb.raw`: the bytes of any RocksDB directory as they are, every column family of it.

| part  | offset | size | field |
|-------|--------|------|-------|
| key   | 0      | rest | key   |
| value | 0      | rest | value |

For stores of your own: the conversion is your Python function. A family keeps its name.
"""

from __future__ import annotations

from formats.format import Format

RAW = Format(
    id="rocksdb.raw", summary="any RocksDB directory, bytes as they are, every column family", column_families=None
)
