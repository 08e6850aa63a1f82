"""The marker that makes the migration's folder ours: written with it, checked by every verb (I11)."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from migrate.batch.home import ABANDONED, LOCK, MARKER, check_files, is_ours, is_unfinished, remove_content
from migrate.errors import RefusedError
from migrate.stores.files import make_directories, protect_like, write_durably
from migrate.stores.rocksdb.layout import is_rocksdb_file

MARKER_SCHEMA = 1
_ELSEWHERE = "choose another work_dir, or another `name`"


def check_ours(home: Path) -> None:
    """Raises RefusedError if the migration's folder exists and is not ours; nothing is written."""
    if home.is_symlink():
        raise RefusedError(
            f"{home} is a symbolic link, which cannot be a migration's own folder",
            hint=f"{_ELSEWHERE}; a work_dir may be a link",
        )
    check_files(home)
    if not home.exists() or (home / MARKER).is_file() or is_abandoned(home):
        return  # `claim` makes a damaged marker anew
    if not home.is_dir():
        raise RefusedError(f"{home} is a file, and is needed as the migration's own folder", hint=_ELSEWHERE)
    if not _is_unused(home):
        raise RefusedError(
            f"{home} is not Stateferry's: it holds {_first_foreign(home)!r}, and no marker of a migration",
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
    """Whether the marker exists and is intact."""
    try:
        return "folder_id" in json.loads(file.read_bytes())
    except (OSError, ValueError, TypeError):
        return False


def _is_unused(home: Path) -> bool:
    """Whether the folder is empty, but for what a run that was killed at its start leaves."""
    return all(is_unfinished(path) or _is_bare_lock(path) for path in home.iterdir())


def _is_bare_lock(path: Path) -> bool:
    return path.name == LOCK and path.is_file() and path.stat().st_size == 0


def _first_foreign(home: Path) -> str:
    names = sorted(path.name for path in home.iterdir() if not is_ours(path))
    return next(iter(names), min(path.name for path in home.iterdir()))
