"""An application's directory as Kafka Streams and Streamiz lay it out: a directory for each task, its stores in it.

<application>/
  <subtopology><separator><partition>/   a task
    rocksdb/<store>/                     a key-value store
    <store>/<store>.<start>/             a segment of a windowed store
  global/                                stores that every instance has a copy of
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from migrate.stores.rocksdb.layout import is_rocksdb

GLOBAL = "global"
KEY_VALUE_STORES = "rocksdb"
_NUMBER = re.compile(r"[0-9]{1,18}")
_MINUTE = re.compile(r"[0-9]{12}")


@dataclass(frozen=True)
class TaskTree:
    """The names in one system's layout."""

    system: str
    """The system's name, with which the ids of its formats begin."""
    separator: str
    """Between the numbers of a task."""
    segment_marks: str
    """The characters that may stand between a store's name and the start of a segment in the segment's name."""
    process_file: str
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
        """The pattern of a task's name."""
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


KAFKA_STREAMS = TaskTree(
    system="kafka-streams",
    separator="_",
    segment_marks=".:-",
    process_file="kafka-streams-process-metadata",
    lock=".lock",
    has_topologies=True,
    lists_files=True,
)
STREAMIZ = TaskTree(system="streamiz", separator="-", segment_marks=".", process_file="streamiz-process-metadata")
TASK_TREES = (KAFKA_STREAMS, STREAMIZ)


def task_of(path: Path) -> tuple[TaskTree, Path] | None:
    """The task directory that a path names, or in which it names a store or a segment, and its layout."""
    above = [(tree, folder) for folder in (path, *path.parents[:2]) for tree in TASK_TREES]
    return next(((tree, folder) for tree, folder in above if folder.name == GLOBAL or tree.numbers(folder.name)), None)


def locks_above(path: Path) -> list[Path]:
    """The lock files of applications that guard a directory: in it and up to two levels above it, or above its task.

    Where `path` is a named topology, or in one, its application's lock is above the topology.
    """
    _, guarded = task_of(path) or (KAFKA_STREAMS, path)
    return [folder / tree.lock for folder in (guarded, *guarded.parents[:2]) for tree in TASK_TREES if tree.lock]
