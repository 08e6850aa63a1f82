"""What a migration does with the changelog topics of its stores, as its ledger holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from migrate.model.key_range import KeyRange
from migrate.model.plan import Plan
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
    """An SST file of entries of `kafka.latest`, relative to the migration's folder: by new key, with the new value."""
    records: int
    """Entries, deletions included."""
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
    dropped: int = 0
    """Keys without a new record, since the conversion drops it."""
    rejected: int = 0
    """Keys without a new record, since the last one cannot be converted."""
    rejects_file: str | None = None
    """Parquet, relative to the migration's folder: the rejected records, if they are written as dead letters."""
    expired: int = 0
    """Keys of segments that have expired."""
    newest_ms: int | None = None
    """The newest time of a key so far, by which segments expire; None: the store has no segments."""
    databases: tuple[str, ...]
    """The RocksDB directories of the new store partition, once the tail is laid over it."""
    files: tuple[TailFile, ...]
    revision: str = ""
    """The revision of the conversion that made it; empty: the first one."""
    seconds: float = 0.0


def with_tails(plan: Plan, tails: Mapping[str, Sequence[Tail]]) -> Plan:
    """The plan with the RocksDB directories that the new store partitions have once all tails are laid over them."""
    last = {partition: found[-1].databases for partition, found in tails.items() if found}
    return plan.with_databases(last) if last else plan
