"""The tables of Faust, all in the column family `default`.

A table has one RocksDB directory for each partition, `tables/<table>-<partition>.db`.

| part  | offset | size | field                                                               |
|-------|--------|------|---------------------------------------------------------------------|
| key   | 0      | rest | key, as the table's key serializer wrote it: JSON unless it is raw  |
| value | 0      | rest | value, as the table's value serializer wrote it: JSON or raw        |

Among the records is one of Faust's own:

| key                  | value                                                                      |
|----------------------|----------------------------------------------------------------------------|
| `__faust\\0offset__` | decimal digits: the offset of the last changelog record that is in here    |

The changelog holds the same keys and values, without headers; a null value deletes the key. A windowed table has keys
of another form, JSON of `[key,[start,end]]` in seconds, and a table with a `ttl` has four bytes behind each value.

Source: faust.stores.rocksdb.Store, faust.stores.base.SerializedStore, faust.tables.base.Collection,
faust.serializers.registry.Registry.
"""

from __future__ import annotations

from formats.format import Format

OFFSET_KEY = b"__faust\0offset__"
TABLE = Format(
    id="faust.table",
    summary="Faust table: key -> value",
    column_families=("default",),
    metadata_keys=(OFFSET_KEY,),
    position_keys=(OFFSET_KEY,),
    has_changelog=True,
    keeps_keys_in_tasks=True,
)
