"""`inspect`: what lies in a directory, without touching it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from migrate.errors import RefusedError, system_errors_explained
from migrate.stores.lock import lock_holders
from migrate.survey.applications import application_places, stores_of
from migrate.survey.databases import Place, as_migration_error, damaged_database, database_report
from migrate.survey.other_systems import recognise_around
from migrate.survey.own_folders import migration_around, migration_report, migration_sentence, role_in
from migrate.survey.report import DatabaseReport, InspectReport, MigrationReport, OwnerReport, PlaceReport
from migrate.survey.task_trees import Application, Part, application_around, parts_of
from migrate.survey.walk import Found, walk
from migrate.systems import STANDALONE

_NAME_ONE = "name a state directory or a RocksDB directory"


@system_errors_explained()
def inspect(path: str | Path, *, digest: bool = False) -> InspectReport:
    """Whose directory it is, and every RocksDB directory at or below it; `digest` reads every record.

    What is damaged is reported beside what is not. Works beside a running owner, and names it.

    Raises RefusedError where nothing is there that is known, or where the one RocksDB directory that was named cannot
    be opened; CorruptionError where a digest of that one meets a damaged block.
    """
    if not Path(path).is_dir():
        raise RefusedError(f"{path} is not a directory", hint=_NAME_ONE)
    root = Path(path).resolve()
    above, home = application_around(root), migration_around(root)
    found = walk(root, is_part=(above or home) is not None)
    applications = [above] if above is not None and home is None else found.applications
    migrations = tuple(migration_report(folder) for folder in ([home] if home is not None else found.migrations))
    parts = {part.directory: part for application in applications for part in parts_of(application)}
    if not (found.databases or applications or migrations or found.others):
        raise RefusedError(f"no RocksDB directory at or below {root}", hint="name a state directory")
    holders = _holders(found, applications)
    databases = tuple(
        _database(_at(directory, root, parts, migrations, holders), root, digest=digest)
        for directory in found.databases
    )
    by_directory = dict(zip(found.databases, databases, strict=True))
    return InspectReport(
        path=root,
        places=(
            *application_places(root, applications, parts.values()),
            *(
                PlaceReport(path=each.path, system="stateferry", sentence=migration_sentence(each))
                for each in migrations
            ),
            *found.others,
            *_lone(root, found.databases, is_told=bool(applications or migrations)),
        ),
        stores=stores_of(parts, by_directory),
        databases=databases,
        migrations=migrations,
        owners=_owners_of(holders),
        warnings=(
            *found.warnings,
            *(warning for each in applications for warning in each.system.foreign_entries(each.path)),
        ),
    )


def _holders(found: Found, applications: Iterable[Application]) -> dict[Path, int]:
    locks = [lock for each in applications if (lock := each.system.application_lock(each.path)) is not None]
    try:
        return lock_holders([*locks, *(directory / "LOCK" for directory in found.databases)])
    except RefusedError as error:
        found.warnings.append(f"{error.message}: whether an application runs is not known")
        return {}


def _at(
    directory: Path,
    root: Path,
    parts: Mapping[Path, Part],
    migrations: Iterable[MigrationReport],
    holders: Mapping[Path, int],
) -> Place:
    path, held_by = str(directory.relative_to(root)), holders.get(directory / "LOCK")
    part = parts.get(directory)
    if part is not None:
        return Place(directory, path, part.role, held_by, part.store_partition, part.segment_start_ms)
    own = (role_in(each.path, directory) for each in migrations if directory.is_relative_to(each.path))
    return Place(directory, path, next(own, ""), held_by)


def _database(place: Place, root: Path, *, digest: bool) -> DatabaseReport:
    directory = place.directory
    try:
        return database_report(place, digest=digest, strict=digest and directory == root)
    except Exception as error:
        known = as_migration_error(error)
        if known is None or directory == root:
            raise
        return damaged_database(place, known)


def _lone(root: Path, databases: list[Path], *, is_told: bool) -> list[PlaceReport]:
    """The one RocksDB directory that was named, where nothing around it tells whose it is."""
    if is_told or databases != [root]:
        return []
    around = recognise_around(root)
    if around is not None:
        return [around]
    sentence = "a RocksDB directory; no name around it tells whose"
    return [PlaceReport(path=root, system=STANDALONE.name, can_be_migrated=True, sentence=sentence)]


def _owners_of(holders: Mapping[Path, int]) -> tuple[OwnerReport, ...]:
    """Each process once, with the lock files that it holds."""
    files: dict[int, list[Path]] = {}
    for file, pid in holders.items():
        files.setdefault(pid, []).append(file)
    return tuple(OwnerReport(pid=pid, command=_command(pid), files=tuple(files[pid])) for pid in sorted(files))


def _command(pid: int) -> str:
    """As Linux tells it: the program's name alone, since arguments may hold secrets."""
    try:
        return Path("/proc", str(pid), "comm").read_text(encoding="utf-8", errors="replace").strip() if pid else ""
    except OSError:  # another system than Linux, or it has just ended
        return ""
