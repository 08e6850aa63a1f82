"""Walk a directory tree: applications, RocksDB directories, migrations, by the names of files and directories."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from migrate.stores.regular_files import MAX_DEPTH, Folder
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.survey.applications import Application, application_at
from migrate.survey.other_systems import holds_databases, recognise
from migrate.survey.own_folders import is_migration
from migrate.survey.report import PlaceReport


@dataclass
class WalkResult:
    """The directories that a walk recognised, in the order of names."""

    databases: list[Path] = field(default_factory=list)
    applications: list[Application] = field(default_factory=list)
    migrations: list[Path] = field(default_factory=list)
    others: list[PlaceReport] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def walk(path: Path, *, is_part: bool) -> WalkResult:
    """Walk `path`; `is_part`: it lies in a recognised directory, so that only RocksDB directories are looked for."""
    found = WalkResult()
    _walk(Folder(path), found, is_part=is_part)
    return found


def _walk(folder: Folder, found: WalkResult, *, is_part: bool, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        found.warnings.append(f"{folder.path} is {depth} directories deep: its content was skipped")
        return
    try:
        if is_rocksdb(folder.path):
            found.databases.append(folder.path)
            return
        if not is_part:
            place = _recognise(folder, found)
            if isinstance(place, PlaceReport) and not holds_databases(place):
                return
            is_part = place is not None
        found.warnings += [
            f"{folder.path / name} is a symbolic link to {(folder.path / name).resolve()}: it was not followed"
            for name in folder.links
        ]
        inside = [folder.inside(name) for name in folder.folders]
    except OSError as error:
        found.warnings.append(f"{error.filename or folder.path} cannot be read: {error.strerror}")
        return
    for below in inside:
        _walk(below, found, is_part=is_part, depth=depth + 1)


def _recognise(folder: Folder, found: WalkResult) -> Path | Application | PlaceReport | None:
    """What the directory is, which is added to `found`; None: nothing known."""
    if is_migration(folder):
        found.migrations.append(folder.path)
        return folder.path
    if (application := application_at(folder)) is not None:
        found.applications.append(application)
        return application
    if (place := recognise(folder)) is not None:
        found.others.append(place)
    return place
