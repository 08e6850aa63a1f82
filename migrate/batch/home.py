"""Every name in the migration's own folder, and removal by these names: what bears another one is not ours (I11)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from migrate.stores.files import fsync_directory
from migrate.stores.regular_files import check_regular
from migrate.stores.rocksdb.layout import is_rocksdb_file

MARKER = "stateferry-folder.json"
"""What makes the folder ours: in it from the start."""
ABANDONED = "stateferry-abandoned.json"
"""The marker's name once the migration is given up, until all else is removed."""
LOCK = "run.lock"
LEDGER, LEDGER_DAMAGED = "ledger", "ledger-damaged"
SNAPSHOT, CHUNKS, NEW, OLD = "snapshot", "chunks", "new", "old"
DAMAGED_CHUNKS = "chunks-damaged"
"""Files of chunks that were damaged after they were committed, and their receipts."""
CHECKED_CHUNK = ".checked-chunk"
"""A chunk's file while it is read again."""
DEAD_LETTERS, UNFINISHED_DEAD_LETTERS = "dead-letters", "dead-letters.tmp"
SIDE_FILE = "side-file.tmp"
"""A side file of the application on its way to its place."""
_RUN = "[0-9a-f]{12}"
_PLAN = r"plan-\d{4,}\.json"
_ANSWERS = r"registry-answers\.json"
_MARKERS = f"{re.escape(MARKER)}|{re.escape(ABANDONED)}"
_UNFINISHED = re.compile(
    rf"\.({_PLAN}|{_ANSWERS}|{_MARKERS})\.\d+\.tmp|{re.escape(SIDE_FILE)}"
    r"|\.\.checkpoint\.tmp|\..+\.position\.tmp"  # an earlier release's side files
)
_PROBE = re.compile(r"\.exchange-\w+")
_ATTEMPT = re.compile(rf"\.?{_RUN}-.+\.(sst|receipt\.json|parquet|breadcrumb|tmp)")
_RECORD = re.compile(r"snapshot\.json|\.snapshot\.json\.\d+\.tmp")
_TABLE_FILE = re.compile(r"part-.+\.parquet.*|\.?\d{20}\..+|_last_checkpoint.*|_commit_.+\.tmp.*|_digests\.json")
_FILES = re.compile(f"{_PLAN}|{_ANSWERS}|{re.escape(LOCK)}|{_MARKERS}")
_RUN_FOLDER = re.compile(_RUN)
_UNFINISHED_SNAPSHOT = re.compile(rf"{SNAPSHOT}-{_RUN}\.tmp")
_TABLES = (LEDGER, LEDGER_DAMAGED, DEAD_LETTERS, UNFINISHED_DEAD_LETTERS)
_LAST = (LOCK, MARKER, ABANDONED)
_OF_STORES = (SNAPSHOT, CHUNKS, DAMAGED_CHUNKS, CHECKED_CHUNK, NEW, OLD)


def is_run_folder(name: str) -> bool:
    """Whether a run of ours may have made a folder of this name: its id."""
    return _RUN_FOLDER.fullmatch(name) is not None


def is_ours(path: Path) -> bool:
    """Whether we give this name in the migration's folder to what stands there."""
    name = path.name
    if path.is_symlink():
        return False
    if path.is_dir():
        of_stores = name in _OF_STORES or _UNFINISHED_SNAPSHOT.fullmatch(name) is not None
        return of_stores or name in _TABLES or _PROBE.fullmatch(name) is not None
    return (_FILES.fullmatch(name) or _UNFINISHED.fullmatch(name)) is not None


def check_files(home: Path) -> None:
    """Raises RefusedError where a pipe, a directory or the like has the name of a file of ours: opening it may hang."""
    if home.is_dir():
        for path in filter(lambda path: _FILES.fullmatch(path.name), home.iterdir()):
            with suppress(FileNotFoundError):  # another command has just removed it
                check_regular(path)


def is_unfinished(path: Path) -> bool:
    """Whether it is a file of ours under a name for the time being."""
    return path.is_file() and not path.is_symlink() and _UNFINISHED.fullmatch(path.name) is not None


def unfinished_snapshots(home: Path) -> list[Path]:
    """What runs that were killed have left of theirs."""
    return [path for path in home.glob(f"{SNAPSHOT}-*.tmp") if _UNFINISHED_SNAPSHOT.fullmatch(path.name)]


