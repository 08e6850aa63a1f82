"""The record of an old store that is made from its changelog: which topic partitions, up to where, and what came of it.

It lies in the migration's folder, as `restored.json`.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from migrate.model.store_partition import StorePartition
from migrate.model.values import Stored

RESTORED_SCHEMA: Final = 1


class RestoredStore(Stored):
    """What one topic partition holds, as a store."""

    store_partition: str
    folder: str
    """Where a task has made it, relative to the migration's folder."""
    databases: tuple[str, ...]
    """Its RocksDB directories, the oldest first."""
    records: int
    """Committed records of the topic partition."""
    keys: int
    """Records of the store."""
    tombstones: int
    """Records that delete a key, and are left out: a versioned store keeps them, and has none."""
    expired: int
    """Records that are older than the store's retention."""
    last_offset: int | None
    """Of the last committed record; None: there is none."""
    seconds: float


class Pinned(Stored):
    """A topic partition, and the range of its offsets that is read."""

    partition: StorePartition
    topic: str
    number: int
    start: int
    end: int
    """The last stable offset when the reading began."""
    store: RestoredStore | None = None
    """None: not made yet."""


class RestoredRecord(Stored):
    """All topic partitions of a source that is made from its changelogs."""

    schema_version: Literal[1] = RESTORED_SCHEMA
    topics: dict[str, str]
    """The id of each topic: one that is made again under its name has another."""
    pinned: tuple[Pinned, ...]

    @property
    def left(self) -> tuple[Pinned, ...]:
        """Those whose store is not made yet."""
        return tuple(each for each in self.pinned if each.store is None)

    def with_store(self, store: RestoredStore) -> RestoredRecord:
        """The record once this store is in its place."""
        pinned = (
            each.model_copy(update={"store": store}) if each.partition.id == store.store_partition else each
            for each in self.pinned
        )
        return self.model_copy(update={"pinned": tuple(pinned)})


class TableFile(Stored):
    """A file of rows."""

    path: str
    """Relative to the table."""
    size: int
    groups: tuple[int, ...] = ()
    """Bytes of its row groups, before compression."""
    rows: int = 0
    constants: dict[str, str | None] = Field(default_factory=dict)
    """Its values of the table's partition columns, as text."""


class ImportRecord(Stored):
    """A store that is made from the rows of a table: it lies in the migration's folder, as `imported.json`."""

    schema_version: Literal[1] = RESTORED_SCHEMA
    table: str
    """The directory."""
    table_id: str
    """The table's own: one that is made again in its place has another."""
    version: int
    files: tuple[TableFile, ...]
    columns: dict[str, str]
    """The types of the table's columns."""
    segments: tuple[str, ...] = ()
    """Of a windowed store, the RocksDB directories that its rows belong in."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)

    @property
    def row_bytes(self) -> int:
        """Bytes of the row groups, before compression."""
        return sum(sum(file.groups) for file in self.files)
