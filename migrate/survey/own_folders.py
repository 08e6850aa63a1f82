"""The folders of migrations in a work_dir: state, and the role of each RocksDB directory in them."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from migrate.batch.home import MARKER
from migrate.batch.ledger.standing import StandingReader
from migrate.errors import MigrationError
from migrate.stores.regular_files import Folder
from migrate.survey.report import MigrationReport, PlaceReport

_PLAN = re.compile(r"plan-\d{4,}\.json")
_ROLES = {
    "snapshot": "the snapshot that a run converts",
    "new": "a new store, which no application uses",
    "old": "the old store, kept until `finalize`",
}


def is_migration(folder: Folder) -> bool:
    """Whether it is a migration's folder: it has the marker, or an earlier release's plan, ledger or snapshot."""
    if MARKER in folder.files:
        return True
    is_planned = any(_PLAN.fullmatch(name) for name in folder.files)
    if "ledger" in folder.folders and (is_planned or "run.lock" in folder.files):
        return True
    with suppress(PermissionError):
        return "snapshot" in folder.folders and "snapshot.json" in folder.inside("snapshot").files
    return False


def migration_around(path: Path) -> Path | None:
    """The migration's folder that is, or contains, `path`."""
    for folder in (path, *path.parents[:6]):
        with suppress(OSError):
            if is_migration(Folder(folder)):
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
