"""An application's directory as Kafka Streams and Streamiz lay it out: a directory for each task, its stores in it.

<application>/
  <subtopology><separator><partition>/   a task
    rocksdb/<store>/                     a key-value store
    <store>/<store>.<start>/             a segment of a windowed store
  global/                                stores that every instance has a copy of
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from formats import Format
from migrate.errors import RefusedError, did_you_mean
from migrate.model.store_partition import ChangelogOffsets, Line, StorePartition
from migrate.stores.files import touch
from migrate.stores.regular_files import Folder, check_directory
from migrate.stores.rocksdb.layout import is_rocksdb, unreadable
from migrate.stores.rocksdb.options_file import newest_options
from migrate.systems.base import ChangelogNames, Discovery, SegmentNames, StoreDirectory, StoredOffsets, StoreLayout
from migrate.systems.checkpoint_file import (
    CHECKPOINT,
    OFFSET_UNKNOWN,
    RECOVERY,
    changelogs_in,
    lines_of_store,
    read_checkpoint,
    replace_lines,
)

GLOBAL = "global"
KEY_VALUE_STORES = "rocksdb"
_NUMBER = re.compile(r"[0-9]{1,18}")
_MINUTE = re.compile(r"[0-9]{12}")
_IN_MEMORY = (
    ". A store in memory is in its changelog alone, which cannot be migrated yet: let the old application declare "
    "a persistent store of the same name, start it once, so that it is restored to disk, stop it, and migrate that"
)
_KINDS = {False: "key-value", True: "windowed or session"}
_TOPOLOGY = re.compile(r"__.+__")
_READ_ONCE = re.compile(r"(?:.+-repartition|(?:.*-)?subscription-(?:registration|response)(?:-\d+)?-topic)", re.I)
"""By the names that org.apache.kafka.streams.kstream.internals.KTableImpl gives."""


@dataclass(frozen=True)
class TaskTree(StoreLayout):
    """One system's layout. `[source] path` is the application's directory, with a directory for each task in it."""

    system: str
    """The system's name, with which the ids of its formats begin."""
    title: str
    separator: str
    """Between the numbers of a task."""
    segment_marks: str
    """The characters that may stand between a store's name and the start of a segment in the segment's name."""
    process_file: str
    path_hint: str
    """A hint that states what [source] path should name."""
    no_numbers: str
    """The tasks without numbers, whose stores cannot move to another system, as text."""
    checkpoints: tuple[str, ...] = (CHECKPOINT,)
    """The files of a task with its changelog offsets; the first that exists counts."""
    lock: str | None = None
    """A file in the application's directory (before Kafka Streams 3.0: in each task's), locked while it runs.

    None: only RocksDB directories are locked.
    """
    has_topologies: bool = False
    """Tasks may lie in a directory `__<topology>__`."""
    lists_files: bool = False
    """The application takes a file among segments for a segment."""

    @cached_property
    def task(self) -> re.Pattern[str]:
        return re.compile(rf"(\d+){re.escape(self.separator)}(\d+)")

    def numbers(self, name: str) -> tuple[int, int] | None:
        """(subtopology, partition) of a task; None: the name is not one of the application's own topology."""
        match = self.task.fullmatch(name)
        return None if match is None else (int(match[1]), int(match[2]))

    def segment_start(self, store: str, name: str) -> int | None:
        """The start of a segment of this store, in ms since the epoch; None: the name is not a segment's."""
        mark, start = name[len(store) : len(store) + 1], name[len(store) + 1 :]
        if not name.startswith(store) or not mark or mark not in self.segment_marks:
            return None
        if mark != "-":
            return int(start) if _NUMBER.fullmatch(start) else None
        with suppress(ValueError):
            if _MINUTE.fullmatch(start):  # strptime accepts fewer digits
                return int(datetime.strptime(start, "%Y%m%d%H%M").replace(tzinfo=UTC).timestamp()) * 1000
        return None

    def segments(self, store: Path) -> list[Path]:
        """The segments in the directory of a windowed store, oldest first."""
        named = {folder: self.segment_start(store.name, folder.name) for folder in store.iterdir()}
        starts = {folder: start for folder, start in named.items() if start is not None and is_rocksdb(folder)}
        return sorted(starts, key=starts.__getitem__)

    def task_directories(self, path: Path) -> Iterator[Path]:
        """The task directories, by topology, subtopology and partition."""
        named = sorted(folder for folder in path.glob("__*__") if folder.is_dir()) if self.has_topologies else []
        for topology in (path, *named):
            tasks = [(numbers, folder) for folder in topology.iterdir() if (numbers := self.numbers(folder.name))]
            tasks = [(numbers, folder) for numbers, folder in tasks if folder.is_dir()]
            yield from (folder for _, folder in sorted(tasks))
        if (path / GLOBAL).is_dir():
            yield path / GLOBAL

    def store_locks(self, path: Path) -> list[Path]:
        """LOCK of every RocksDB directory: a running application holds at least one of them."""
        tasks = self.task_directories(path) if path.is_dir() else ()
        folders = [folder for task in tasks for folder in task.iterdir() if folder.is_dir()]
        databases = sorted(database for folder in folders for database in folder.iterdir() if is_rocksdb(database))
        return [database / "LOCK" for database in databases]

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """The store partitions of these stores, ordered by store and task.

        RocksDB directories of a windowed store are its segments, and whatever its application would take for one.
        """
        check_directory(path, hint=self.path_hint)
        try:
            tasks = [str(task.relative_to(path)) for task in self.task_directories(path)]
            found = [
                self._partition(path, task, store, is_segmented=is_segmented)
                for store in stores
                for task in tasks
                if (path / self.place(task, store, is_segmented=is_segmented)).is_dir()
            ]  # whatever it contains: a directory that lost its files must be noticed
            missing = [store for store in stores if store not in {partition.store for partition in found}]
            if missing:
                raise self._not_there(path, missing[0], is_segmented=is_segmented) if tasks else self._no_tasks(path)
        except PermissionError as error:
            raise unreadable(Path(error.filename)) from error
        return found

    def _partition(self, path: Path, task: str, store: str, *, is_segmented: bool) -> StorePartition:
        place = self.place(task, store, is_segmented=is_segmented)
        partition = StorePartition(id=f"{task}/{store}", store=store, task=task, path=place)
        if not is_segmented:
            return partition
        entries = (entry for entry in (path / place).iterdir() if self.lists_files or entry.is_dir())
        return partition.model_copy(update={"databases": tuple(sorted(entry.name for entry in entries))})

    def _no_tasks(self, path: Path) -> RefusedError:
        near = next((folder for folder in (*path.parents[:3], *path.iterdir()) if self._holds_tasks(folder)), None)
        hint = self.path_hint if near is None else f"{self.path_hint}: did you mean '{near}'?"
        if is_rocksdb(path):
            return RefusedError(
                f"{path} is a RocksDB directory", hint=f"leave `store` out to migrate it alone, or {hint}"
            )
        other = next((tree for tree in TASK_TREES if has_tasks(tree, Folder(path))), None)
        if other is not None:
            return RefusedError(
                f"{path} is a state directory of {other.system}, and not of {self.system}",
                hint=f"name one of its formats as [source] format, {other.system}.*; `stateferry inspect` shows which",
            )
        if self.task.fullmatch(path.name):
            return RefusedError(f"{path} is a task directory, which holds the stores of one task only", hint=hint)
        names = ", ".join(sorted(entry.name for entry in path.iterdir())[:8])
        there = f"there are: {names}" if names else "it is empty"
        return RefusedError(f"{path} holds no task directory (like {self.task_name((0, 0))}); {there}", hint=hint)

    def _holds_tasks(self, folder: Path) -> bool:
        try:
            return folder.is_dir() and any(self.task.fullmatch(entry.name) for entry in folder.iterdir())
        except PermissionError:
            return False

    def _not_there(self, path: Path, store: str, *, is_segmented: bool) -> RefusedError:
        found = [each for each in self.store_directories(path) if is_rocksdb(each.path)]
        names = {kind: sorted({each.store for each in found if each.is_segment == kind}) for kind in (False, True)}
        if store in names[not is_segmented]:
            return RefusedError(
                f"{store!r} is a {_KINDS[not is_segmented]} store", hint="name its format in [source] format"
            )
        there = f"there are: {', '.join(names[is_segmented]) or 'none'}"
        near = did_you_mean(store, names[is_segmented])
        hint = f"{near} {there}" if near else f"{there}{_IN_MEMORY}"
        return RefusedError(f"no {_KINDS[is_segmented]} store {store!r} in {path}", hint=hint)

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """Those above the tasks, of the tasks (before Kafka Streams 3.0), and LOCK in each RocksDB directory.

        Where RocksDB's alone tell, they are of all the stores: a running application locks at least those of its tasks.
        """
        own = [folder / "LOCK" for partition in partitions for folder in partition.directories(path).values()]
        if self.lock is None:
            return list(dict.fromkeys((*own, *self.store_locks(path))))
        tasks = dict.fromkeys(path / partition.task / self.lock for partition in partitions)
        return [*locks_above(path), *tasks, *own]

    def number(self, partition: StorePartition) -> int | None:
        """The second number of the task's name, also in a named topology."""
        return (self.numbers(Path(partition.task).name) or (None, None))[1]

    def subtopology(self, partition: StorePartition) -> int | None:
        """The first number of the task's name, also in a named topology."""
        return (self.numbers(Path(partition.task).name) or (None, None))[0]

    def sibling(self, partition: StorePartition, number: int) -> str:
        return self.task_name((self.task_numbers(partition.task)[0], number))

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """`<task>/rocksdb/<store>`, or `<task>/<store>` where it has segments."""
        return Path(task, store) if is_segmented else Path(task, KEY_VALUE_STORES, store)

    def task_numbers(self, task: str) -> tuple[int, int]:
        """(subtopology, partition) of a task by its name. Raises RefusedError where it has none."""
        numbers = self.numbers(task)
        if numbers is None:
            raise RefusedError(
                f"task {task} has no name of two numbers, as every task of the other system has",
                hint=f"{self.no_numbers} cannot move to another system",
            )
        return numbers

    def task_name(self, numbers: tuple[int, int]) -> str:
        return self.separator.join(map(str, numbers))

    def complete(self, folder: Path, path: Path, partitions: Sequence[StorePartition], known: Format) -> list[Path]:
        """Touch the tasks: as carried over they have the old times, by which their owner may find them out of use."""
        tasks = list(self.task_directories(folder))
        touch(tasks)
        return tasks

    def checkpoint_lines(self, task: Path) -> list[Line] | None:
        """The lines of a task's checkpoint file; None: there is no such file."""
        file = next((task / name for name in self.checkpoints if (task / name).exists()), None)
        return None if file is None else read_checkpoint(file, owner=self.title)

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        for task in self.task_directories(path):
            name = str(task.relative_to(path))
            for folder in Folder(task).folders:
                if folder == KEY_VALUE_STORES:
                    stores = Folder(task / folder).folders
                    yield from (StoreDirectory(name, store, task / folder / store) for store in stores)
                else:
                    segments = self.segments(task / folder)
                    yield from (StoreDirectory(name, folder, each, is_segment=True) for each in segments)


