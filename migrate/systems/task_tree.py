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
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from migrate.stores.rocksdb.layout import is_rocksdb

GLOBAL = "global"
KEY_VALUE_STORES = "rocksdb"


@dataclass(frozen=True)
class TaskTree:
    """The names that one system gives."""

    separator: str
    """Between the numbers of a task."""
    segment_marks: str
    """Each may stand between a store's name and the start of a segment in that one's."""
    process_file: str
    lock: str | None = None
    """In the application's directory, held while it runs; None: each RocksDB directory's own LOCK is all there is."""
    has_topologies: bool = False
    """Tasks may lie in a directory `__<topology>__`."""
    lists_files: bool = False
    """A file among segments is taken for one."""

    @cached_property
    def task(self) -> re.Pattern[str]:
        """What a task's name looks like."""
        return re.compile(rf"(\d+){re.escape(self.separator)}(\d+)")

    def task_name(self, numbers: tuple[int, int]) -> str:
        """The directory of a task."""
        return self.separator.join(map(str, numbers))

    def numbers(self, name: str) -> tuple[int, int] | None:
        """(subtopology, partition); None: no task of the application's own topology."""
        match = self.task.fullmatch(name)
        return None if match is None else (int(match[1]), int(match[2]))

    def is_task(self, name: str) -> bool:
        """Whether a directory of this name holds stores."""
        return name == GLOBAL or self.task.fullmatch(name) is not None

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """Where a store lies in an application's directory."""
        return Path(task, store) if is_segmented else Path(task, KEY_VALUE_STORES, store)

    def segment_start(self, store: str, name: str) -> int | None:
        """Milliseconds since the epoch; None: it is no name of a segment of this store."""
        return segment_start(store, name) if name[len(store) : len(store) + 1] in self.segment_marks else None

    def segments(self, store: Path) -> list[Path]:
        """The segments in the directory of a windowed store, the oldest first."""
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


KAFKA_STREAMS = TaskTree(
    separator="_",
    segment_marks=".:-",
    process_file="kafka-streams-process-metadata",
    lock=".lock",
    has_topologies=True,
    lists_files=True,
)
STREAMIZ = TaskTree(
    separator="-",
    segment_marks=".",
    process_file="streamiz-process-metadata",
)

_NUMBER = re.compile(r"[0-9]{1,18}")
_MINUTE = re.compile(r"[0-9]{12}")


def segment_start(store: str, name: str) -> int | None:
    """Milliseconds since the epoch; None: it is no name of a segment of this store."""
    separator, told = name[len(store) : len(store) + 1], name[len(store) + 1 :]
    if not name.startswith(store) or separator not in (".", ":", "-"):
        return None
    if separator == "-" and _MINUTE.fullmatch(told):  # strptime is content with fewer digits
        try:
            return int(datetime.strptime(told, "%Y%m%d%H%M").replace(tzinfo=UTC).timestamp()) * 1000
        except ValueError:
            return None
    return int(told) if separator != "-" and _NUMBER.fullmatch(told) else None
