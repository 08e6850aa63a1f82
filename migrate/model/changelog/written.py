"""Where the records of a migration go, and what of them the broker has confirmed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from migrate.model.key_range import KeyRange
from migrate.model.store_partition import place_name
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


class Part(Stored):
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
    parts: tuple[Part, ...] = ()
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

    def is_same(self, name: str, topic_id: str) -> bool:
        """Whether a topic is the one of that name that was recorded; where none was, it is."""
        return self.ids.get(name, topic_id) == topic_id

    def of(self, store_partition: str) -> Changelog:
        """The changelog of a store partition."""
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
    def part(self) -> Part:
        """What was written."""
        return Part(store_partition=self.store_partition, database=self.database, keys=self.keys)
