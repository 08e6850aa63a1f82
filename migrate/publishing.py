"""Publishing: a complete new state directory at `[target] path`, all at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.files import (
    copy_file,
    fsync_directory,
    fsync_tree,
    keep_owner,
    link_or_copy,
    make_directories,
    own_like,
)
from migrate.stores.layout import is_immutable, unreadable
from migrate.stores.regular_files import special_kind, walk


def build_directory(source: Path, new_stores: dict[Path, Path], temporary: Path, *, is_alone: bool = False) -> None:
    """Make `temporary` a copy of the application's directory `source` with the new stores in place of the old.

    `is_alone`: the new stores and nothing else, where they are for another system.

    `new_stores`: path within the application's directory -> new store partition. SST files are hard-linked where the
    file system can; everything that is appended to is copied. Durable when it returns.
    """
    if temporary.exists():
        shutil.rmtree(temporary)
    make_directories(temporary.parent)
    temporary.mkdir(mode=0o700)  # until all that is in it has its owner and mode
    if not is_alone:
        _carry_over(source, temporary, leave_out={source / relative for relative in new_stores})
    for relative, new_store in new_stores.items():
        target = temporary / relative
        make_directories(target.parent)
        _carry_over(new_store, target, leave_out=set())
        own_like(source if is_alone else source / relative, target)
    _as_it_was(source, temporary)
    fsync_tree(temporary)


def rename_into_place(temporary: Path, target: Path) -> bool:
    """The one step that makes it visible; False where something appeared there meanwhile."""
    if target.exists():  # rename() would replace an empty directory
        return False
    temporary.rename(target)
    fsync_directory(target.parent)
    return True


def _carry_over(source: Path, target: Path, *, leave_out: set[Path]) -> None:
    for here, folders, names in _walk(source):
        if here in leave_out:
            folders.clear()
            continue
        there = target / here.relative_to(source)
        there.mkdir(exist_ok=True)
        for name in names:
            file = here / name
            if special_kind(file) is not None:
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