KAFKA_STREAMS_TREE = TaskTree(
    system="kafka-streams",
    title="Kafka Streams",
    separator="_",
    segment_marks=".:-",
    process_file="kafka-streams-process-metadata",
    path_hint="let [source] path name the application's own directory, <state.dir>/<application.id>",
    no_numbers="global stores, and those of named topologies,",
    lock=".lock",
    has_topologies=True,
    lists_files=True,
)
STREAMIZ_TREE = TaskTree(
    system="streamiz",
    title="Streamiz",
    separator="-",
    segment_marks=".",
    process_file="streamiz-process-metadata",
    path_hint="let [source] path name the application's own directory, <StateDir>/<ApplicationId>",
    no_numbers="global stores",
    checkpoints=(CHECKPOINT, RECOVERY),
)
TASK_TREES = (KAFKA_STREAMS_TREE, STREAMIZ_TREE)


def task_of(path: Path) -> tuple[TaskTree, Path] | None:
    """The task directory that a path names, or in which it names a store or a segment, and its layout."""
    above = [(tree, folder) for folder in (path, *path.parents[:2]) for tree in TASK_TREES]
    return next(((tree, folder) for tree, folder in above if folder.name == GLOBAL or tree.numbers(folder.name)), None)


def locks_above(path: Path) -> list[Path]:
    """The lock files of applications that guard a directory: in it and up to two levels above it, or above its task.

    Where `path` is a named topology, or in one, its application's lock is above the topology.
    """
    _, guarded = task_of(path) or (KAFKA_STREAMS_TREE, path)
    return [folder / tree.lock for folder in (guarded, *guarded.parents[:2]) for tree in TASK_TREES if tree.lock]


