"""`inspect`: whose directory it is and what it holds, read-only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from migrate.errors import CorruptionError, MigrationError, RefusedError, system_errors_explained
from migrate.stores.lock import lock_holders
from migrate.survey.applications import (
    Application,
    StoreDatabase,
    application_around,
    application_places,
    databases_of,
    stores_of,
)
from migrate.survey.databases import Place, damaged_database, database_report
from migrate.survey.other_systems import recognise_around
from migrate.survey.own_folders import migration_around, migration_place, migration_report, role_in
from migrate.survey.report import DatabaseReport, InspectReport, MigrationReport, OwnerReport, PlaceReport
from migrate.survey.walk import WalkResult, walk
from migrate.systems import STANDALONE
from migrate.systems.task_tree import locks_above

_NAME_ONE = "name a state directory or a RocksDB directory"


@system_errors_explained()
def inspect(path: str | Path, *, digest: bool = False) -> InspectReport:
    """Report whose directory it is, and every RocksDB directory at or below it. Only reads.

    Damaged RocksDB directories are reported with the others. An owner may run: its process is named.

    Args:
        path: a state directory, a directory inside one, a RocksDB directory, or the work_dir of a migration.
        digest: read every record, for exact counts and digests; otherwise RocksDB's estimates.

    Raises:
        RefusedError: there is no known directory, or `path` is a RocksDB directory that cannot be opened.
        CorruptionError: a digest of `path` itself met a damaged block.
    """
    if not Path(path).is_dir():
        raise RefusedError(f"{path} is not a directory", hint=_NAME_ONE)
    root = Path(path).resolve()
    above, home = application_around(root), migration_around(root)
    found = walk(root, is_part=(above or home) is not None)
    applications = [above] if above is not None and home is None else found.applications
    migrations = tuple(migration_report(folder) for folder in ([home] if home is not None else found.migrations))
    stores = {each.directory: each for application in applications for each in databases_of(application)}
    if not (found.databases or applications or migrations or found.others):
        raise RefusedError(f"no RocksDB directory at or below {root}", hint="name a state directory")
    holders = _holders(found, applications)
    databases = {
        directory: _database(_place(directory, root, stores, migrations, holders), root, digest=digest)
        for directory in found.databases
    }
    return InspectReport(
        path=root,
        places=(
            *application_places(root, applications, stores.values()),
            *map(migration_place, migrations),
            *found.others,
            *([] if applications or migrations else _standalone(root, found.databases)),
        ),
        stores=stores_of(stores, databases),
        databases=tuple(databases.values()),
        migrations=migrations,
        owners=_owners_of(holders),
        warnings=(
            *found.warnings,
            *(warning for each in applications for warning in each.system.foreign_entries(each.path)),
        ),
    )


def _holders(found: WalkResult, applications: Iterable[Application]) -> dict[Path, int]:
    locks = [lock for each in applications for lock in each.system.lock_files(each.path, [])]
    own = [lock for directory in found.databases for lock in (*locks_above(directory), directory / "LOCK")]
    try:
        return lock_holders(dict.fromkeys([*locks, *own]))
    except RefusedError as error:
        found.warnings.append(f"{error.message}: whether an application runs is not known")
        return {}


def _place(
    directory: Path,
    root: Path,
    stores: Mapping[Path, StoreDatabase],
    migrations: Iterable[MigrationReport],
    holders: Mapping[Path, int],
) -> Place:
    path, held_by = str(directory.relative_to(root)), holders.get(directory / "LOCK")
    store = stores.get(directory)
    if store is not None:
        return Place(directory, path, store.role, held_by, store.store_partition, store.segment_start_ms)
    own = (role_in(each.path, directory) for each in migrations if directory.is_relative_to(each.path))
    return Place(directory, path, next(own, ""), held_by)


def _database(place: Place, root: Path, *, digest: bool) -> DatabaseReport:
    """The report of one directory; damage is raised if it is `root` itself, which was named."""
    try:
        with system_errors_explained():
            report = database_report(place, digest=digest)
    except MigrationError as error:
        if place.directory == root:
            raise
        return damaged_database(place, error)
    if digest and place.directory == root and report.error is not None:
        raise CorruptionError(report.error, hint=report.hint)
    return report


def _standalone(root: Path, databases: list[Path]) -> list[PlaceReport]:
    """The report of `root` where it is itself a RocksDB directory."""
    if databases != [root]:
        return []
    around = recognise_around(root)
    if around is not None:
        return [around]
    sentence = "a RocksDB directory; no name around it identifies its system"
    return [PlaceReport(path=root, system=STANDALONE.name, can_be_migrated=True, sentence=sentence)]


def _owners_of(holders: Mapping[Path, int]) -> tuple[OwnerReport, ...]:
    """One report per process, with the lock files that it holds."""
    files: dict[int, list[Path]] = {}
    for file, pid in holders.items():
        files.setdefault(pid, []).append(file)
    return tuple(OwnerReport(pid=pid, command=_command(pid), files=tuple(files[pid])) for pid in sorted(files))


def _command(pid: int) -> str:
    """The program's name as Linux reports it, without arguments, which may hold secrets."""
    try:
        return Path("/proc", str(pid), "comm").read_text(encoding="utf-8", errors="replace").strip() if pid else ""
    except OSError:  # not Linux, or the process has just ended
        return ""
