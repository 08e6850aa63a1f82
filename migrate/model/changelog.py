"""What a migration does with the changelog topics of its stores, as its ledger holds it."""

from __future__ import annotations

from typing import Literal

from migrate.model.key_range import KeyRange
from migrate.model.values import Stored

Way = Literal["none", "new-topic", "append"]
"""How the changelog comes to fit the new store: it does already, the new store gets one of its own, or the converted
records are appended to it."""


class Changelog(Stored):
    """The changelog of one store partition: one partition of a topic, before and after."""

    store_partition: str
    topic: str
    new_topic: str
    """The same topic, unless the new store gets one of its own."""
    number: int
    """The partition of both topics."""


class Times(Stored):
    """The time of each key's last record in a changelog, up to where the store has applied it, in a sorted run."""

    store_partition: str
    folder: str
    """A RocksDB directory, relative to the migration's folder; a deleted key is not in it."""
    start: int
    """The first offset that there was; retention may have removed what was before."""
    end: int
    """The position of the store: the offset behind the last record read."""
    records: int
    """Changelog records read."""
    keys: int
    newest_ms: int | None
    """The newest time of a record; None: there is none."""
    digest: str
    """Of the run's keys and times, as of records."""
    seconds: float


class Produced(Stored):
    """Changelog records of one range of a new store partition, or of a tail, that the broker has confirmed."""

    store_partition: str
    database: str
    keys: KeyRange
    tail: int = 0
    """The number of the tail; 0: the records are the store's."""
    records: int
    tombstones: int
    size: int
    """Bytes of keys and values."""
    last_offset: int | None
    """The largest offset; None: the range has no record."""
    seconds: float


class TailFile(Stored):
    """The sorted run of one column family of a new RocksDB directory: what a tail puts and deletes there."""

    database: str
    family: str
    file: str
    """An SST file, relative to the migration's folder."""
    file_size: int
    records: int
    deletes: int
    digest: str


class Tail(Stored):
    """What the application wrote to a changelog after its snapshot, reduced to the last record of each key, converted.

    Tails of a store partition follow each other: each begins where the one before ends.
    """

    store_partition: str
    number: int
    """1 for the first one."""
    start: int
    """The offset of the first record."""
    end: int
    """The offset behind the last record that a consumer can read."""
    records: int
    """Changelog records read."""
    keys: int
    dropped: int
    """Records that the conversion dropped, or whose segment has expired."""
    files: tuple[TailFile, ...]
    seconds: float
