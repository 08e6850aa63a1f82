"""Every name in the migration's own folder, marker and plans, and removal by name: nothing else in it is ours (I11)."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from migrate.errors import RefusedError
from migrate.model.plan import PLAN_SCHEMA, Plan, coverage_flaw, newest_plan
from migrate.model.values import StoredKind, read_sealed, with_seal
from migrate.spec.changelog_source import RESTORED
from migrate.stores.files import fsync_directory, make_directories, protect_like, remove_tree, write_durably
from migrate.stores.regular_files import check_regular, read_regular
from migrate.stores.rocksdb.layout import is_rocksdb_file

MARKER = "stateferry-folder.json"
"""The file that marks the folder as ours, written before anything else."""
ABANDONED = "stateferry-abandoned.json"
"""The marker's name during `abandon`, until everything else is removed."""
LOCK = "run.lock"
LEDGER, LEDGER_DAMAGED = "ledger", "ledger-damaged"
SNAPSHOT, CHUNKS, NEW, OLD = "snapshot", "chunks", "new", "old"
RESTORED_RECORD = "restored.json"
"""What was read of the changelog from which the old store, in RESTORED, was made."""
IMPORTED_RECORD = "imported.json"
"""The table whose rows the new store is made from; RESTORED has an empty old store then."""
DAMAGED_CHUNKS = "chunks-damaged"
"""Files of chunks that were damaged after their commit, with their receipts."""
CHANGELOG = "changelog"
"""The sorted runs made from changelogs: `changelog/<store partition>/...`, in files `*.sst`."""
OVERLAYS = "overlays"
"""In that folder, with a run's id: what that run has applied to its new stores."""
CHECKED_CHUNK = ".checked-chunk"
"""The folder of a chunk's file while it is checked."""
DEAD_LETTERS, UNFINISHED_DEAD_LETTERS = "dead-letters", "dead-letters.tmp"
SIDE_FILE = "side-file.tmp"
"""A side file of the application while it is written."""
_RUN = "[0-9a-f]{12}"
_PLAN = r"plan-\d{4,}\.json"
_ANSWERS = r"registry-answers\.json"
_RESTORED = f"{re.escape(RESTORED_RECORD)}|{re.escape(IMPORTED_RECORD)}"
_MARKERS = f"{re.escape(MARKER)}|{re.escape(ABANDONED)}"
_UNFINISHED = re.compile(rf"\.({_PLAN}|{_ANSWERS}|{_RESTORED}|{_MARKERS})\.\d+\.tmp|{re.escape(SIDE_FILE)}")
_PROBE = re.compile(r"\.exchange-\w+")
_ATTEMPT = re.compile(rf"\.?{_RUN}-.+\.(sst|receipt\.json|parquet|breadcrumb|tmp)")
_SORTED_RUN = re.compile(r"[\w.-]+\.sst")
_RECORD = re.compile(r"snapshot\.json|\.snapshot\.json\.\d+\.tmp")
_TABLE_FILE = re.compile(r"part-.+\.parquet.*|\.?\d{20}\..+|_last_checkpoint.*|_commit_.+\.tmp.*|_digests\.json")
_FILES = re.compile(f"{_PLAN}|{_ANSWERS}|{_RESTORED}|{re.escape(LOCK)}|{_MARKERS}")
_CHECKPOINT = re.compile(r"\.checkpoint(?:\.rec)?|\.\.checkpoint\.\d+\.tmp")
_UNFINISHED_SNAPSHOT = re.compile(rf"{SNAPSHOT}-{_RUN}\.tmp")
_TABLES = (LEDGER, LEDGER_DAMAGED, DEAD_LETTERS, UNFINISHED_DEAD_LETTERS)
_LAST = (LOCK, MARKER, ABANDONED)
_OF_STORES = (SNAPSHOT, CHUNKS, DAMAGED_CHUNKS, CHECKED_CHUNK, CHANGELOG, RESTORED, NEW, OLD)
MARKER_SCHEMA = 1
_ELSEWHERE = "choose another work_dir, or another `name`"
_RECOVERY = (
    "restore the file, or remove it and rerun: the same migration is planned again, and what is finished is kept; "
    "stateferry abandon SPEC starts again, and removes our files and nothing else"
)


