"""`System`: all that is particular to one stream processor. Adding one is a module beside this one and a line in
`registry.py`; docs/formats.md says more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from formats import Format
from formats.kafka_streams.unsupported import UnsupportedKind
from migrate.errors import RefusedError
from migrate.model.store_partition import ChangelogOffsets, Line, Segment, StorePartition
from migrate.stores.regular_files import Folder


@dataclass(frozen=True, slots=True)
class StoreDirectory:
    """One RocksDB directory of an application."""

    task: str
    store: str
    path: Path
    is_segment: bool = False


class System(ABC):
    """The directories of one stream processor, and what it keeps in them beside the records.

    What is not abstract answers for a system that has nothing of the kind. Entries of its own that share a RocksDB
    directory with records are its formats' affair: `Format.metadata_families` and `Format.metadata_keys`. A system that
    keeps RocksDB directories in archives would unpack them for `Source.directories`, which alone says where to read.
    """

    name: str
    """The first part of its formats' ids."""
    title: str
    """For people."""
    ahead: int = 0
    """By how much its changelog offsets are ahead of the last record applied: 1 where they name the next one."""
    unsupported: tuple[UnsupportedKind, ...] = ()
    """Stores that it keeps for itself, and that cannot be converted."""

    @abstractmethod
    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """The store partitions of these stores, ordered by store and task; `is_segmented`: their RocksDB directories
        are segments.

        Raises RefusedError, which lists what is there instead.
        """

    @abstractmethod
    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """The lock files that a running owner holds."""

    # Moving to another system

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """Where a store partition lies, relative to `path`. Raises RefusedError where no other system's can."""
        raise self._stays()

    def task_numbers(self, task: str) -> tuple[int, int]:
        """(subtopology, partition) of a task by its name. Raises RefusedError where it has none."""
        raise self._stays()

    def task_name(self, numbers: tuple[int, int]) -> str:
        """The task of (subtopology, partition). Raises RefusedError where tasks are not named so."""
        raise self._stays()

    def _stays(self) -> RefusedError:
        return RefusedError(
            f"stores of {self.title} cannot move to or from another system",
            hint="name a target format of the same system, or rocksdb.raw",
        )

    # Segments

    def segment_start(self, store: str, name: str) -> int | None:
        """The time, in milliseconds since the epoch, at which a segment begins, by its directory's name; None: it is
        no segment's."""
        return None

    def segment_size(self, retention_ms: int, segment_ms: int | None) -> int:
        """The time that each segment covers; `segment_ms`: as the owner is configured, where it is."""
        return segment_ms or retention_ms

    def segments(self, path: Path, partition: StorePartition) -> list[Segment]:
        """The segments of a store partition below `path`, the oldest first; none where it is one RocksDB directory.

        Raises RefusedError for names that are no segment's, and for two segments of one time.
        """
        found: dict[int, Segment] = {}
        for name in partition.databases if partition.has_segments else ():
            start_ms = self.segment_start(partition.store, name)
            if start_ms is None:
                raise no_segment(path, partition, name)
            if start_ms in found:
                raise RefusedError(
                    f"{path / partition.path} has two segments of one time: {found[start_ms].name} and {name}",
                    hint="an older version of the application named one of them: let it start and stop once, or "
                    "restore the store from its changelog",
                )
            found[start_ms] = Segment(name, start_ms)
        return [found[start_ms] for start_ms in sorted(found)]

    # Changelog offsets and the files that hold them

    def side_files(self, partition: StorePartition) -> tuple[Path, ...]:
        """The files beside the RocksDB directories that belong to a store partition, relative to `path`."""
        return ()

    def positions(self, path: Path, partition: StorePartition) -> ChangelogOffsets:
        """The changelog offsets of a store partition below `path`, as side files or a key of the store have them.

        Raises RefusedError for damaged ones.
        """
        return ChangelogOffsets()

    def with_positions(
        self, path: Path, partition: StorePartition, positions: ChangelogOffsets, *, application: str | None = None
    ) -> dict[Path, str | None]:
        """The text of each side file, relative to `path`, with `positions` of this store partition and all others as
        they are. None: no such file. `application`: its name, where `path` has another one for now."""
        return {}

    def positions_within(self, directories: Iterable[Path]) -> ChangelogOffsets:
        """What RocksDB directories themselves say of the changelog, the newest first, where side files come before."""
        return ChangelogOffsets()

    def unsure_position(self, path: Path, partition: StorePartition) -> str | None:
        """Why the changelog offset of the state in `path` is not known, so that nothing can be replayed onto it."""
        return None if self.positions(path, partition).lines else f"{partition.id} has no changelog offset"

    def metadata_in_words(self, key: bytes, value: bytes) -> str:
        """An entry of one of the system's own column families, for people."""
        return f"0x{key.hex()}: {len(value)} bytes"

    def inner_positions(self, entries: Iterable[tuple[bytes, bytes]]) -> tuple[Line, ...]:
        """Changelog offsets among such entries."""
        return ()

    # What to know before a migration

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        """What an operator should know about the state as its owner left it."""
        return []

    def unsupported_kind(self, store: str | None = None, families: Iterable[str] = ()) -> UnsupportedKind | None:
        """What a store is by its name or its column families; None: nothing says that it cannot be converted."""
        there = set(families)
        return next((kind for kind in self.unsupported if kind.is_kind_of(store, there)), None)

    def likely_unsupported(
        self, store: str, families: Iterable[str] = (), *, keys_begin_with_time: bool = False
    ) -> UnsupportedKind | None:
        """What a store may be by a name that others may have too, or by a sample of its keys."""
        return next((kind for kind in self.unsupported if kind.may_be_kind_of(store)), None)

    def format_warnings(self, source: Format, target: Format) -> list[str]:
        """What an operator should know about a new store of this system, by its format."""
        return []

    def owner_version(self, directory: Path) -> str | None:
        """The version that wrote a RocksDB directory, in words, where it can be known."""
        return None

    # Finding applications

    def recognises(self, folder: Folder) -> bool:
        """Whether it is an application's directory, by the names in it."""
        return False

    def holds_applications(self, folder: Folder) -> bool:
        """Whether it is a directory for applications, by the names in it."""
        return False

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        """Every RocksDB directory of an application, ordered by task, store and segment."""
        return iter(())

    def is_part(self, relative: Path) -> bool:
        """Whether a path below an application's directory is its own."""
        return True

    def part_in_words(self, relative: Path) -> str:
        """What lies at a path below an application's directory."""
        return str(relative)

    def application_lock(self, path: Path) -> Path | None:
        """The file that a running application locks; None: the LOCK of each RocksDB directory is all there is."""
        return None

    def foreign_entries(self, path: Path) -> Iterator[str]:
        """What can keep the owner from finding its own stores, each in a sentence."""
        return iter(())


def no_segment(path: Path, partition: StorePartition, name: str) -> RefusedError:
    """An entry among segments that is none."""
    return RefusedError(
        f"{path / partition.path / name} is no segment of the store {partition.store!r}",
        hint="move it away: beside a foreign name the application finds none of the segments, or does not start",
    )
