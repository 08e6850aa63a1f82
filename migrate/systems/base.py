"""`System`: all that is particular to one stream processor, as a value of parts. Adding one is a module beside this one
and a line in `registry.py`; docs/formats.md says more.

Only its layout is required; the base class of each other part is its default. Data of the system that shares a
RocksDB directory with the records is declared by its formats: `Format.metadata_families`, `metadata_keys` and
`position_keys`; `Format.has_changelog` says whether a store has a changelog at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from formats import Format
from formats.partitioners import PARTITIONERS
from formats.unsupported import UnsupportedKind
from migrate.errors import RefusedError
from migrate.model.display import plural
from migrate.model.store_partition import ChangelogOffsets, Line, Segment, StorePartition
from migrate.stores.regular_files import Folder

_T = TypeVar("_T")
_ADDITIONAL_RETENTION_MS = 24 * 60 * 60 * 1000


class StoreLayout(ABC):
    """Where stores lie in `[source] path`. What `StorePartition.task` means is known to the layout alone."""

    @abstractmethod
    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """The store partitions of these stores, ordered by store and task.

        `is_segmented`: their RocksDB directories are segments. Raises RefusedError, which lists what is there instead.
        """

    @abstractmethod
    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """The lock files that a running application holds."""

    def number(self, partition: StorePartition) -> int | None:
        """The partition of its input, and of its changelog; None: it has none, as a global store."""
        return None

    def subtopology(self, partition: StorePartition) -> int | None:
        """The number by which the members of a consumer group name the part of the application; None: it has none."""
        return None

    def sibling(self, partition: StorePartition, number: int) -> str:
        """The task of the same store's partition of this number."""
        return str(number)

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path | None:
        """Where a store partition lies, relative to `path`; None: it cannot have another name, nor another system."""
        return None

    def task_numbers(self, task: str) -> tuple[int, int] | None:
        """(subtopology, partition) of a task that moves to another system; None: stores cannot move."""
        return None

    def task_name(self, numbers: tuple[int, int]) -> str | None:
        """The name of a task that moved here; None: stores cannot move."""
        return None

    def complete(self, folder: Path, path: Path, partitions: Sequence[StorePartition], known: Format) -> Iterable[Path]:
        """Finish an application's directory with these new store partitions, and all else as it was carried over.

        `folder`: where it is made; `path`: where it will be; `known`: the new stores' format, with the spec's serdes.
        Returns what the caller has to sync.
        """
        return ()


class StoredOffsets:
    """How far a store has its changelog: offsets in side files, or in the RocksDB directories themselves."""

    ahead: int = 0
    """How far an offset is ahead of the last record applied: 1 where it names the next record."""
    waits_for_record: bool = False
    """Its owner takes a marker of a transaction at the end of its changelog for a record: waits for it, or reads on."""
    counts_stops: bool = False
    """Each start and stop moves the offsets further, past the end of the changelog too."""

    def read(self, path: Path, partition: StorePartition) -> ChangelogOffsets:
        """Those of a store partition below `path`, in side files. Raises RefusedError where they are damaged."""
        return ChangelogOffsets()

    def within(self, application: str, partition: StorePartition, directories: Iterable[Path]) -> ChangelogOffsets:
        """Those in a store partition's RocksDB directories, given newest first; side files take precedence."""
        return ChangelogOffsets()

    def write(
        self, path: Path, partition: StorePartition, positions: ChangelogOffsets, *, application: str | None = None
    ) -> dict[Path, str | None]:
        """The text of each side file, relative to `path`, with the new `positions` of this store partition only.

        None: no such file. `application`: its name, where `path` has a temporary one.
        """
        return {}

    def entries(self, partition: StorePartition, positions: ChangelogOffsets) -> dict[str, dict[bytes, bytes]]:
        """The entries, by column family, that state `positions` in each RocksDB directory of a new store partition.

        Their keys are `position_keys` of its format; for a format without any this is not called. An offset below 0 is
        unknown.
        """
        return {}

    def problem(self, path: Path, partition: StorePartition, lines: Sequence[Line]) -> str | None:
        """Why the changelog offset of the state in `path` is unknown, so that nothing can be replayed onto it.

        `lines`: those that side files state, or else the RocksDB directories.
        """
        return None if lines else f"{partition.id} has no changelog offset"

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        """Warnings about the offsets as the application left them."""
        return []

    def next_record(self, offset: int) -> int:
        """The offset of the next record to apply, where the system states `offset`; 0 where it does not know one."""
        return max(offset + 1 - self.ahead, 0) if offset >= 0 else 0

    def side_files(self, partition: StorePartition) -> tuple[Path, ...]:
        """The files beside the RocksDB directories that belong to a store partition, relative to `path`."""
        return ()

    def inputs(self, path: Path, partition: StorePartition) -> tuple[Line, ...]:
        """The offsets that a task's side files state in topics that are no changelogs."""
        return ()

    def describe(self, key: bytes, value: bytes) -> str:
        """An entry of one of the system's own column families, as text for people."""
        return f"0x{key.hex()}: {plural(len(value), 'byte')}"