def remove_unfinished(home: Path) -> None:
    """What a killed command was writing under a name for the time being."""
    remove_folder(home, CHECKED_CHUNK)
    for path in home.iterdir():
        if is_unfinished(path):
            path.unlink(missing_ok=True)
        elif path.is_dir() and not path.is_symlink() and _PROBE.fullmatch(path.name):
            _remove_made(path, _never)


def remove_folder(home: Path, name: str) -> None:
    """Remove one of our folders of stores or chunks, as far as what is in it bears names of ours.

    Of OLD, which is the application's, directories that are empty alone: `remove_store` is for what they held.
    """
    folder = home / name
    if folder.is_symlink() or not folder.is_dir():
        return
    if name == NEW:
        for run in folder.iterdir():
            if is_run_folder(run.name) and not run.is_symlink():
                _remove_made(run, _is_made)
    _remove_made(folder, _never if name in (NEW, OLD) else _is_made)


def remove_store(folder: Path) -> None:
    """Remove a store partition's directory that stands in our folder: RocksDB's files alone."""
    if folder.is_dir() and not folder.is_symlink():
        _remove_made(folder, is_rocksdb_file)


def is_store_alone(folder: Path) -> bool:
    """Whether RocksDB's files are all that is in a store partition's directory."""
    return all(is_rocksdb_file(leaf.name) for leaf in _leaves(folder))


def remove_all(home: Path) -> tuple[Path, ...]:
    """Remove all that is ours, the markers last, and the folder unless something stays: returns what is not ours."""
    left = remove_content(home)
    for name in _LAST:
        (home / name).unlink(missing_ok=True)
    remove_if_empty(home)
    return left


def remove_content(home: Path) -> tuple[Path, ...]:
    """Remove all that is ours but the lock and the markers, durably; returns what is not ours."""
    for path in [path for path in home.iterdir() if path.name not in _LAST and is_ours(path)]:
        if path.name in _TABLES:
            _remove_made(path, _is_of_a_table)
        elif path.is_dir():
            remove_folder(home, path.name)
        else:
            path.unlink(missing_ok=True)
    fsync_directory(home)
    return foreign_in(home)


def foreign_in(home: Path) -> tuple[Path, ...]:
    """What is not ours, once what is has been removed: beside our names, and within our folders of stores."""
    found: list[Path] = []
    for path in sorted(home.iterdir()):
        if not is_ours(path):
            found.append(path)
        elif path.is_dir():
            is_kept = _is_of_a_table if path.name in _TABLES else _never
            found += sorted(leaf for leaf in _leaves(path) if not is_kept(leaf.name))
    return tuple(found)


def remove_if_empty(folder: Path) -> None:
    """Remove a directory that we made, unless something is in it."""
    with suppress(OSError):
        folder.rmdir()


def _leaves(folder: Path) -> Iterator[Path]:
    for inside, folders, names in os.walk(folder):
        yield from (Path(inside, name) for name in names)
        yield from (path for name in folders if (path := Path(inside, name)).is_symlink())


def _remove_made(folder: Path, is_made: Callable[[str], bool]) -> None:
    """Files of these names, and the directories that are empty then. No link is followed."""
    for inside, _, names in os.walk(folder, topdown=False):
        for name in filter(is_made, names):
            Path(inside, name).unlink(missing_ok=True)
        remove_if_empty(Path(inside))


def _is_made(name: str) -> bool:
    """Whether RocksDB, an attempt or a snapshot gives a file this name."""
    return is_rocksdb_file(name) or (_ATTEMPT.fullmatch(name) or _RECORD.fullmatch(name)) is not None


def _is_of_a_table(name: str) -> bool:
    return _TABLE_FILE.fullmatch(name) is not None


def _never(_: str) -> bool:
    return False


def temporary_directories(target: Path | None, runs: set[str] | None = None) -> list[Path]:
    """What these runs, or any, were building beside the target when they were killed."""
    if target is None or not target.parent.is_dir():
        return []
    prefix = _temporary(target, "").name
    found = [folder for folder in target.parent.iterdir() if folder.name.startswith(prefix)]
    return [folder for folder in found if runs is None or folder.name.removeprefix(prefix) in runs]


def _temporary(target: Path, run: str) -> Path:
    return target.with_name(f".{target.name}.stateferry-{run}")