@dataclass(frozen=True)
class TreeNames(ChangelogNames):
    """The changelogs of one system's stores."""

    tree: TaskTree
    if_missing = (
        "is logging disabled for this store, so that it has no changelog? leave [changelog] out; a table whose "
        "changelog is its input topic cannot be migrated with it: let the old application keep it in a changelog of "
        "its own (topology.optimization = none), start and stop it once, and migrate that"
    )

    def topic(self, application: str, partition: StorePartition) -> str:
        """`<application>-<store>-changelog`; in a named topology, its name is behind the application's."""
        topology = Path(partition.task).parent.name.strip("_")
        return super().topic(f"{application}-{topology}" if topology else application, partition)

    def refusal(self, partition: StorePartition) -> str:
        """Such tasks have no numbers by which they could be told apart in every directory."""
        is_numbered = self.tree.numbers(partition.task) is not None
        return "" if is_numbered else "is of a global store or a named topology, whose changelog cannot be migrated yet"

    def repartition(self, topic: str, store: str) -> str | None:
        is_named = topic.endswith(f"-{store}-changelog")
        return f"{topic.removesuffix('-changelog')}-repartition" if is_named else None

    def is_read_once(self, application: str, topic: str) -> bool:
        """A repartition topic, or one of a join by a foreign key."""
        return topic.startswith(f"{application}-") and _READ_ONCE.fullmatch(topic, len(application) + 1) is not None

    def application_ids(self, path: Path) -> dict[str, set[str]] | None:
        """By the checkpoint files or, where those name no changelog, by the first store that states offsets itself."""
        if _TOPOLOGY.fullmatch(path.name):
            return None
        tasks = [task for task in self.tree.task_directories(path) if task.name != GLOBAL]
        found = self._ids(path, ((task, self.tree.checkpoint_lines(task) or ()) for task in tasks))
        within = ((path / each.task, self.lines_within(each.path)) for each in self.tree.store_directories(path))
        return found or next((ids for each in within if (ids := self._ids(path, [each]))), {})

    def _ids(self, path: Path, lines: Iterable[tuple[Path, Iterable[Line]]]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for task, each in lines:
            for topic, application in changelogs_in(task, [topic for topic, _, _ in each], path.name):
                if task.parent == path:
                    found.setdefault(application, set()).add(topic)
                elif application == f"{path.name}-{task.parent.name.strip('_')}":  # else the prefix is configured
                    found.setdefault(path.name, set()).add(topic)
        return found

    def lines_within(self, directory: Path) -> Sequence[Line]:
        """The changelog offsets that a RocksDB directory holds itself."""
        return ()


@dataclass(frozen=True)
class TreeSegments(SegmentNames):
    """The segments of one system's windowed stores."""

    tree: TaskTree

    def start(self, store: str, name: str) -> int | None:
        return self.tree.segment_start(store, name)


@dataclass(frozen=True)
class Checkpoints(StoredOffsets):
    """The offsets in a file of each task."""

    names: TreeNames

    @property
    def tree(self) -> TaskTree:
        return self.names.tree

    def merged_lines(
        self, path: Path, partition: StorePartition, positions: ChangelogOffsets, application: str | None
    ) -> list[Line]:
        """The lines of a task's checkpoint file with new `positions` of one store partition."""
        lines = self.tree.checkpoint_lines(path / partition.task) or []
        return replace_lines(lines, positions.lines, lines_of_store(self.names, path, partition, lines, application))

    def read(self, path: Path, partition: StorePartition) -> ChangelogOffsets:
        lines = self.tree.checkpoint_lines(path / partition.task) or []
        own = lines_of_store(self.names, path, partition, lines)
        return ChangelogOffsets(lines=tuple(line for line, mine in zip(lines, own, strict=True) if mine))

    def inputs(self, path: Path, partition: StorePartition) -> tuple[Line, ...]:
        """The lines of a task's checkpoint file whose topics are no changelogs: with topology.optimization, inputs."""
        lines = self.tree.checkpoint_lines(path / partition.task) or []
        return tuple(line for line in lines if not line[0].endswith("-changelog"))

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        found, replayed = [], f"is unknown, {self.tree.title} will replay it"
        for task in dict.fromkeys(partition.task for partition in partitions):
            lines = self.tree.checkpoint_lines(path / task)
            if lines is None:
                found.append(self.missing_checkpoint(path, [each for each in partitions if each.task == task]))
            found += [
                f"{Path(task).name}: the changelog position of {topic}-{number} {replayed}"
                for topic, number, offset in lines or ()
                if offset == OFFSET_UNKNOWN
            ]
        return [sentence for sentence in found if sentence is not None]

    def missing_checkpoint(self, path: Path, partitions: Sequence[StorePartition]) -> str | None:
        """A warning that the task of these store partitions has no checkpoint file; None: that is usual."""
        return None


@dataclass(frozen=True)
class TreeDiscovery(Discovery):
    """How one system's directories are recognised."""

    tree: TaskTree
    versions: Mapping[str, str]
    """Versions of the system, by the RocksDB that they contain."""

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        return self.tree.store_directories(path)

    def owner_version(self, directory: Path) -> str | None:
        """The version, by the RocksDB that each version contains."""
        version = newest_options(directory).rocksdb_version
        known = None if version is None else self.versions.get(version.rpartition(".")[0])
        return None if known is None else f"{self.tree.title} {known}: that carries RocksDB {version}"

    def recognises(self, folder: Folder) -> bool:
        if not self.tree.has_topologies:
            return has_tasks(self.tree, folder)
        if _TOPOLOGY.fullmatch(folder.path.name):
            return False  # part of the one above it
        if self.tree.process_file in folder.files:
            return True
        topologies = [folder.inside(name) for name in folder.folders if _TOPOLOGY.fullmatch(name)]
        return any(has_tasks(self.tree, inside) for inside in (folder, *topologies))

    def is_part(self, relative: Path) -> bool:
        first = next(iter(relative.parts), GLOBAL)
        return first == GLOBAL or any(pattern.fullmatch(first) for pattern in (self.tree.task, _TOPOLOGY))

    def describe_part(self, relative: Path) -> str:
        first, *inside = relative.parts
        what = f"the directory of task {first}"
        if _TOPOLOGY.fullmatch(first):
            what = f"{what}/{inside.pop(0)}" if inside else f"the directory of the named topology {first.strip('_')}"
        return f"{'/'.join(inside)} in {what}" if inside else what

    def foreign_entries(self, path: Path) -> Iterator[str]:
        """A sentence for each foreign entry among segments, and for each directory without RocksDB files."""
        for task in self.tree.task_directories(path):
            for name in Folder(task).folders:
                if name != KEY_VALUE_STORES and (found := self.tree.segments(task / name)):
                    store = Folder(task / name)
                    listed = {*store.folders, *(store.files if self.tree.lists_files else ())}
                    foreign = sorted(listed - {segment.name for segment in found})
                    hides = f"{self.tree.title} may not find one of them, or refuse to start, while it is there"
                    yield from (f"{store.path / entry} lies among segments: {hides}" for entry in foreign)
            yield from (
                f"{folder} holds no RocksDB files"
                for folder in sorted((task / KEY_VALUE_STORES).glob("*"))
                if folder.is_dir() and not is_rocksdb(folder)
            )


def has_tasks(tree: TaskTree, folder: Folder) -> bool:
    """Whether a folder holds tasks with stores; `global`, named the same in all systems, does not count."""
    return any(_is_task(folder.inside(name)) for name in folder.folders if tree.task.fullmatch(name))


def has_global(folder: Folder) -> bool:
    """Whether a folder holds global stores."""
    return GLOBAL in folder.folders and _is_task(folder.inside(GLOBAL))


def _is_task(folder: Folder) -> bool:
    with suppress(PermissionError):
        if CHECKPOINT in folder.files or any(name.endswith(".position") for name in folder.files):
            return True
        if KEY_VALUE_STORES in folder.folders:
            return True
        return any(KAFKA_STREAMS_TREE.segments(folder.path / name) for name in folder.folders)
    return False
