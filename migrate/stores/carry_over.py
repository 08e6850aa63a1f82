"""Copying a state directory to the published one, and what such a copy cannot have.

SST files are hard-linked where the file system can, everything else is copied with mode, times and owner. Entries
without content (a socket of a monitoring agent, say) are left out and reported; symbolic links are refused beforehand.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.files import copy_file, keep_owner, link_or_copy
from migrate.stores.regular_files import special_kind, walk
from migrate.stores.rocksdb.layout import is_immutable, unreadable


def carry_over(source: Path, target: Path, *, leave_out: Collection[Path] = ()) -> None:
    """Copy a directory tree into the directory `target`, except the directories `leave_out`."""
    for here, folders, names in _walk(source):
        if here in leave_out:
            folders.clear()
            continue
        there = target / here.relative_to(source)
        there.mkdir(exist_ok=True)
        for name in names:
            file = here / name
            if special_kind(file) is not None:
                continue
            if name == "LOCK":  # empty, and opening it would drop a lock that this process holds
                (there / name).touch()
                shutil.copymode(file, there / name)
                keep_owner(file, there / name)
            elif is_immutable(name):
                link_or_copy(file, there / name)
            else:
                copy_file(file, there / name)
        if there != target:
            copy_attributes(here, there)


def copy_attributes(old: Path, new: Path) -> None:
    """Give the directory `new` the mode, times and owner of `old`."""
    shutil.copystat(old, new)
    keep_owner(old, new)


def check_can_be_carried_over(source: Path) -> None:
    """Raises RefusedError for a symbolic link in the state directory, which a copy would not have."""
    for folder, folders, names in _walk(source):
        for name in (*folders, *names):
            path = folder / name
            if path.is_symlink():
                raise RefusedError(
                    f"{path} is a symbolic link, which cannot be copied to [target] path",
                    hint="replace it with the file or directory itself, or leave [target] path out",
                )


def left_out(source: Path) -> list[tuple[Path, str]]:
    """(path, kind in words) of the entries without content, which a copy of the state directory does not have."""
    paths = (folder / name for folder, _, names in _walk(source) for name in names)
    return [(path, kind) for path in paths if (kind := special_kind(path)) is not None]


def _walk(source: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    try:
        yield from walk(source)
    except PermissionError as error:
        raise unreadable(Path(error.filename)) from error
