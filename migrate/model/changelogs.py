"""Changelogs: where records go, what the broker confirmed, what is taken from old ones (key times, tails, stores)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from migrate.model.comparison import Reread
from migrate.model.key_range import KeyRange
from migrate.model.ledger_row import Row, Step, read_detail
from migrate.model.plan import Plan
from migrate.model.preview import RejectReason, Shown
from migrate.model.receipt import attempt_of
from migrate.model.store_partition import place_name, segment_name
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
    """The partition of both topics; of the new one alone where their numbers of partitions differ."""
    claimed_by: int | None = None
    """The partition of the old topic whose claim is for this one, too; None: that of the same number."""

    @property
    def is_split(self) -> bool:
        """Whether the new topic has another number of partitions."""
        return self.claimed_by is not None


class TopicPart(Stored):
    """What one task writes to a changelog."""

    store_partition: str
    database: str
    """The RocksDB directory of the new store; empty: all of them together, if no other part is of that store partition;
    and the tombstones of keys that the old store alone has, where both have one topic."""
    keys: KeyRange = KeyRange()

    def __str__(self) -> str:
        return f"changelog of {place_name(self.store_partition, self.database or 'all')} {self.keys}"


class Topics(Stored):
    """Where the records of a migration go: `detail` of a CHANGELOG row.

    A row without `ids` is the intent, committed before a topic is made. What was written before the last intent does
    not count: it went to a topic that is no more, or before `starts`. A second row with `ids` only adds to `claimed`.
    """

    way: Way
    application: str
    """The application's id."""
    changelogs: tuple[Changelog, ...]
    ids: dict[str, str] = Field(default_factory=dict)
    """The ids of the old and the new topics, by name; empty: the new ones may not exist yet."""
    starts: dict[str, int] = Field(default_factory=dict)
    """By store partition, the offset from which on the records in the new topic are ours."""
    parts: tuple[TopicPart, ...] = ()
    """What is to be written. They stay the same from run to run: so a later attempt at a part fences the one before."""
    owner: str = ""
    """Whose claims at the broker are this migration's: another one for each folder of a migration."""
    digest: str = ""
    """Of what all hosts have in common that migrate parts of the application."""
    claimed: tuple[str, ...] = ()
    """The store partitions that this host writes; other hosts write the rest, and have copies of those stores."""

    @property
    def names(self) -> dict[str, str]:
        """The old topic's name by each new one's."""
        return {each.new_topic: each.topic for each in self.changelogs}

    @property
    def is_first(self) -> bool:
        """Whether the new topics have no old ones: the store is made from rows."""
        return self.way == "new-topic" and all(new == old for new, old in self.names.items())

    def partitions_of(self, new_topic: str, old: int) -> int:
        """How many partitions a new topic has, where the old one has `old`."""
        return sum(each.is_split and each.new_topic == new_topic for each in self.changelogs) or old

    def is_same(self, name: str, topic_id: str) -> bool:
        """Whether a topic is the one of that name that was recorded; where none was, it is."""
        return self.ids.get(name, topic_id) == topic_id

    def of(self, store_partition: str) -> Changelog:
        return next(each for each in self.changelogs if each.store_partition == store_partition)


class Produced(Stored):
    """Changelog records of one part, or of tails, that the broker has confirmed."""

    store_partition: str
    database: str
    keys: KeyRange = KeyRange()
    tail: int = 0
    """The number of the last one of the tails; 0: the records are the store's."""
    content: str = ""
    """A digest of what was to be written: another one means that the new store has changed since."""
    records: int
    tombstones: int
    size: int
    """Bytes of keys and values."""
    last_offset: int | None
    """The largest offset; None: the part has no record."""
    seconds: float
    host: str = ""
    """The host that has written it from another copy of the store, and whose last offset this is; empty: this one."""

    @property
    def part(self) -> TopicPart:
        return TopicPart(store_partition=self.store_partition, database=self.database, keys=self.keys)


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
    """The RocksDB directories of the new store partition, once the tail is applied to it."""
    files: tuple[TailFile, ...]
    revision: str = ""
    """The revision of the conversion that made it; empty: the first one."""
    seconds: float = 0.0

    @property
    def records_out(self) -> int:
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
    """The plan with the RocksDB directories that the new store partitions have once all tails are applied to them."""
    last = {partition: found[-1].databases for partition, found in tails.items() if found}
    return plan.with_databases(last) if last else plan


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a new store partition before a tail, and the rules by which its owner makes and drops them."""

    store: str
    size_ms: int
    retention_ms: int
    newest_ms: int | None
    """The newest time of a key so far; None: there is no key."""
    starts: dict[str, int]
    """By the RocksDB directory's name."""

    def reaching(self, newest_ms: int | None) -> Segments:
        """The segments that are left once the newest time of a key is this one."""
        newest = max((each for each in (self.newest_ms, newest_ms) if each is not None), default=None)
        oldest = _oldest(newest, self.retention_ms, self.size_ms)
        left = {name: start for name, start in self.starts.items() if start >= oldest}
        return replace(self, newest_ms=newest, starts=left)

    def having(self, names: Iterable[str]) -> Segments:
        """These segments, and those of these names."""
        prefix = len(segment_name(self.store, 0)) - 1
        return replace(self, starts=self.starts | {name: int(name[prefix:]) for name in names})

    @property
    def oldest_first(self) -> list[str]:
        """The names of the RocksDB directories."""
        return sorted(self.starts, key=self.starts.__getitem__)

    def masks(self, times_ms: Sequence[int]) -> tuple[dict[str, list[bool]], int]:
        """(by segment, which of the keys of these times are in it; how many keys have expired)."""
        names = [self.of(each) for each in times_ms]
        found = dict.fromkeys(filter(None, names))
        return {each: [name == each for name in names] for each in found}, names.count(None)

    def of(self, time_ms: int) -> str | None:
        """The segment of a key; None: it has expired."""
        start = time_ms // self.size_ms * self.size_ms
        if start < _oldest(self.newest_ms, self.retention_ms, self.size_ms):
            return None
        return segment_name(self.store, start)


def _oldest(newest_ms: int | None, retention_ms: int, size_ms: int) -> int:
    """The start of the oldest segment that its owner keeps."""
    return 0 if newest_ms is None else max(newest_ms - retention_ms, 0) // size_ms * size_ms


class Rebuilt(Stored):
    """What was done of a store partition that no host has: `detail` of a REBUILT row, of which the last one counts."""

    changelog: Changelog
    tail: Tail
    """What its old changelog holds from beginning to end, converted."""
    produced: Produced | None = None
    """That the broker has confirmed it in the new topic; None: not yet."""
    reread: Reread | None = None
    """That it was read back; None: not yet."""

    @property
    def is_done(self) -> bool:
        """Whether the new topic holds it, as was read back."""
        return self.produced is not None and self.reread is not None and self.reread.ok


def rebuilt_in(rows: Iterable[Row]) -> dict[str, Rebuilt]:
    """By store partition that no host has, what was made of its changelog."""
    found = (
        read_detail(row, Rebuilt, "a store partition that was rebuilt") for row in rows if row.step is Step.REBUILT
    )
    return {each.changelog.store_partition: each for each in found}


def with_rebuilt(topics: Topics, rebuilt: tuple[Changelog, ...]) -> Topics:
    """The topics with the changelogs of these store partitions alone, none of which is claimed yet."""
    starts = {each.store_partition: 0 for each in rebuilt}
    return topics.model_copy(update={"changelogs": rebuilt, "starts": starts, "claimed": (), "parts": ()})
