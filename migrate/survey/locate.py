"""From any directory of an application to the one that a spec names, where that is unambiguous."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.errors import RefusedError, SpecError
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.survey.other_systems import recognise_around
from migrate.survey.own_folders import migration_around
from migrate.survey.task_trees import Application, application_around, parts_of
from migrate.survey.walk import Found, walk

_NAME_IT = "name the application's state directory, <state.dir>/<application.id>, or one RocksDB directory"


@dataclass(frozen=True, slots=True)
class Located:
    """What [source] names."""

    path: Path
    store: str | None
    """The one that the directory itself says; None: it may be any, or `path` is one RocksDB directory."""
    application: Application | None
    """The same; None: no name tells whose it is."""
    note: str = ""
    """What was found in place of the directory that was named."""

    @property
    def system(self) -> str | None:
        """The owning system; None: no name tells it."""
        return None if self.application is None else self.application.system.name


def locate(path: Path, *, store: str | None, is_lone: bool) -> Located:
    """`is_lone`: the directory is to be taken as one RocksDB directory, whatever is around it.

    Raises RefusedError, which says what to name; SpecError where the directory is another store's than `store`.
    """
    if not path.is_dir():
        raise RefusedError(f"{path} {'is not a directory' if path.exists() else 'does not exist'}", hint=_NAME_IT)
    root = path.resolve()
    if is_lone:
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
    own = next((part.store for part in parts_of(application) if part.store_directory == root), None)
    inside = root.relative_to(home)
    if own is not None and store not in (None, own):
        raise SpecError(
            f"{root} is of the store {own!r}, and --store says {store!r}",
            hint=f"leave one of them out, or name the application's directory {home}",
        )
    note = f"{inside} is part of the application {home.name}, all of whose tasks have to be migrated together"
    return Located(home, own, application, note=note)


def _below(path: Path, found: Found) -> Located:
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
