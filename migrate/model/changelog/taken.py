"""What is taken from old changelogs: the times of keys, and tails, which are laid over the new stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from migrate.model.ledger_row import Row, Step, read_detail
from migrate.model.plan import Plan
from migrate.model.preview import RejectReason, Shown
from migrate.model.receipt import attempt_of
from migrate.model.values import Stored


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
    """Keys without a new record, since the function drops it."""
    dropped_keys: tuple[Shown, ...] = ()
    """The first of those."""
    not_carried: int = 0
    """Keys without a new record, since the new format does not carry it."""
    rejected: int = 0
    """Keys without a new record, since the last one cannot be converted."""
    rejects_file: str | None = None
    """Parquet, relative to the migration's folder: the rejected records, if they are written as dead letters."""
    rejects_digest: str | None = None
    """SHA-256 of that file."""
    reasons: tuple[RejectReason, ...] = ()
    """The most frequent reasons of the rejected records."""
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

    @property
    def records_out(self) -> int:
        """Records of the new store."""
        return sum(file.records - file.deletes for file in self.files)

    @property
    def records_in(self) -> int:
        """The last records of keys that were not deleted."""
        return self.records_out + self.dropped + self.not_carried + self.rejected

    @property
    def attempt(self) -> str:
        """The attempt that has made it, by the name of the file with its rejects."""
        return "" if self.rejects_file is None else attempt_of(Path(self.rejects_file).name)


def recorded_times(rows: Iterable[Row]) -> dict[str, Times]:
    """The run that counts, by store partition."""
    found = (read_detail(row, Times, "the times of a changelog") for row in rows if row.step is Step.TIMES)
    return {each.store_partition: each for each in found}


def tails_in_order(committed: Iterable[Tail]) -> dict[str, list[Tail]]:
    """By store partition. A later one replaces those that begin where it does, or behind that: they were damaged."""
    found: dict[str, list[Tail]] = {}
    for tail in committed:
        before = [each for each in found.get(tail.store_partition, ()) if each.start < tail.start]
        found[tail.store_partition] = [*before, tail]
    return found


def with_tails(plan: Plan, tails: Mapping[str, Sequence[Tail]]) -> Plan:
    """The plan with the RocksDB directories that the new store partitions have once all tails are laid over them."""
    last = {partition: found[-1].databases for partition, found in tails.items() if found}
    return plan.with_databases(last) if last else plan
