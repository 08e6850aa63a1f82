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
    """A file in the application's directory, locked while it runs; None: only RocksDB directories are locked."""
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
