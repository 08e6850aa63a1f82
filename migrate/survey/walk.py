"""Everything below a directory, by name: systems, RocksDB directories, our own folders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from migrate.stores.regular_files import MAX_DEPTH, Folder
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.survey.other_systems import holds_databases, recognise
from migrate.survey.own_folders import is_migration
from migrate.survey.report import PlaceReport
from migrate.survey.task_trees import Application, application_at


@dataclass
class Found:
    """What a walk has come across, in the order of names."""

    databases: list[Path] = field(default_factory=list)
    applications: list[Application] = field(default_factory=list)
    migrations: list[Path] = field(default_factory=list)
    others: list[PlaceReport] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def walk(path: Path, *, is_part: bool) -> Found:
    """`is_part`: of a system's directory above, so that nothing inside is taken for another one's."""
    found = Found()
    _walk(Folder(path), found, is_part=is_part)
    return found


def _walk(folder: Folder, found: Found, *, is_part: bool, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        found.warnings.append(f"{folder.path} is {depth} directories deep, and is not looked into")
        return
    try:
        if is_rocksdb(folder.path):
            found.databases.append(folder.path)
            return
        if not is_part:
            place = _place(folder, found)
            if place is not None and not holds_databases(place):
                return
            is_part = place is not None or folder.path in _known(found)
        found.warnings += [
            f"{folder.path / name} is a symbolic link to {(folder.path / name).resolve()}: not looked into"
            for name in folder.links
        ]
        inside = [folder.inside(name) for name in folder.folders]
    except OSError as error:
        found.warnings.append(f"{error.filename or folder.path} cannot be read: {error.strerror}")
        return
    for below in inside:
        _walk(below, found, is_part=is_part, depth=depth + 1)


def _place(folder: Folder, found: Found) -> PlaceReport | None:
    if is_migration(folder):
        found.migrations.append(folder.path)
    elif (application := application_at(folder)) is not None:
        found.applications.append(application)
    elif (place := recognise(folder)) is not None:
        found.others.append(place)
        return place
    return None


def _known(found: Found) -> list[Path]:
    return [*(application.path for application in found.applications), *found.migrations]
