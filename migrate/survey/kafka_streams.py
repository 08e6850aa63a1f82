"""Kafka Streams' directories, recognised by the names in them; migrate/systems/kafka_streams.py shows the tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from migrate.stores.layout import is_rocksdb
from migrate.survey.folder import Folder
from migrate.systems.checkpoint_file import CHECKPOINT
from migrate.systems.kafka_streams import LOCK, TASK, task_directories

SYSTEM = "kafka-streams"
_PROCESS = "kafka-streams-process-metadata"
_TOPOLOGY = re.compile(r"__.+__")
_GLOBAL = "global"
_SEGMENT = re.compile(r"[.:](\d+)|-(\d{12})")
"""`<store>.<start>`; older releases wrote `<store>:<start>` and `<store>-yyyyMMddHHmm`."""


@dataclass(frozen=True, slots=True)
class Part:
    """One RocksDB directory of an application."""

    application: Path
    task: str
    store: str
    directory: Path
    is_segment: bool

    @property
    def store_partition(self) -> str:
        """As a migration names it."""
        return f"{self.task}/{self.store}"

    @property
    def role(self) -> str:
        """What it is, in words."""
        if not self.is_segment:
            return f"store {self.store}, task {self.task}"
        return f"store {self.store}, task {self.task}, segment {_segment_start(self.directory.name, self.store)}"


def is_application(folder: Folder) -> bool:
    """`<state.dir>/<application.id>`: it holds tasks that hold stores or a changelog's positions."""
    if _TOPOLOGY.fullmatch(folder.path.name):
        return False  # part of the one above it
    if _PROCESS in folder.files:
        return True
    topologies = [folder.inside(name) for name in folder.folders if _TOPOLOGY.fullmatch(name)]
    return any(_has_tasks(inside) for inside in (folder, *topologies))


def application_around(path: Path) -> Path | None:
    """The application's directory, where `path` is it or something of it: a task, a store, a segment."""
    for folder in (path, *path.parents[:5]):
        with suppress(OSError):
            if is_application(Folder(folder)) and _is_part(path.relative_to(folder)):
                return folder
    return None


def _is_part(relative: Path) -> bool:
    return not relative.parts or _names_task(relative.parts[0]) or _TOPOLOGY.fullmatch(relative.parts[0]) is not None


def _names_task(name: str) -> bool:
    return name == _GLOBAL or TASK.fullmatch(name) is not None


def _has_tasks(folder: Folder) -> bool:
    return any(_is_task(folder.inside(name)) for name in folder.folders if _names_task(name))


def _is_task(folder: Folder) -> bool:
    with suppress(PermissionError):
        if CHECKPOINT in folder.files or any(name.endswith(".position") for name in folder.files):
            return True
        return "rocksdb" in folder.folders or any(_segments(folder.inside(name)) for name in folder.folders)
    return False


def parts_of(application: Path) -> Iterator[Part]:
    """Every RocksDB directory of the application, ordered by task, store and segment."""
    for task in task_directories(application):
        name = str(task.relative_to(application))
        for folder in Folder(task).folders:
            if folder == "rocksdb":
                stores = Folder(task / folder)
                found = [(store, task / folder / store) for store in stores.folders]
                yield from (Part(application, name, store, path, is_segment=False) for store, path in found)
            else:
                segments = [task / folder / segment for segment in _segments(Folder(task / folder))]
                yield from (Part(application, name, folder, path, is_segment=True) for path in segments)


def _segments(store: Folder) -> list[str]:
    """The segments in the directory of a windowed or session store, oldest first."""
    named = {name: _SEGMENT.fullmatch(name.removeprefix(store.path.name)) for name in store.folders}
    starts = {name: int(match[1] or match[2]) for name, match in named.items() if match is not None}
    return sorted((name for name in starts if is_rocksdb(store.path / name)), key=starts.__getitem__)


def _segment_start(name: str, store: str) -> str:
    """In UTC; as it is written where that is no time that there is."""
    written = name.removeprefix(store)[1:]
    try:
        if name.removeprefix(store)[0] == "-":
            return f"{datetime.strptime(written, '%Y%m%d%H%M').replace(tzinfo=UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"{datetime.fromtimestamp(int(written) / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return written


def lock_file(application: Path) -> Path:
    """Held by the application while it runs."""
    return application / LOCK


def warnings_about(application: Path) -> Iterator[str]:
    """What can keep Kafka Streams from seeing its own stores."""
    for task in task_directories(application):
        for name in Folder(task).folders:
            folder = Folder(task / name)
            if name != "rocksdb" and (segments := _segments(folder)):
                foreign = sorted({*folder.files, *folder.folders} - {*segments})
                yield from (f"{folder.path / entry} lies among segments: {_HIDES}" for entry in foreign)
        yield from (
            f"{path} holds no RocksDB files"
            for path in sorted((task / "rocksdb").glob("*"))
            if path.is_dir() and not is_rocksdb(path)
        )


_HIDES = "Kafka Streams may not find one of them, or refuse to start, while it is there"


def application_sentence(application: Path, parts: list[Part]) -> str:
    """What it is, in one line."""
    tasks = len({part.task for part in parts})
    stores = {part.store for part in parts}
    holds = f"{_count(len(stores), 'store')} in {_count(tasks, 'task')}" if parts else "without a store"
    return f"Kafka Streams: the state directory of the application {application.name}, {holds}"


def part_sentence(application: Path, path: Path) -> str:
    """The same for something of an application."""
    parts = path.relative_to(application).parts
    kind = "the directory of the named topology" if _TOPOLOGY.fullmatch(parts[0]) else "the directory of task"
    at = 2 if _TOPOLOGY.fullmatch(parts[0]) and len(parts) > 1 else 1
    what = f"{kind} {parts[0].strip('_')}" if at == 1 else f"the directory of task {parts[0]}/{parts[1]}"
    inside = parts[at:]
    if inside:
        what = f"{'/'.join(inside)} in {what}"
    return f"Kafka Streams: {what}, of the application {application.name} in {application.parent}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
