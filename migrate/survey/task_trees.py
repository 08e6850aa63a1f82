"""Directories of Kafka Streams and Streamiz, recognised by the names in them; migrate/systems/task_tree.py shows the
tree."""

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
from migrate.systems.task_tree import GLOBAL, KAFKA_STREAMS, KEY_VALUE_STORES, STREAMIZ, TREES, TaskTree
from migrate.words import plural

_TOPOLOGY = re.compile(r"__.+__")


@dataclass(frozen=True, slots=True)
class Application:
    """`<state.dir>/<application.id>`."""

    path: Path
    tree: TaskTree


@dataclass(frozen=True, slots=True)
class Part:
    """One RocksDB directory of an application."""

    application: Application
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
        start_ms = self.segment_start_ms
        if start_ms is None:
            return f"store {self.store}, task {self.task}"
        return f"store {self.store}, task {self.task}, segment {_in_utc(start_ms)}"

    @property
    def segment_start_ms(self) -> int | None:
        """Of a segment, by its name."""
        return self.application.tree.segment_start(self.store, self.directory.name) if self.is_segment else None


def application_at(folder: Folder) -> Application | None:
    """It holds tasks that hold stores or a changelog's positions; None: it is no application's directory."""
    for tree in TREES:
        if _is_application(folder, tree):
            return Application(folder.path, tree)
    if GLOBAL in folder.folders and _is_task(folder.inside(GLOBAL)):
        is_streamiz = (folder.path.parent / STREAMIZ.process_file).is_file()
        return Application(folder.path, STREAMIZ if is_streamiz else KAFKA_STREAMS)
    return None


def _is_application(folder: Folder, tree: TaskTree) -> bool:
    if not tree.has_topologies:
        return _has_tasks(folder, tree)
    if _TOPOLOGY.fullmatch(folder.path.name):
        return False  # part of the one above it
    if tree.process_file in folder.files:
        return True
    topologies = [folder.inside(name) for name in folder.folders if _TOPOLOGY.fullmatch(name)]
    return any(_has_tasks(inside, tree) for inside in (folder, *topologies))


def application_around(path: Path) -> Application | None:
    """The application whose directory `path` is, or is in: a task, a store, a segment."""
    for folder in (path, *path.parents[:5]):
        with suppress(OSError):
            found = application_at(Folder(folder))
            if found is not None and _is_part(path.relative_to(folder), found.tree):
                return found
    return None


def _is_part(relative: Path, tree: TaskTree) -> bool:
    return not relative.parts or tree.is_task(relative.parts[0]) or _TOPOLOGY.fullmatch(relative.parts[0]) is not None


def _has_tasks(folder: Folder, tree: TaskTree) -> bool:
    """`global` has the same name in all systems, and does not count."""
    return any(_is_task(folder.inside(name)) for name in folder.folders if tree.task.fullmatch(name))


def _is_task(folder: Folder) -> bool:
    with suppress(PermissionError):
        if CHECKPOINT in folder.files or any(name.endswith(".position") for name in folder.files):
            return True
        if KEY_VALUE_STORES in folder.folders:
            return True
        return any(KAFKA_STREAMS.segments(folder.path / name) for name in folder.folders)
    return False


def parts_of(application: Application) -> Iterator[Part]:
    """Every RocksDB directory of the application, ordered by task, store and segment."""
    for task in application.tree.task_directories(application.path):
        name = str(task.relative_to(application.path))
        for folder in Folder(task).folders:
            if folder == KEY_VALUE_STORES:
                stores = Folder(task / folder)
                found = [(store, task / folder / store) for store in stores.folders]
                yield from (Part(application, name, store, path, is_segment=False) for store, path in found)
            else:
                found = [(folder, segment) for segment in application.tree.segments(task / folder)]
                yield from (Part(application, name, store, path, is_segment=True) for store, path in found)


def _in_utc(milliseconds: int) -> str:
    """As a number where no calendar has that time."""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def lock_file(application: Application) -> Path | None:
    """Held by the application while it runs; None: it has none of its own."""
    return None if application.tree.lock is None else application.path / application.tree.lock


def warnings_about(application: Application) -> Iterator[str]:
    """What can keep its owner from seeing its own stores."""
    tree = application.tree
    for task in tree.task_directories(application.path):
        for name in Folder(task).folders:
            folder = Folder(task / name)
            if name != KEY_VALUE_STORES and (found := tree.segments(folder.path)):
                listed = {*folder.folders, *(folder.files if tree.lists_files else ())}
                foreign = sorted(listed - {segment.name for segment in found})
                hides = f"{tree.title} may not find one of them, or refuse to start, while it is there"
                yield from (f"{folder.path / entry} lies among segments: {hides}" for entry in foreign)
        yield from (
            f"{path} holds no RocksDB files"
            for path in sorted((task / KEY_VALUE_STORES).glob("*"))
            if path.is_dir() and not is_rocksdb(path)
        )


def application_sentence(application: Application, parts: list[Part]) -> str:
    """What it is, in one line."""
    tasks = len({part.task for part in parts})
    stores = {part.store for part in parts}
    holds = f"{plural(len(stores), 'store')} in {plural(tasks, 'task')}" if parts else "without a store"
    return f"{application.tree.title}: the state directory of the application {application.path.name}, {holds}"


def part_sentence(application: Application, path: Path) -> str:
    """The same for something of an application."""
    parts = path.relative_to(application.path).parts
    kind = "the directory of the named topology" if _TOPOLOGY.fullmatch(parts[0]) else "the directory of task"
    at = 2 if _TOPOLOGY.fullmatch(parts[0]) and len(parts) > 1 else 1
    what = f"{kind} {parts[0].strip('_')}" if at == 1 else f"the directory of task {parts[0]}/{parts[1]}"
    inside = parts[at:]
    if inside:
        what = f"{'/'.join(inside)} in {what}"
    home = application.path
    return f"{application.tree.title}: {what}, of the application {home.name} in {home.parent}"
