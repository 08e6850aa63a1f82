"""The plan: the chunks of a migration, and what they were planned for. Immutable, and stored before any work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import gcd
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from formats.partitioners import PARTITIONERS
from migrate.model.key_range import KeyRange, tiling_flaw
from migrate.model.store_partition import StorePartition, place_name
from migrate.model.values import Stored

PLAN_SCHEMA: Final = 1


class Chunk(Stored):
    """A key range of one RocksDB directory of a store partition, over all its data column families (I3).

    The keys are old ones; in a sorted plan, new ones.
    """

    store_partition: str
    database: str
    number: int
    keys: KeyRange
    estimated_bytes: int

    def __str__(self) -> str:
        return f"{place_name(self.store_partition, self.database)} chunk {self.number} {self.keys}"


class FamilyMapping(Stored):
    """The column family `source` of the old store, and the family `target` of the new one that its records go to."""

    source: str
    target: str
    compression: str = "kNoCompression"
    """Compression of the new SST files, as RocksDB spells it."""
    older: tuple[str, ...] = ()
    """Pre-upgrade families of a store in upgrade mode: their records count where `source` lacks the key."""


class TimeSlice(Stored):
    """A half-open range of times, in milliseconds since the epoch."""

    start_ms: int
    end_ms: int

    def __str__(self) -> str:
        return f"[{self.start_ms}, {self.end_ms})"


class Input(Stored):
    """A RocksDB directory of the source that a new one is made from."""

    database: str
    times: TimeSlice | None = None
    """The time range of all its records, where it is a segment of known length; None: times are not checked."""
    partition: str = ""
    """The old store partition that has it, where the number of partitions changes; empty: that of the plan."""
    number: int | None = None
    """The partition number of that one."""

    @property
    def place(self) -> str:
        """Its name among the directories that the new store partition is made from."""
        return place_name(self.partition, self.database) if self.partition else self.database


class Share(Stored):
    """The old records that belong to one new store partition, where the number of partitions changes."""

    partitioner: str
    """"murmur2", "crc32" or the user's "module:function"."""
    old: int
    """How many partitions there were."""
    new: int
    """How many there will be."""
    number: int
    """That of the new store partition."""
    is_rekeyed: bool = False
    """Whether the partitioner is asked with the new keys: any old partition may have some of any new one then."""

    @property
    def groups(self) -> int:
        """An old partition shares keys with the new ones that leave the same rest, divided by this."""
        return 1 if ":" in self.partitioner or self.is_rekeyed else gcd(self.old, self.new)

    @property
    def siblings(self) -> range:
        """The new partitions that are made from the same old ones."""
        return range(self.number % self.groups, self.new, self.groups)

    @property
    def sources(self) -> range:
        """The old partitions that it may have records of."""
        return range(self.number % self.groups, self.old, self.groups)


class DatabasePlan(Stored):
    """One RocksDB directory of the new store, and what it is made from."""

    store_partition: str
    database: str
    """The directory, relative to the new store partition."""
    mappings: tuple[FamilyMapping, ...]
    carried_families: tuple[str, ...]
    """The owning system's own families, copied unchanged (I7)."""
    data_bytes: int
    """Bytes of keys and values before compression, estimated from the properties of the SST files."""
    inputs: tuple[Input, ...] = ()
    """RocksDB directories of the source, the newest first; empty: the one of the same name."""
    times: TimeSlice | None = None
    """The times of the inputs' records that belong in this directory; None: all."""
    carried_from: tuple[str, ...] = ()
    """RocksDB directories of the source whose own families are carried, the newest first; empty: the inputs."""
    is_kept: bool = True
    """False: its records are older than the new store's retention; they are counted, and not written."""
    is_of_tails: bool = Field(default=False, exclude=True)
    """Whether all its records are of tails: the source has no RocksDB directory for it."""
    share: Share | None = None
    """Which of the inputs' records belong in it; None: all."""

    @property
    def sources(self) -> tuple[Input, ...]:
        return () if self.is_of_tails else self.inputs or (Input(database=self.database),)

    @property
    def carriers(self) -> tuple[str, ...]:
        return self.carried_from or tuple(source.place for source in self.sources)


class KeyPlace(Stored):
    """Which keys belong to a store partition, where the old ones have shown it."""

    store_partition: str
    partitioner: str
    """"murmur2" or "crc32"."""
    partitions: int
    """Of the changelog."""
    number: int
    """The one of this store partition."""