def is_run_folder(name: str) -> bool:
    """Whether the name can be a run's id, by which a run names its folder."""
    return re.fullmatch(_RUN, name) is not None


def is_ours(path: Path) -> bool:
    """Whether an entry of the migration's folder has a name, and is of the kind, that we create."""
    name = path.name
    if path.is_symlink():
        return False
    if path.is_dir():
        of_stores = name in _OF_STORES or _UNFINISHED_SNAPSHOT.fullmatch(name) is not None
        return of_stores or name in _TABLES or _PROBE.fullmatch(name) is not None
    return (_FILES.fullmatch(name) or _UNFINISHED.fullmatch(name)) is not None


def check_files(home: Path) -> None:
    """Raises RefusedError where a pipe, directory or the like has the name of one of our files: to open it may hang."""
    if home.is_dir():
        for path in filter(lambda path: _FILES.fullmatch(path.name), home.iterdir()):
            with suppress(FileNotFoundError):  # removed by another command meanwhile
                check_regular(path)


def is_unfinished(path: Path) -> bool:
    """Whether it is a file of ours under a temporary name."""
    return path.is_file() and not path.is_symlink() and _UNFINISHED.fullmatch(path.name) is not None


def remove_unfinished(home: Path) -> None:
    """Remove what a killed command was writing under a temporary name."""
    remove_tree(home / UNFINISHED_DEAD_LETTERS)
    remove_folder(home, CHECKED_CHUNK)
    for path in home.iterdir():
        if is_unfinished(path):
            path.unlink(missing_ok=True)
        elif _UNFINISHED_SNAPSHOT.fullmatch(path.name):
            remove_folder(home, path.name)
        elif _PROBE.fullmatch(path.name):
            _remove_made(path, _never)


def remove_folder(home: Path, name: str) -> None:
    """Remove what has names of ours in one of our folders of stores or chunks, and the folder once it is empty.

    In OLD, whose stores are the application's, only empty directories are removed: see `remove_store`.
    """
    folder = home / name
    if name == NEW and folder.is_dir() and not folder.is_symlink():
        for run in folder.iterdir():
            if is_run_folder(run.name):
                _remove_made(run, _is_made)
    _remove_made(folder, _IN_FOLDER.get(name, _is_made))


def remove_store(folder: Path) -> None:
    """Remove RocksDB's files from a store partition's directory in our folder, and the directory once it is empty."""
    _remove_made(folder, is_rocksdb_file)


def remove_sorted_runs(folder: Path) -> None:
    """Remove what has names of sorted runs from a directory in CHANGELOG, and the directory once it is empty."""
    _remove_made(folder, _is_of_a_changelog)


def remove_table(folder: Path) -> None:
    """Remove a Delta table's files from a directory of that name, and the directory once it is empty."""
    _remove_made(folder, _is_of_a_table)


def is_store_alone(folder: Path) -> bool:
    """Whether a store partition's directory holds nothing but RocksDB's files."""
    return all(is_rocksdb_file(leaf.name) for leaf in _leaves(folder))


def remove_all(home: Path) -> tuple[Path, ...]:
    """Remove everything of ours, the markers last, and the folder if it is empty then; returns what is not ours."""
    left = remove_content(home)
    for name in _LAST:
        (home / name).unlink(missing_ok=True)
    remove_if_empty(home)
    return left


def remove_content(home: Path) -> tuple[Path, ...]:
    """Remove everything of ours but the lock and the markers, durably; returns what is not ours."""
    for path in [path for path in home.iterdir() if path.name not in _LAST and is_ours(path)]:
        if path.name in _TABLES:
            remove_table(path)
        elif path.is_dir():
            remove_folder(home, path.name)
        else:
            path.unlink(missing_ok=True)
    fsync_directory(home)
    return foreign_in(home)


