"""Applications, recognised by the names in their directories; each system says how."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from migrate.model.units import plural
from migrate.stores.regular_files import Folder
from migrate.systems import System, system_of_application


@dataclass(frozen=True, slots=True)
class Application:
    """The directory of one application."""

    path: Path
    system: System


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
        return self.application.system.segment_start(self.store, self.directory.name) if self.is_segment else None

    @property
    def store_directory(self) -> Path:
        """Where all of its store partition lies."""
        return self.directory.parent if self.is_segment else self.directory


def application_at(folder: Folder) -> Application | None:
    """None: it is no application's directory."""
    system = system_of_application(folder)
    return None if system is None else Application(folder.path, system)


def application_around(path: Path) -> Application | None:
    """The application whose directory `path` is, or is in: a task, a store, a segment."""
    for folder in (path, *path.parents[:5]):
        with suppress(OSError):
            found = application_at(Folder(folder))
            if found is not None and found.system.is_part(path.relative_to(folder)):
                return found
    return None


def parts_of(application: Application) -> Iterator[Part]:
    """Every RocksDB directory of the application, ordered by task, store and segment."""
    for each in application.system.store_directories(application.path):
        yield Part(application, each.task, each.store, each.path, is_segment=each.is_segment)


def _in_utc(milliseconds: int) -> str:
    """As a number where no calendar has that time."""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def application_sentence(application: Application, parts: list[Part]) -> str:
    """What it is, in one line."""
    tasks = len({part.task for part in parts})
    stores = {part.store for part in parts}
    holds = f"{plural(len(stores), 'store')} in {plural(tasks, 'task')}" if parts else "without a store"
    return f"{application.system.title}: the state directory of the application {application.path.name}, {holds}"


def part_sentence(application: Application, path: Path) -> str:
    """The same for something of an application."""
    system, home = application.system, application.path
    what = system.describe_part(path.relative_to(home))
    return f"{system.title}: {what}, of the application {home.name} in {home.parent}"
