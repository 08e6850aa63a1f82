"""Find the directory that a spec must name, starting from any directory of an application or above it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.errors import RefusedError, SpecError
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.stores.rocksdb.unreadable import check_no_backup
from migrate.survey.applications import Application, application_around, databases_of
from migrate.survey.other_systems import recognise_around
from migrate.survey.own_folders import migration_around
from migrate.survey.walk import WalkResult, walk

_NAME_IT = "name the application's state directory, <state.dir>/<application.id>, or one RocksDB directory"


@dataclass(frozen=True, slots=True)
class Located:
    """The directory, and perhaps the store, for the spec's [source]."""

    path: Path
    store: str | None
    """The store whose directory was named; None: an application's directory or a standalone RocksDB directory was."""
    application: Application | None
    """None: `path` is a standalone RocksDB directory."""
    note: str = ""
    """Why `path` is not the directory that was named."""

    @property
    def system(self) -> str | None:
        """The owning system; None: not known."""
        return None if self.application is None else self.application.system.name


def locate(path: Path, *, store: str | None, is_standalone: bool) -> Located:
    """Find the application of `path`, or the only one below it.

    `is_standalone`: `path` is a standalone RocksDB directory, even inside an application's directory.

    Raises RefusedError with the directories to name instead; SpecError where `path` belongs to a store other than
    `store`.
    """
    if not path.is_dir():
        raise RefusedError(f"{path} {'is not a directory' if path.exists() else 'does not exist'}", hint=_NAME_IT)
    root = path.resolve()
    check_no_backup(root)
    if is_standalone:
        return Located(root, None, None)
    if (home := migration_around(root)) is not None:
        raise RefusedError(f"{path} is Stateferry's own: the folder of the migration {home.name}", hint=_NAME_IT)
    if (application := application_around(root)) is not None:
        return _in_application(root, application, store)
    if is_rocksdb(root):
        around = recognise_around(root)
        return Located(root, None, None, note="" if around is None else around.sentence)
    return _below(path, walk(root, is_part=False))


def _in_application(root: Path, application: Application, store: str | None) -> Located:
    home = application.path
    if root == home:
        return Located(root, None, application)
    own = next((each.store for each in databases_of(application) if each.partition_directory == root), None)
    inside = root.relative_to(home)
    if own is not None and store not in (None, own):
        raise SpecError(
            f"{root} belongs to the store {own!r}, but --store names {store!r}",
            hint=f"leave --store out, or name the application's directory {home}",
        )
    note = f"{inside} is part of the application {home.name}, all of whose tasks must be migrated together"
    return Located(home, own, application, note=note)


def _below(path: Path, found: WalkResult) -> Located:
    if len(found.applications) == 1:
        application = found.applications[0]
        note = f"the one application below {path} is {application.path.name}"
        return Located(application.path, None, application, note=note)
    if found.applications:
        names = ", ".join(str(path / each.path.relative_to(path.resolve())) for each in found.applications)
        raise RefusedError(f"{path} holds several applications", hint=f"name one: {names}")
    if found.others:
        hint = "`stateferry formats` lists what can be; a RocksDB directory alone can be migrated as rocksdb.raw"
        raise RefusedError(f"{found.others[0].path}: {found.others[0].sentence}", hint=hint)
    databases = [str(path / folder.relative_to(path.resolve())) for folder in found.databases[:8]]
    hint = f"name one of the RocksDB directories below: {', '.join(databases)}" if databases else _NAME_IT
    raise RefusedError(f"{path} is neither an application's state directory nor a RocksDB directory", hint=hint)