def elsewhere(place: KeyPlace | None) -> Callable[[bytes], int | None] | None:
    """What tells the partition of a key that belongs to another one than this place; None: nobody can tell."""
    if place is None:
        return None
    of = PARTITIONERS[place.partitioner]

    def partition_of(key: bytes) -> int | None:
        there = of(key, place.partitions) if key else place.number  # librdkafka puts an empty key anywhere
        return None if there == place.number else there

    return partition_of


def store_of(partition_id: str) -> str:
    """The old store's name in the id of a store partition whose number of partitions changes."""
    return partition_id.rpartition("/")[2]


class Plan(Stored):
    """One revision of the plan: a migration may be cut into other chunks later."""

    schema_version: Literal[1] = PLAN_SCHEMA
    migration_id: str
    revision: int
    identity: dict[str, str]
    """The digests that make up the migration_id, by name, so that a message can name what changed."""
    chunk_size: int
    program: str | None
    """A description of the byte program; None: the reference path is used."""
    program_fingerprint: str | None
    warnings: tuple[str, ...]
    store_partitions: tuple[StorePartition, ...]
    databases: tuple[DatabasePlan, ...]
    chunks: tuple[Chunk, ...]
    new_partitions: tuple[StorePartition, ...] = ()
    """The store partitions of the new store, with the ids of the old ones; empty: their paths do not change."""
    key_places: tuple[KeyPlace, ...] = ()
    """Of the store partitions whose new keys are checked; no other key is."""
    old_partitions: tuple[StorePartition, ...] = ()
    """The old store partitions, where their number changes: `store_partitions` are the new ones then. An id is the task
    and the old store's name."""
    is_sorted: bool = False
    """Whether the keys of chunks are new ones: records get there by sorting, as the conversion keeps no order."""

    @property
    def olds(self) -> tuple[StorePartition, ...]:
        """The old store partitions."""
        return self.old_partitions or self.store_partitions

    def olds_of(self, partition_id: str) -> tuple[StorePartition, ...]:
        """The old store partitions of the store that a new one belongs to."""
        return tuple(each for each in self.old_partitions if each.store == store_of(partition_id))

    def key_place(self, partition_id: str) -> KeyPlace | None:
        """Where the keys of a store partition belong; None: they are not checked."""
        return self._key_places.get(partition_id)

    def new_partition(self, partition: StorePartition) -> StorePartition:
        return self._new_partitions.get(partition.id, partition)

    def with_databases(self, names: Mapping[str, tuple[str, ...]]) -> Plan:
        """The plan with these RocksDB directories of new store partitions, by id; the others as they are."""
        news = (self.new_partition(each) for each in self.store_partitions)
        changed = tuple(each.model_copy(update={"databases": names.get(each.id, each.databases)}) for each in news)
        plan = self.model_copy(update={"new_partitions": changed})
        plan.__dict__.pop("_new_partitions", None)  # the copy has what was computed of the old ones
        return plan

    def partition(self, partition_id: str) -> StorePartition:
        return self._partitions[partition_id]

    def database(self, partition: str, database: str) -> DatabasePlan:
        return self._databases[partition, database]

    @cached_property
    def _key_places(self) -> dict[str, KeyPlace]:
        return {each.store_partition: each for each in self.key_places}

    @cached_property
    def _new_partitions(self) -> dict[str, StorePartition]:
        return {each.id: each for each in self.new_partitions}

    @cached_property
    def _partitions(self) -> dict[str, StorePartition]:
        return {each.id: each for each in self.store_partitions}

    @cached_property
    def _databases(self) -> dict[tuple[str, str], DatabasePlan]:
        return {(each.store_partition, each.database): each for each in self.databases}


def coverage_flaw(plan: Plan) -> str | None:
    """A message on the first RocksDB directory whose chunks do not cover every possible key (I3); None: all do."""
    ranges: dict[tuple[str, str], list[KeyRange]] = {
        (each.store_partition, each.database): [] for each in plan.databases
    }
    for chunk in plan.chunks:
        if (chunk.store_partition, chunk.database) not in ranges:
            return f"{chunk} is of a RocksDB directory that the plan does not have"
        ranges[chunk.store_partition, chunk.database].append(chunk.keys)
    for place, keys in ranges.items():
        if (flaw := tiling_flaw(keys)) is not None:
            return f"the chunks of {place_name(*place)} {flaw}"
    return None


def newest_plan(home: Path) -> Path | None:
    """The file of the newest plan revision."""
    return max(home.glob("plan-*.json"), default=None)
