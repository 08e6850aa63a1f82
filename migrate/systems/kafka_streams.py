"""Kafka Streams: `<state.dir>/<application.id>`.

    <application>/
      .lock                                held by a running application
      kafka-streams-process-metadata
      <subtopology>_<partition>/           a task; __<topology>__/<task>/ for named topologies
        .checkpoint                        changelog topic, partition, offset of the last record applied
        <store>.position
        rocksdb/<store>/                   a key-value store
        <store>/<store>.<start>/           a segment of a windowed store

Source: org.apache.kafka.streams.processor.internals.StateDirectory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from formats.kafka_streams.families import OFFSETS as OFFSETS_FAMILY
from migrate.errors import RefusedError
from migrate.positions import Line, Positions
from migrate.store_partition import StorePartition
from migrate.stores.layout import is_rocksdb, unreadable
from migrate.stores.options_file import read_options, rocksdb_version
from migrate.stores.rocksdb import open_read_only
from migrate.systems import offsets_family
from migrate.systems.checkpoint_file import (
    CHECKPOINT,
    OFFSET_UNKNOWN,
    format_checkpoint,
    owners_of,
    read_checkpoint,
    replace_lines,
)
from migrate.systems.offsets_family import POSITION_KEY, STATUS_KEY, STATUS_OPEN
from migrate.systems.segment_names import segment_start

_LEAST_SEGMENT_MS = 60_000
TASK = re.compile(r"(\d+)_(\d+)")
LOCK = ".lock"
_VERSIONS = {"7.9": "3.9 or older", "9.7": "4.0 or 4.1", "10.1": "4.2 or newer"}
"""Of Kafka Streams, by the RocksDB that it carries."""
_PATH = "let [source] path name the application's own directory, <state.dir>/<application.id>"


class KafkaStreams:
    """`[source] path` is the application's state directory."""

    ahead = 0

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool = False) -> list[StorePartition]:
        """The store partitions of the stores with these names."""
        if not path.is_dir():
            raise RefusedError(f"{path} {'is not a directory' if path.exists() else 'does not exist'}", hint=_PATH)
        try:
            tasks = list(task_directories(path))
            places = [
                (task, store, self.place(str(task.relative_to(path)), store, is_segmented=is_segmented))
                for store in stores
                for task in tasks
            ]
            # Whatever is in it: a directory that lost its files is no less a loss.
            found = [_partition(path, *place) for place in places if (path / place[-1]).is_dir()]
        except PermissionError as error:
            raise unreadable(Path(error.filename)) from error
        missing = [store for store in stores if store not in {partition.store for partition in found}]
        if missing:
            raise _not_there(path, missing[0], tasks, is_segmented=is_segmented)
        return found

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """A segmented store lies beside the directory of all others."""
        return Path(task, store) if is_segmented else Path(task, "rocksdb", store)

    def task_numbers(self, task: str) -> tuple[int, int]:
        """`<subtopology>_<partition>`."""
        match = TASK.fullmatch(task)
        if match is None:
            raise RefusedError(
                f"task {task} has no name of two numbers, which is all that the other system knows",
                hint="global stores, and those of named topologies, stay with the system that they are of",
            )
        return int(match[1]), int(match[2])

    def task_name(self, numbers: tuple[int, int]) -> str:
        """`<subtopology>_<partition>`."""
        return "{}_{}".format(*numbers)

    def segment_start(self, store: str, name: str) -> int | None:
        """By today's name or a former one."""
        return segment_start(store, name)

    def segment_size(self, retention_ms: int, segment_ms: int | None) -> int:
        """Half the retention, a minute at least: org.apache.kafka.streams.state.Stores."""
        return segment_ms or max(retention_ms // 2, _LEAST_SEGMENT_MS)

    def positions_within(self, directories: Iterable[Path]) -> Positions:
        """What the column family `offsets` says: of each topic partition, the newest directory that knows it."""
        lines: dict[tuple[str, int], int] = {}
        position: str | None = None
        for directory in directories:
            if OFFSETS_FAMILY not in read_options(directory):
                continue
            with open_read_only(directory) as database:
                entries = [
                    entry
                    for batch in database.batches(OFFSETS_FAMILY)
                    for entry in zip(batch.keys, batch.values, strict=True)
                ]
            for topic, number, offset in offsets_family.lines(entries):
                lines.setdefault((topic, number), offset)
            if position is None and POSITION_KEY in dict(entries):
                position = offsets_family.position_file(dict(entries)[POSITION_KEY])
        return Positions(
            lines=tuple((topic, number, offset) for (topic, number), offset in lines.items()), own_file=position
        )

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """The application's `.lock`, and LOCK in each RocksDB directory."""
        databases = [folder / "LOCK" for partition in partitions for folder in partition.directories(path).values()]
        return [path / LOCK, *databases]

    def warnings(self, path: Path, partitions: Sequence[StorePartition]) -> list[str]:
        """Changelog positions that say that the local state may not be the state."""
        found = []
        for task in dict.fromkeys(path / partition.task for partition in partitions):
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
        return found + [
            f"{partition.id} was not closed cleanly: its `status` says open"
            for partition in partitions
            for directory in partition.directories(path).values()
            if _is_marked_open(directory)
        ]

    def side_files(self, partition: StorePartition) -> tuple[Path, ...]:
        """The task's `.checkpoint`, which its stores share, and the store's own `.position`."""
        return Path(partition.task, CHECKPOINT), Path(partition.task, f"{partition.store}.position")

    def positions(self, path: Path, partition: StorePartition) -> Positions:
        """This store's lines in `.checkpoint`, and its `.position` as it is."""
        shared, own = (path / file for file in self.side_files(partition))
        lines = read_checkpoint(shared) if shared.is_file() else []
        return Positions(
            lines=tuple(line for line, own in zip(lines, _are_of(path, partition, lines), strict=True) if own),
            own_file=own.read_text(encoding="utf-8") if own.is_file() else None,
        )

    def with_positions(self, path: Path, partition: StorePartition, positions: Positions) -> dict[Path, str | None]:
        """Lines of other stores stay as they are, and where they are."""
        shared, own = self.side_files(partition)
        is_there = (path / shared).is_file()
        lines = read_checkpoint(path / shared) if is_there else []
        merged = replace_lines(lines, positions.lines, _are_of(path, partition, lines))
        return {shared: format_checkpoint(merged) if merged or is_there else None, own: positions.own_file}

    def unsure_position(self, path: Path, partition: StorePartition) -> str | None:
        """Unless the application stopped cleanly: each store then has its position, here or (since 4.3) inside."""
        directories = list(partition.directories(path).values())
        if any(_is_marked_open(directory) for directory in directories):
            return "it was not closed cleanly: its `status` says open"
        lines = self.positions(path, partition).lines
        if not lines and any(_holds_offset(directory) for directory in directories):
            return None
        if not lines:
            return f"{Path(partition.task, CHECKPOINT)} has no line for it: its application did not stop cleanly"
        if any(offset == OFFSET_UNKNOWN for _, _, offset in lines) and not all(map(_is_empty, directories)):
            return f"its line in {Path(partition.task, CHECKPOINT)} says that its position is unknown"
        return None

    def owner_version(self, directory: Path) -> str | None:
        """By the column family that 4.3 brought, or else by the RocksDB that each version carries."""
        if OFFSETS_FAMILY in read_options(directory):
            return f"Kafka Streams 4.3 or newer: it has the column family {OFFSETS_FAMILY!r}"
        version = rocksdb_version(directory)
        known = None if version is None else _VERSIONS.get(version.rpartition(".")[0])
        return None if known is None else f"Kafka Streams {known}: that carries RocksDB {version}"

    def metadata_in_words(self, key: bytes, value: bytes) -> str:
        """An entry of the column family `offsets`."""
        return offsets_family.in_words(key, value)

    def inner_positions(self, entries: Iterable[tuple[bytes, bytes]]) -> tuple[Line, ...]:
        """What the column family `offsets` says."""
        return offsets_family.lines(entries)


def task_directories(path: Path) -> Iterator[Path]:
    """The task directories, by topology, subtopology and partition."""
    topologies = [path, *sorted(folder for folder in path.glob("__*__") if folder.is_dir())]
    for topology in topologies:
        tasks = [(match, folder) for folder in topology.iterdir() if (match := TASK.fullmatch(folder.name))]
        yield from (folder for _, folder in sorted(((int(m[1]), int(m[2])), folder) for m, folder in tasks))
    if (path / "global").is_dir():
        yield path / "global"


def _partition(path: Path, task: Path, store: str, place: Path) -> StorePartition:
    name = str(task.relative_to(path))
    is_segmented = place.parent == Path(name)
    databases = tuple(sorted(entry.name for entry in (path / place).iterdir())) if is_segmented else (".",)
    return StorePartition(id=f"{name}/{store}", store=store, task=name, path=place, databases=databases)


def _keeps_offsets_inside(path: Path, task: Path, partitions: Sequence[StorePartition]) -> bool:
    """Since 4.3 the positions lie in a column family of each store."""
    mine = [partition.directories(path).values() for partition in partitions if path / partition.task == task]
    return all(any(OFFSETS_FAMILY in read_options(directory) for directory in each) for each in mine)


def _no_tasks(path: Path) -> RefusedError:
    near = next((folder for folder in (*path.parents[:3], *path.iterdir()) if _holds_tasks(folder)), None)
    hint = _PATH if near is None else f"{_PATH}: did you mean '{near}'?"
    if is_rocksdb(path):
        return RefusedError(f"{path} is a RocksDB directory", hint=f"leave `store` out to migrate it alone, or {hint}")
    if TASK.fullmatch(path.name):
        return RefusedError(f"{path} is a task directory, of one task alone", hint=hint)
    names = ", ".join(sorted(entry.name for entry in path.iterdir())[:8])
    there = f"there are: {names}" if names else "it is empty"
    return RefusedError(f"{path} holds no task directory (like 0_0); {there}", hint=hint)


def _holds_tasks(folder: Path) -> bool:
    try:
        return folder.is_dir() and any(TASK.fullmatch(entry.name) for entry in folder.iterdir())
    except PermissionError:
        return False


def _are_of(path: Path, partition: StorePartition, lines: Sequence[Line]) -> list[bool]:
    """Which lines of a task's `.checkpoint` are this store's."""
    task = path / partition.task
    folders = [*task.glob("rocksdb/*"), *(folder for folder in task.glob("*") if folder.name != "rocksdb")]
    stores = {folder.name for folder in folders if folder.is_dir()} | {partition.store}
    owners = owners_of([topic for topic, _, _ in lines], application=path.name, stores=stores)
    return [owner == partition.store for owner in owners]


def _holds_offset(directory: Path) -> bool:
    """Since 4.3 a store keeps its changelog's position in its column family `offsets`, under `<topic>-<partition>`."""
    if OFFSETS_FAMILY not in read_options(directory):
        return False
    with open_read_only(directory) as database:
        keys = [key for batch in database.batches(OFFSETS_FAMILY) for key in batch.keys]
    return any(key not in (STATUS_KEY, POSITION_KEY) for key in keys)


def _is_empty(directory: Path) -> bool:
    with open_read_only(directory) as database:
        data = [family for family in database.families if family != OFFSETS_FAMILY]
        return not any(database.sample(family, None, 1).keys for family in data)


def _is_marked_open(directory: Path) -> bool:
    """Since 4.3 each store says so itself, in its `offsets` column family."""
    if OFFSETS_FAMILY not in read_options(directory):
        return False
    with open_read_only(directory) as database:
        return database.get(OFFSETS_FAMILY, STATUS_KEY) == STATUS_OPEN


def _not_there(path: Path, store: str, tasks: list[Path], *, is_segmented: bool) -> RefusedError:
    if not tasks:
        return _no_tasks(path)
    stores = sorted({f.name for task in tasks for f in (task / "rocksdb").glob("*") if is_rocksdb(f)})
    segmented = sorted({f.name for task in tasks for f in task.iterdir() if f.is_dir() and any(f.glob(f"{f.name}.*"))})
    what, other = "key-value store", "windowed or session store"
    if is_segmented:
        stores, segmented, what, other = segmented, stores, other, what
    if store in segmented:
        return RefusedError(f"{store!r} is a {other}", hint="name its format in [source] format")
    near = get_close_matches(store, stores, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return RefusedError(
        f"no {what} {store!r} in {path}", hint=f"{hint}there are: {', '.join(stores) or 'none'}".strip()
    )
