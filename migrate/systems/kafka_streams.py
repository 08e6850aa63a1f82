"""Kafka Streams: `<state.dir>/<application.id>`.

    <application>/
      .lock                                held by a running application
      kafka-streams-process-metadata
      <subtopology>_<partition>/           a task; __<topology>__/<task>/ for named topologies
        .checkpoint                        changelog topic, partition, offset of the last record applied
        <store>.position
        rocksdb/<store>/                   a key-value store
        <store>/<store>.<start>/           a segment of a windowed store

Source: org.apache.kafka.streams.processor.internals.StateDirectory, state.internals.OffsetCheckpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from migrate.errors import RefusedError
from migrate.store_partition import StorePartition
from migrate.stores.layout import is_rocksdb, unreadable
from migrate.stores.options_file import read_options

TASK = re.compile(r"(\d+)_(\d+)")
CHECKPOINT = ".checkpoint"
LOCK = ".lock"
OFFSET_UNKNOWN = -4


class KafkaStreams:
    """`[source] path` is the application's state directory."""

    def find(self, path: Path, stores: Sequence[str]) -> list[StorePartition]:
        """The store partitions of the key-value stores with these names."""
        if not path.is_dir():
            raise RefusedError(f"{path} is not a directory", hint="[source] path: <state.dir>/<application.id>")
        try:
            tasks = list(_tasks(path))
        except PermissionError as error:
            raise unreadable(Path(error.filename)) from error
        found = [_partition(path, task, store) for store in stores for task in tasks if _holds(task, store)]
        missing = [store for store in stores if store not in {partition.store for partition in found}]
        if missing:
            raise _not_there(path, missing[0], tasks)
        return found

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """The application's `.lock`, and LOCK in each RocksDB directory."""
        databases = [folder / "LOCK" for partition in partitions for folder in partition.directories(path).values()]
        return [path / LOCK, *databases]

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        """Changelog positions that say that the local state may not be the state."""
        found = []
        for task in dict.fromkeys(path / partition.path.parent.parent for partition in partitions):
            checkpoint = task / CHECKPOINT
            if not checkpoint.is_file():
                if not _keeps_offsets_inside(path, task, partitions):
                    found.append(f"{task.name} has no {CHECKPOINT}: its application did not stop cleanly")
            else:
                found += [
                    f"{task.name}: the changelog position of {topic}-{number} is unknown, Kafka Streams will replay it"
                    for topic, number, offset in read_checkpoint(checkpoint)
                    if offset == OFFSET_UNKNOWN
                ]
        return found


def read_checkpoint(file: Path) -> list[tuple[str, int, int]]:
    """(topic, partition, offset of the last record applied) of each line. Raises RefusedError."""
    hint = "the file is damaged: restore it from a backup, or remove it to let Kafka Streams replay the changelog"
    try:
        version, count, *lines = file.read_text(encoding="utf-8").splitlines()
        if version.strip() != "0" or int(count) != len(lines):
            raise RefusedError(f"{file} is not a checkpoint of version 0 with {count} lines", hint=hint)
        return [(topic, int(number), int(offset)) for topic, number, offset in (line.split() for line in lines)]
    except ValueError as error:
        raise RefusedError(f"{file} is not a checkpoint file: {error}", hint=hint) from error


def _tasks(path: Path) -> Iterator[Path]:
    """The task directories, by topology, subtopology and partition."""
    topologies = [path, *sorted(folder for folder in path.glob("__*__") if folder.is_dir())]
    for topology in topologies:
        tasks = [(match, folder) for folder in topology.iterdir() if (match := TASK.fullmatch(folder.name))]
        yield from (folder for _, folder in sorted(((int(m[1]), int(m[2])), folder) for m, folder in tasks))
    if (path / "global").is_dir():
        yield path / "global"


def _holds(task: Path, store: str) -> bool:
    return is_rocksdb(task / "rocksdb" / store)


def _partition(path: Path, task: Path, store: str) -> StorePartition:
    name = str(task.relative_to(path))
    return StorePartition(id=f"{name}/{store}", store=store, task=name, path=Path(name, "rocksdb", store))


def _keeps_offsets_inside(path: Path, task: Path, partitions: Sequence[StorePartition]) -> bool:
    """Since 4.3 the positions lie in a column family of each store."""
    stores = [path / partition.path for partition in partitions if path / partition.path.parent.parent == task]
    return all("offsets" in read_options(store) for store in stores)


def _not_there(path: Path, store: str, tasks: list[Path]) -> RefusedError:
    if not tasks:
        return RefusedError(
            f"{path} holds no task directory (like 0_0)",
            hint="[source] path is the application's own directory: <state.dir>/<application.id>",
        )
    stores = sorted({f.name for task in tasks for f in (task / "rocksdb").glob("*") if is_rocksdb(f)})
    segmented = sorted({f.name for task in tasks for f in task.iterdir() if f.is_dir() and any(f.glob(f"{f.name}.*"))})
    if store in segmented:
        return RefusedError(
            f"{store!r} is a windowed or session store", hint="only key-value stores can be migrated yet"
        )
    near = get_close_matches(store, stores, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return RefusedError(
        f"no key-value store {store!r} in {path}", hint=f"{hint}there are: {', '.join(stores) or 'none'}".strip()
    )
