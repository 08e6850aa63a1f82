"""`inspect`: whose directory it is and what it holds, read-only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from migrate.batch.home import MARKER
from migrate.batch.ledger.standing import StandingReader
from migrate.errors import CorruptionError, MigrationError, RefusedError, system_errors_explained
from migrate.stores.lock import lock_holders
from migrate.stores.regular_files import MAX_DEPTH, Folder
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.survey.applications import (
    LocatedApplication,
    StoreDatabase,
    application_around,
    application_at,
    application_places,
    databases_of,
    stores_of,
)
from migrate.survey.databases import Place, damaged_database, database_report
from migrate.survey.inspect_report import DatabaseReport, InspectReport, MigrationReport, OwnerReport, PlaceReport
from migrate.survey.other_systems import holds_databases, recognise
from migrate.systems import STANDALONE
from migrate.systems.task_tree import locks_above

_NAME_ONE = "name a state directory or a RocksDB directory"
_ROLES = {
    "snapshot": "the snapshot that a run converts",
    "new": "a new store, which no application uses",
    "old": "the old store, kept until `finalize`",
}


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
            *(warning for each in applications for warning in each.system.discovery.foreign_entries(each.path)),
        ),
    )


def _holders(found: WalkResult, applications: Iterable[LocatedApplication]) -> dict[Path, int]:
    locks = [lock for each in applications for lock in each.system.layout.lock_files(each.path, [])]
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
        system = store.application.system
        return Place(directory, path, store.role, held_by, store.store_partition, store.segment_start_ms, system)
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


@dataclass
class WalkResult:
    """The directories that a walk recognised, in the order of names."""

    databases: list[Path] = field(default_factory=list)
    applications: list[LocatedApplication] = field(default_factory=list)
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


def _recognise(folder: Folder, found: WalkResult) -> Path | LocatedApplication | PlaceReport | None:
    """What the directory is, which is added to `found`; None: nothing known."""
    if MARKER in folder.files:
        found.migrations.append(folder.path)
        return folder.path
    if (application := application_at(folder)) is not None:
        found.applications.append(application)
        return application
    if (place := recognise(folder)) is not None:
        found.others.append(place)
    return place


def migration_around(path: Path) -> Path | None:
    """The migration's folder that is, or contains, `path`."""
    for folder in (path, *path.parents[:6]):
        with suppress(OSError):
            if MARKER in Folder(folder).files:
                return folder
    return None


def role_in(home: Path, directory: Path) -> str:
    """The role of a RocksDB directory in a migration's folder, for people; empty: not known."""
    place, *rest = directory.relative_to(home).parts
    if place == "new":
        rest = rest[1:]  # the run's id
    if place.startswith("snapshot-"):
        return "an unfinished snapshot, which the next run removes"
    what = _ROLES.get(place)
    return "" if what is None else f"migration {home.name}: {what}, {'/'.join(rest)}"


def migration_report(home: Path) -> MigrationReport:
    """The state of a migration, read from its folder alone; `error` says why it cannot be read."""
    snapshot = home / "snapshot"
    found = MigrationReport(path=home, name=home.name, state=None, snapshot=snapshot if snapshot.is_dir() else None)
    try:
        standing = StandingReader(home).read()
        plan = standing.plan
        facts: dict[str, object] = {"state": standing.state}
        if plan is not None:
            facts |= {
                "chunks_planned": len(plan.chunks),
                "chunks_left": len(standing.pending),
                "records_in": standing.totals.records_in,
                "store_partitions": tuple(partition.id for partition in plan.store_partitions),
                "last_commit_ms": standing.last_commit_ms,
            }
    except MigrationError as error:
        facts = {"error": error.message}
    return found.model_copy(update=facts)


def migration_place(found: MigrationReport) -> PlaceReport:
    """The report of a migration's folder as a place."""
    sentence = f"Stateferry: the folder of the migration {found.name}, {found.state or 'whose state cannot be read'}"
    return PlaceReport(path=found.path, system="stateferry", sentence=sentence)