class ChangelogNames:
    """Names of changelogs: `<application>-<store>-changelog`, unless a system has others."""

    if_missing = (
        "a changelog to which the application gives a name of its own cannot be migrated: docs/processors.md has an "
        "adapter for such a store; leave [changelog] out only where the store has no changelog"
    )
    """Why a topic of this name may not exist, and what to do then: the end of a hint."""

    def application_id(self, path: Path) -> str | None:
        """The application's id by its directory's path; None: that does not tell it."""
        return path.name

    def topic(self, application: str, partition: StorePartition) -> str:
        """The topic of a store partition's changelog; what its records are: `Format.changelog_form`."""
        return f"{application}-{partition.store}-changelog"

    def is_own(self, topic: str, partition: StorePartition) -> bool:
        """Whether a topic is the changelog of this store, whatever the application's id."""
        return topic.endswith(self.topic("", partition))

    def renamed(self, topic: str, partition: StorePartition, store: str) -> str:
        """The topic of the new store of this name, where the old one has `topic`, which is its own."""
        new = partition.model_copy(update={"store": store})
        return topic.removesuffix(self.topic("", partition)) + self.topic("", new)

    def settings(self, retention_ms: int | None) -> dict[str, str]:
        """The settings with which the application would make the topic; `retention_ms`: of a windowed store.

        Source: org.apache.kafka.streams.processor.internals.WindowedChangelogTopicConfig, and its neighbour for other
        stores; windowstore.changelog.additional.retention.ms has its default.
        """
        kept = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
        if retention_ms is None:
            return kept
        return kept | {"cleanup.policy": "compact,delete", "retention.ms": str(retention_ms + _ADDITIONAL_RETENTION_MS)}

    def store(self, application: str, topic: str) -> str | None:
        """The store of which a topic of the application's is the changelog; None: it is another topic."""
        name = topic.removeprefix(f"{application}-")
        return name.removesuffix("-changelog") if name != topic and name.endswith("-changelog") else None

    def refusal(self, partition: StorePartition) -> str:
        """Why the changelog of this store partition cannot be written, behind its id; empty: it can."""
        return ""

    def repartition(self, topic: str, store: str) -> str | None:
        """The topic of waiting input that is named by the store of this changelog; None: there is none."""
        return None

    def is_read_once(self, application: str, topic: str) -> bool:
        """Whether a topic is one that only the application reads, beside its changelogs."""
        return False

    def application_ids(self, path: Path) -> dict[str, set[str]] | None:
        """The topics of changelogs that a state directory names, by the application's id with which each begins.

        None: the directory need not be named by the id.
        """
        return None

    def transactional_ids(self, path: Path, application: str, most: int) -> Iterator[str]:
        """The ids of the transactions that this host's instance may have left open, for up to `most` threads."""
        return iter(())


class SegmentNames:
    """The segments of windowed stores."""

    def start(self, store: str, name: str) -> int | None:
        """The start of a segment by its directory's name, in ms since the epoch; None: the name is not a segment's."""
        return None

    def size(self, retention_ms: int, segment_ms: int | None) -> int:
        """The time in ms that each segment covers; `segment_ms`: as the application configures it."""
        return segment_ms or retention_ms

    def oldest_kept(self, newest_ms: int, retention_ms: int, segment_ms: int | None) -> int:
        """The least time of a record that reads of a windowed store return, once it has written one of `newest_ms`."""
        return newest_ms - retention_ms + 1

    def of(self, path: Path, partition: StorePartition) -> list[Segment]:
        """The segments of a store partition below `path`, oldest first; none where it is one RocksDB directory.

        Raises RefusedError for a name that is not a segment's, and for two segments of one time.
        """
        found: dict[int, Segment] = {}
        for name in partition.databases if partition.has_segments else ():
            start_ms = self.start(partition.store, name)
            if start_ms is None:
                raise not_a_segment(path, partition, name)
            if start_ms in found:
                raise RefusedError(
                    f"{path / partition.path} has two segments of one time: {found[start_ms].name} and {name}",
                    hint="an older version of the application named one of them: start and stop it once, or restore "
                    "the store from its changelog",
                )
            found[start_ms] = Segment(name, start_ms)
        return [found[start_ms] for start_ms in sorted(found)]


class Archives:
    """Store partitions that are packed into files.

    Such a store is read from where `unpack` puts it, and `[target] path` publishes what `pack` makes of the new one.
    """

    def of(self, path: Path, partition: StorePartition) -> Path | None:
        """The file below `path` that a store partition is packed into; None: its RocksDB directories lie there."""
        return None

    def unpack(self, archive: Path, partition: StorePartition, folder: Path) -> None:
        """Make the RocksDB directories of a store partition in `folder`, which exists. Raises RefusedError."""
        raise NotImplementedError

    def pack(self, folder: Path, partition: StorePartition, application: Path, known: Format) -> bool:
        """Pack the new store partition in `folder` into files of a new application's directory, as its format says.

        False: it becomes a directory there.
        """
        return False


