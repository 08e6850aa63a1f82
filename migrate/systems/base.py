"""`System`: all that is particular to one stream processor. Adding one is a module beside this one and a line in
`registry.py`; docs/formats.md says more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from formats import Format
from formats.unsupported import UnsupportedKind
from migrate.errors import RefusedError
from migrate.model.display import plural
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

    Each method that is not abstract has a default for systems that do not need it. Data of the system that shares a
    RocksDB directory with the records is declared by its formats: `Format.metadata_families`, `Format.metadata_keys`.
    """

    name: str
    """The first part of its formats' ids."""
    title: str
    """The name that people know it by."""
    ahead: int = 0
    """How far its changelog offsets are ahead of the last record applied: 1 where they name the next record."""
    counts_stops: bool = False
    """Each start and stop moves its changelog offsets further, past the end of the changelog too."""
    unsupported: tuple[UnsupportedKind, ...] = ()
    """Kinds of stores that cannot be converted."""

    @abstractmethod
    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """The store partitions of these stores, ordered by store and task.

        `is_segmented`: their RocksDB directories are segments. Raises RefusedError, which lists what is there instead.
        """

    @abstractmethod
    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """The lock files that a running application holds."""

    # Stores in archives

    def archive(self, path: Path, partition: StorePartition) -> Path | None:
        """The file below `path` that a store partition is packed into; None: its RocksDB directories lie there.

        Such a store is read from where `unpack` puts it, and `[target] path` publishes directories in its place.
        """
        return None

    def unpack(self, archive: Path, partition: StorePartition, folder: Path) -> None:
        """Make the RocksDB directories of a store partition in `folder`, which exists. Raises RefusedError."""
        raise NotImplementedError

    # Moving to another system

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """Where a store partition lies, relative to `path`. Raises RefusedError where stores cannot move."""
        raise self._cannot_move()

    def task_numbers(self, task: str) -> tuple[int, int]:
        """(subtopology, partition) of a task by its name. Raises RefusedError where it has none."""
        raise self._cannot_move()

    def task_name(self, numbers: tuple[int, int]) -> str:
        """The name of the task (subtopology, partition). Raises RefusedError where tasks have no such numbers."""
        raise self._cannot_move()

    def _cannot_move(self) -> RefusedError:
        return RefusedError(
            f"stores of {self.title} cannot move to or from another system",
            hint="name a target format of the same system, or rocksdb.raw",
        )

    # Segments

    def segment_start(self, store: str, name: str) -> int | None:
        """The start of a segment by its directory's name, in ms since the epoch; None: the name is not a segment's."""
        return None

    def segment_size(self, retention_ms: int, segment_ms: int | None) -> int:
        """The time in ms that each segment covers; `segment_ms`: as the application configures it."""
        return segment_ms or retention_ms

    def oldest_kept(self, newest_ms: int, retention_ms: int, segment_ms: int | None) -> int:
        """The least time of a record that reads of a windowed store return, once it has written one of `newest_ms`."""
        return newest_ms - retention_ms + 1

    def segments(self, path: Path, partition: StorePartition) -> list[Segment]:
        """The segments of a store partition below `path`, oldest first; none where it is one RocksDB directory.

        Raises RefusedError for a name that is not a segment's, and for two segments of one time.
        """
        found: dict[int, Segment] = {}
        for name in partition.databases if partition.has_segments else ():
            start_ms = self.segment_start(partition.store, name)
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

    # Changelog offsets and the files that hold them

    def changelog_topic(self, application: str, task: str, store: str) -> str:
        """The topic of a store partition's changelog as the system names it; its records: `Format.changelog_form`."""
        return f"{application}-{store}-changelog"

    def application_ids(self, path: Path) -> dict[str, set[str]] | None:
        """The topics of changelogs that a state directory names, by the application's id with which each begins.

        None: the directory need not be named by the id.
        """
        return None

    def next_record(self, offset: int) -> int:
        """The offset of the next record to apply, where the system states `offset`; 0 where it does not know one."""
        return max(offset + 1 - self.ahead, 0) if offset >= 0 else 0

    def transactional_ids(self, path: Path, application: str, most: int) -> Iterator[str]:
        """The ids of the transactions that this host's instance may have left open, for up to `most` threads."""
        return iter(())

    def side_files(self, partition: StorePartition) -> tuple[Path, ...]:
        """The files beside the RocksDB directories that belong to a store partition, relative to `path`."""
        return ()

    def positions(self, path: Path, partition: StorePartition) -> ChangelogOffsets:
        """The changelog offsets of a store partition below `path`, from side files or a key of the store.

        Raises RefusedError where they are damaged.
        """
        return ChangelogOffsets()

    def with_positions(
        self, path: Path, partition: StorePartition, positions: ChangelogOffsets, *, application: str | None = None
    ) -> dict[Path, str | None]:
        """The text of each side file, relative to `path`, with the new `positions` of this store partition only.

        None: no such file. `application`: its name, where `path` has a temporary one.
        """
        return {}

    def position_entries(self, partition: StorePartition, positions: ChangelogOffsets) -> dict[str, dict[bytes, bytes]]:
        """The entries, by column family, that state `positions` in each RocksDB directory of a new store partition.

        Their keys are `position_keys` of its format; a format without any has this method not called.
        """
        return {}

    def positions_within(self, directories: Iterable[Path]) -> ChangelogOffsets:
        """The changelog offsets in column families of RocksDB directories, newest first; side files take precedence."""
        return ChangelogOffsets()

    def input_lines(self, path: Path, partition: StorePartition) -> tuple[Line, ...]:
        """The changelog offsets that a task's side files state in topics that are no changelogs."""
        return ()

    def position_problem(self, path: Path, partition: StorePartition) -> str | None:
        """Why the changelog offset of the state in `path` is unknown, so that nothing can be replayed onto it."""
        return None if self.positions(path, partition).lines else f"{partition.id} has no changelog offset"

    def describe_metadata(self, key: bytes, value: bytes) -> str:
        """An entry of one of the system's own column families, as text for people."""
        return f"0x{key.hex()}: {plural(len(value), 'byte')}"

    def positions_among(self, entries: Iterable[tuple[bytes, bytes]]) -> tuple[Line, ...]:
        """The changelog offsets among entries of the system's own column families."""
        return ()

    # What to know before a migration

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        """Warnings about the state as the application left it."""
        return []

    def unsupported_kind(self, store: str | None = None, families: Iterable[str] = ()) -> UnsupportedKind | None:
        """The kind of a store that cannot be converted, by its name or column families; None: no such kind is known."""
        there = set(families)
        return next((kind for kind in self.unsupported if kind.is_kind_of(store, there)), None)

    def likely_unsupported(
        self, store: str, families: Iterable[str] = (), *, keys_begin_with_time: bool = False
    ) -> UnsupportedKind | None:
        """The kind of a store that probably cannot be converted, by its name or a sample of its keys."""
        return next((kind for kind in self.unsupported if kind.may_be_kind_of(store)), None)

    def format_warnings(self, source: Format, target: Format) -> list[str]:
        """Warnings about a new store of this system, by its format."""
        return []

    def owner_version(self, directory: Path) -> str | None:
        """The version of the system that wrote a RocksDB directory, as text; None: unknown."""
        return None

    # Finding applications

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


def not_a_segment(path: Path, partition: StorePartition, name: str) -> RefusedError:
    """The error for an entry among segments that is not one."""
    return RefusedError(
        f"{path / partition.path / name} is no segment of the store {partition.store!r}",
        hint="move it away: beside a foreign name the application finds none of the segments, or does not start",
    )
