"""Quix Streams: `<state_dir>/<consumer group>`.

    <group>/
      <store>/                        `default`, unless it is a window's, a join's or another one with a name
        <stream>/                     the topic, or the topics' names with `--` between them
          <partition>/                a RocksDB directory

Each RocksDB directory states its changelog offset itself (`formats.quix`). The changelog is
`changelog__<group>--<stream>--<store>`: the store of plain functions is always `default`, so it has no other. Nothing
is locked while an application runs, but for RocksDB's own LOCK in each of its directories.

Source: quixstreams.state.manager.StateStoreManager, quixstreams.state.rocksdb.store.RocksDBStore,
quixstreams.models.topics.manager.TopicManager, quixstreams.state.recovery.RecoveryPartition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from formats.quix import METADATA, OFFSET_KEY, TTL_INDEX, TTL_SYSTEM, TTL_UNFINISHED
from formats.unsupported import UnsupportedKind
from migrate.errors import RefusedError
from migrate.model.store_partition import StorePartition
from migrate.stores.regular_files import Folder
from migrate.stores.rocksdb.database import Database, open_read_only
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.stores.rocksdb.options_file import read_options
from migrate.systems.base import ChangelogNames, Discovery, StoreDirectory, System
from migrate.systems.flat import FlatStores, OffsetInside, entry

_LATER = "leave it as it is: this version converts the state of plain functions alone"
_UNSUPPORTED = (
    UnsupportedKind(
        name="a store of windows or sessions of Quix Streams",
        recognized_by="its column families: '__latest-timestamps__' and others of windows",
        reason="the windows are in its keys, and their expiry is kept beside them",
        instead=_LATER,
        families=(
            "__latest-timestamps__",
            "__expiration-index__",
            "__deletion-index__",
            "__value-deletion-index__",
        ),
    ),
    UnsupportedKind(
        name="a store of windows of Quix Streams that collect values",
        recognized_by="its column families '__values__' and '__global-counter__'",
        reason="its values are numbered by a counter that is kept beside them",
        instead=_LATER,
        families=("__values__", "__global-counter__"),
    ),
    UnsupportedKind(
        name="a store of a join of Quix Streams",
        recognized_by="its column family '__min-eligible-timestamps__'",
        reason="its keys hold the time of each message, and its values wait for their partners",
        instead=_LATER,
        families=("__min-eligible-timestamps__",),
    ),
)
HALF_STAMPED = UnsupportedKind(
    name="a store of Quix Streams whose TTL is switched on half-way",
    recognized_by="its own entries in '__metadata__' and column families named '__ttl_...__'",
    reason="some of its values begin with the time when they expire, and others do not yet",
    instead="start the old application, let it handle a message of each partition, and stop it: it finishes that",
)
"""Only the content of a RocksDB directory shows it."""


class _QuixDiscovery(Discovery):
    def recognises(self, folder: Folder) -> bool:
        """Whether some RocksDB directory below it, named by a number, has the column family that only Quix names so."""
        with suppress(OSError, RefusedError):
            return any(METADATA in read_options(each.path) for each in self.store_directories(folder.path))
        return False

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        stores = Folder(path)
        streams = sorted((stream, store) for store in stores.folders for stream in stores.inside(store).folders)
        for stream, store in streams:
            there = stores.inside(store).inside(stream)
            for number in sorted(filter(str.isdecimal, there.folders), key=int):
                if is_rocksdb(there.path / number):
                    yield StoreDirectory(f"{stream}/{number}", store, there.path / number)

    def is_part(self, relative: Path) -> bool:
        return len(relative.parts) <= 3

    def describe_part(self, relative: Path) -> str:
        store, *inside = relative.parts
        stream = f" of the stream {inside[0]}" if inside else ""
        return f"partition {inside[1]} of the store {store}{stream}" if inside[1:] else f"the store {store}{stream}"

    def kind_within(self, directory: Path) -> UnsupportedKind | None:
        with open_read_only(directory) as database:
            return HALF_STAMPED if _is_half_stamped(database) else None

    names_values = True

    def name_in(self, key: bytes) -> str | None:
        """The name in the state, which is JSON: what is behind the first `|` behind which there is JSON."""
        _, _, name = key.partition(b"|")
        while name:
            with suppress(ValueError):
                found = json.loads(name)
                return found if isinstance(found, str) else json.dumps(found)
            _, _, name = name.partition(b"|")
        return None


def _is_half_stamped(database: Database) -> bool:
    """Whether values have begun to get a time, and not all have one: what is left over of that does not count."""
    there = {*database.families}
    unfinished = any(family in there and database.sample(family, None, 1).keys for family in TTL_UNFINISHED)
    flags = (b"__ttl_backfill_in_progress__", b"__ttl_adopt_pending__")
    unfinished |= any(entry(database, METADATA, key) for key in flags)
    if not entry(database, METADATA, b"__ttl_enabled__"):
        return unfinished or not there.isdisjoint((TTL_INDEX, TTL_SYSTEM))
    return unfinished and not entry(database, TTL_SYSTEM, b"__ttl_migration_done__")


class _QuixStores(FlatStores):
    """A task is a stream and a partition's number."""

    discovery = _QuixDiscovery()
    path_hint = "let [source] path name the directory of the consumer group, <state_dir>/<consumer group>"
    lack = "holds no store: no RocksDB directory <store>/<stream>/<n>"

    def sibling(self, partition: StorePartition, number: int) -> str:
        return f"{Path(partition.task).parent}/{number}"


class _QuixNames(ChangelogNames):
    def topic(self, application: str, partition: StorePartition) -> str:
        """The stream of a topic of Quix Streams' own is named without the group, and with dots."""
        stream, own = str(Path(partition.task).parent), f"__{application}"
        if f"{own}--" in stream:
            stream = stream.replace(own, "").replace("--", ".")
        return f"changelog__{application}--{stream}--{partition.store}"

    def is_own(self, topic: str, partition: StorePartition) -> bool:
        return topic.startswith("changelog__") and topic.endswith(f"--{partition.store}")

    def store(self, application: str, topic: str) -> str | None:
        return topic.rpartition("--")[2] if topic.startswith(f"changelog__{application}--") else None

    def is_read_once(self, application: str, topic: str) -> bool:
        return topic.startswith(f"repartition__{application}--")

    def application_ids(self, path: Path) -> dict[str, set[str]]:
        return {path.name: set()}


class _QuixOffsets(OffsetInside):
    waits_for_record = True
    names = _QuixNames()
    family = METADATA
    key = OFFSET_KEY

    def decoded(self, value: bytes) -> int:
        return int.from_bytes(value, "big")

    def encoded(self, offset: int) -> bytes:
        return offset.to_bytes(8, "big")

    def describe(self, key: bytes, value: bytes) -> str:
        return f"changelog offset: {self.decoded(value)}" if key == OFFSET_KEY else super().describe(key, value)


QUIX = System(
    name="quix",
    title="Quix Streams",
    layout=_QuixStores(),
    offsets=_QuixOffsets(),
    changelog=_QuixOffsets.names,
    discovery=_QuixStores.discovery,
    partitioners=(),
    unsupported=_UNSUPPORTED,
)