def foreign_in(home: Path) -> tuple[Path, ...]:
    """Everything that is not ours, after the removal of what is: in the folder, and in our folders within it."""
    found: list[Path] = []
    for path in sorted(home.iterdir()):
        if not is_ours(path):
            found.append(path)
        elif path.is_dir():
            is_kept = _is_of_a_table if path.name in _TABLES else _never
            found += sorted(leaf for leaf in _leaves(path) if not is_kept(leaf.name))
    return tuple(found)


def remove_if_empty(folder: Path) -> None:
    """Remove a directory that we made, if it is empty."""
    with suppress(OSError):
        folder.rmdir()


def _leaves(folder: Path) -> Iterator[Path]:
    for inside, folders, names in os.walk(folder):
        yield from (Path(inside, name) for name in names)
        yield from (path for name in folders if (path := Path(inside, name)).is_symlink())


def _remove_made(folder: Path, is_made: Callable[[str], bool]) -> None:
    """Remove the files that `is_made` names, and directories that are empty then. No link is followed."""
    if folder.is_symlink():
        return
    for inside, _, names in os.walk(folder, topdown=False):
        for name in filter(is_made, names):
            Path(inside, name).unlink(missing_ok=True)
        remove_if_empty(Path(inside))


def _is_made(name: str) -> bool:
    """Whether the name is one that RocksDB, a chunk attempt or a snapshot gives to a file."""
    return is_rocksdb_file(name) or (_ATTEMPT.fullmatch(name) or _RECORD.fullmatch(name)) is not None


def _is_of_a_changelog(name: str) -> bool:
    return is_rocksdb_file(name) or (_ATTEMPT.fullmatch(name) or _SORTED_RUN.fullmatch(name)) is not None


def _is_restored(name: str) -> bool:
    return _is_of_a_changelog(name) or _CHECKPOINT.fullmatch(name) is not None


def _is_of_a_table(name: str) -> bool:
    return _TABLE_FILE.fullmatch(name) is not None


def _never(_: str) -> bool:
    return False


_IN_FOLDER: dict[str, Callable[[str], bool]] = {
    NEW: _never,
    OLD: _never,
    CHANGELOG: _is_of_a_changelog,
    RESTORED: _is_restored,
}
"""Which files are removed from a folder of ours; others: those of chunks and snapshots."""


def temporary_directories(target: Path | None, runs: set[str] | None = None) -> list[Path]:
    """The directories that killed runs (these, or any) were building beside the target."""
    if target is None or not target.parent.is_dir():
        return []
    prefix = temporary_directory(target, "").name
    found = [folder for folder in target.parent.iterdir() if folder.name.startswith(prefix)]
    return [folder for folder in found if runs is None or folder.name.removeprefix(prefix) in runs]


def temporary_directory(target: Path, run: str) -> Path:
    """Where a run builds the new state directory, beside the target, before it is renamed."""
    return target.with_name(f".{target.name}.stateferry-{run}")


def check_ours(home: Path) -> None:
    """Raises RefusedError if the migration's folder exists and is not ours; nothing is written."""
    if home.is_symlink():
        raise RefusedError(
            f"{home} is a symbolic link, which cannot be a migration's own folder",
            hint=f"{_ELSEWHERE}; a work_dir may be a link",
        )
    check_files(home)
    if not home.exists() or (home / MARKER).is_file() or is_abandoned(home):
        return  # `claim` writes a damaged marker again
    if not home.is_dir():
        raise RefusedError(f"{home} is a file, and is needed as the migration's own folder", hint=_ELSEWHERE)
    unknown = sorted(path for path in home.iterdir() if not _is_left_at_the_start(path))
    if unknown:
        first = next((path.name for path in unknown if not is_ours(path)), unknown[0].name)
        raise RefusedError(
            f"{home} is not Stateferry's: it holds {first!r}, and no marker of a migration",
            hint=f"{_ELSEWHERE}; or move its content elsewhere; if it is a migration's, make an empty file {MARKER}",
        )