@dataclass(frozen=True, slots=True)
class StoreDirectory:
    """One RocksDB directory of an application."""

    task: str
    store: str
    path: Path
    is_segment: bool = False


class Discovery:
    """How an application's directory is recognised, and what is in it."""

    def recognises(self, folder: Folder) -> bool:
        """Whether a folder is an application's directory, by the names in it."""
        return False

    def holds_applications(self, folder: Folder) -> bool:
        """Whether a folder holds applications' directories, by the names in it."""
        return False

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        """Every RocksDB directory of an application, ordered by task, store and segment."""
        return iter(())

    def is_part(self, relative: Path) -> bool:
        """Whether a path below an application's directory belongs to the application."""
        return True

    def describe_part(self, relative: Path) -> str:
        """What lies at a path below an application's directory, as text for people."""
        return str(relative)

    def foreign_entries(self, path: Path) -> Iterator[str]:
        """A sentence for each entry that can keep the application from finding its stores."""
        return iter(())

    def kind_within(self, directory: Path) -> UnsupportedKind | None:
        """The kind of a store that cannot be converted, by what is in one of its RocksDB directories."""
        return None

    names_values: bool = False
    """Whether keys hold a name that the application has given to values of one kind."""

    def name_in(self, key: bytes) -> str | None:
        """That name; None: the key has none."""
        return None

    def owner_version(self, directory: Path) -> str | None:
        """The version of the system that wrote a RocksDB directory, as text; None: unknown."""
        return None

    def kind_of_timed_keys(self, families: Iterable[str]) -> UnsupportedKind | None:
        """The kind of a store of these column families whose keys begin with a time; None: any may."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """One stream processor, which is equal to itself alone."""

    name: str
    """The first part of its formats' ids."""
    title: str
    """The name that people know it by."""
    layout: StoreLayout
    offsets: StoredOffsets = field(default_factory=StoredOffsets)
    changelog: ChangelogNames = field(default_factory=ChangelogNames)
    segments: SegmentNames = field(default_factory=SegmentNames)
    archives: Archives = field(default_factory=Archives)
    discovery: Discovery = field(default_factory=Discovery)
    partitioners: tuple[str, ...] = tuple(PARTITIONERS)
    """Names of those, in `formats.partitioners`, that may have put keys where they are, the usual one first."""
    unsupported: tuple[UnsupportedKind, ...] = ()
    """Kinds of stores that cannot be converted."""

    @property
    def can_rename(self) -> bool:
        """Whether a store can have another name, and so its changelog."""
        return self.layout.place("0_0", "any", is_segmented=False) is not None

    @property
    def can_repartition(self) -> bool:
        """Whether a store can have another number of partitions: keys are spread by a known function, into tasks."""
        return bool(self.partitioners) and self.can_rename

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """Where a store partition of a new name lies, relative to `path`. Raises RefusedError where there is none."""
        place = self.layout.place(task, store, is_segmented=is_segmented)
        if place is None:
            raise RefusedError(
                f"stores of {self.title} cannot get another name",
                hint='leave [target] store out; with [changelog], way = "append" is the way of such a store',
            )
        return place

    def task_of(self, owner: System, task: str) -> str:
        """What a task of another system becomes. Raises RefusedError where stores cannot move."""
        return self._moved(self.layout.task_name(owner._moved(owner.layout.task_numbers(task))))

    def _moved(self, found: _T | None) -> _T:
        if found is None:
            raise RefusedError(
                f"stores of {self.title} cannot move to or from another system",
                hint="name a target format of the same system, or rocksdb.raw",
            )
        return found

    def unsupported_kind(self, store: str | None = None, families: Iterable[str] = ()) -> UnsupportedKind | None:
        """The kind of a store that cannot be converted, by its name or column families; None: no such kind is known."""
        there = set(families)
        return next((kind for kind in self.unsupported if kind.is_kind_of(store, there)), None)

    def likely_unsupported(
        self, store: str, families: Iterable[str] = (), *, keys_begin_with_time: bool = False
    ) -> UnsupportedKind | None:
        """The kind of a store that probably cannot be converted, by its name or a sample of its keys."""
        kind = next((kind for kind in self.unsupported if kind.may_be_kind_of(store)), None)
        return self.discovery.kind_of_timed_keys(families) if kind is None and keys_begin_with_time else kind


def not_a_segment(path: Path, partition: StorePartition, name: str) -> RefusedError:
    """The error for an entry among segments that is not one."""
    return RefusedError(
        f"{path / partition.path / name} is no segment of the store {partition.store!r}",
        hint="move it away: beside a foreign name the application finds none of the segments, or does not start",
    )
