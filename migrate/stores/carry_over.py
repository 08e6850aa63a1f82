"""What lies in an old store's directory besides the database's own files: carried over, or left out by name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.files import copy_file, keep_owner, link_or_copy
from migrate.stores.regular_files import special_kind, walk
from migrate.stores.rocksdb.layout import is_immutable, unreadable


def _carry_over(source: Path, target: Path, *, leave_out: set[Path]) -> None:
    for here, folders, names in _walk(source):
        if here in leave_out:
            folders.clear()
            continue
        there = target / here.relative_to(source)
        there.mkdir(exist_ok=True)
        for name in names:
            file = here / name
            if file in leave_out or special_kind(file) is not None:
                continue  # a socket of a monitoring agent, say: no state, and nothing that can be copied
            if name == "LOCK":  # empty, and only its holder should ever open it
                (there / name).touch()
                shutil.copymode(file, there / name)
                keep_owner(file, there / name)
            elif is_immutable(name):
                link_or_copy(file, there / name)
            else:
                copy_file(file, there / name)
        if there != target:
            _as_it_was(here, there)


def _as_it_was(old: Path, new: Path) -> None:
    """Mode, times and owner of a directory."""
    shutil.copystat(old, new)
    keep_owner(old, new)


def check_can_be_carried_over(source: Path) -> None:
    """Raises RefusedError for what a copy of this state directory would silently lack."""
    for folder, folders, names in _walk(source):
        for name in (*folders, *names):
            path = folder / name
            if path.is_symlink():
                raise RefusedError(
                    f"{path} is a symbolic link, which [target] path cannot carry over",
                    hint="put what it leads to there itself, or leave [target] path out",
                )


def left_out(source: Path) -> list[tuple[Path, str]]:
    """What a copy of this state directory goes without, since it is no state, with what it is in words."""
    paths = (folder / name for folder, _, names in _walk(source) for name in names)
    return [(path, kind) for path in paths if (kind := special_kind(path)) is not None]


def _walk(source: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    try:
        yield from walk(source)
    except PermissionError as error:
        raise unreadable(Path(error.filename)) from error