def is_usable(home: Path) -> bool:
    """Whether the migration's folder is ours or does not exist yet, and no `abandon` was killed in it."""
    try:
        check_ours(home)
    except RefusedError:
        return False
    return not is_abandoned(home)


def is_abandoned(home: Path) -> bool:
    """Whether an `abandon` was killed here: the rest of the migration is void."""
    return (home / ABANDONED).is_file() and not (home / MARKER).exists()


def finish_abandoned(home: Path) -> None:
    """Finish a killed `abandon`; the caller holds the migration's lock.

    Raises RefusedError if files that are not ours remain.
    """
    if is_abandoned(home):
        remove_content(home)
        (home / ABANDONED).unlink()
        check_ours(home)


def claim(home: Path, source: Path) -> None:
    """Write the marker into the folder, durably, before anything else; make the folder if needed.

    The folder gets the access rights of the application's directory `source`. The caller holds the migration's lock,
    and has called `check_ours`. A folder with the marker is left unchanged.
    """
    if _is_marked(home / MARKER):
        return
    make_directories(home)
    protect_like(source, home, is_rocksdb_file)
    marker = {"schema_version": MARKER_SCHEMA, "folder_id": uuid.uuid4().hex}
    write_durably(home / MARKER, json.dumps(marker).encode())


def _is_marked(file: Path) -> bool:
    try:
        return "folder_id" in json.loads(file.read_bytes())
    except (OSError, ValueError, TypeError):
        return False


def _is_left_at_the_start(path: Path) -> bool:
    """Whether a run that was killed at its start leaves this in the folder."""
    return is_unfinished(path) or (path.name == LOCK and path.is_file() and path.stat().st_size == 0)


def store_plan(home: Path, plan: Plan) -> None:
    """Write the plan, durably, with its digest. Raises ValueError for one that breaks I3."""
    if (flaw := coverage_flaw(plan)) is not None:
        raise ValueError(f"the plan does not cover the store: {flaw}")
    write_durably(home / f"plan-{plan.revision:04d}.json", with_seal(plan.model_dump_json(indent=1)).encode())


def parse_record(kind: type[StoredKind], file: Path, content: bytes, hint: str) -> StoredKind:
    """The sealed record that a file holds. Raises RefusedError with this hint where it is damaged."""
    text, is_whole = read_sealed(content)
    try:
        if is_whole:
            return kind.model_validate_json(text)
        reason = "it does not have the digest that it names"
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
    raise RefusedError(f"{file} is damaged, or of a newer Stateferry: {reason}", hint=hint)


def load_plan(home: Path) -> Plan | None:
    """The newest plan revision, or None. Raises RefusedError for one of a newer schema or a damaged one."""
    file = newest_plan(home)
    if file is None:
        return None
    content, is_whole = read_sealed(read_regular(file))
    try:
        plan = Plan.model_validate_json(content)
    except ValidationError as error:
        _refuse_newer_schema(file, content)
        first = error.errors()[0]
        raise _damaged(file, ": ".join([*map(str, first["loc"]), first["msg"]])) from error
    if not is_whole:
        raise _damaged(file, "its content does not have the digest that it names")
    if (flaw := coverage_flaw(plan)) is not None:
        raise _damaged(file, flaw)
    return plan


def _refuse_newer_schema(file: Path, content: str) -> None:
    version = re.search(r'"schema_version": ?(\d+)', content)
    if version is not None and int(version[1]) > PLAN_SCHEMA:
        raise RefusedError(
            f"{file} has schema {int(version[1])}, this version knows {PLAN_SCHEMA}",
            hint="use the newer Stateferry that wrote it",
        )


def _damaged(file: Path, reason: str) -> RefusedError:
    return RefusedError(f"{file} is damaged: {reason}", hint=_RECOVERY)
