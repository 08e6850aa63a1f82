"""Reading directories with arbitrary content: only regular files are opened, and the depth of walks is limited.

Opening a pipe waits for its writer, and reading a device may never end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from migrate.errors import RefusedError

MAX_DEPTH = 64
"""Levels of directories below one that is walked: no stream processor nests more than five."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link that leads nowhere",
}


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or the one that a link leads to, for reading.

    Raises RefusedError for anything else, OSError where it cannot be opened.
    """
    check_regular(path)  # it may be replaced by then: so the opening does not wait
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def read_regular(path: Path) -> bytes:
    """The content of a regular file. Raises RefusedError, OSError."""
    with open_regular(path) as file:
        return file.read()


def check_regular(path: Path) -> None:
    """Raises RefusedError for an entry that is no regular file, FileNotFoundError where there is none."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = path.lstat().st_mode
    except OSError:
        if not path.is_symlink():
            raise
        mode = stat.S_IFLNK  # it leads to itself
    if not stat.S_ISREG(mode):
        raise RefusedError(
            f"{path} is {_KINDS.get(stat.S_IFMT(mode), 'no file')}, where a regular file belongs",
            hint="move it away; if a file of the store was here, restore that one",
        )


def check_directory(path: Path, *, hint: str) -> None:
    """Raises RefusedError with this hint for a path that leads to no directory."""
    if not path.is_dir():
        raise RefusedError(f"{path} {'is not a directory' if path.exists() else 'does not exist'}", hint=hint)


def special_kind(path: Path) -> str | None:
    """The kind of an entry without content: a socket, a pipe or a device; None: a file, directory or link."""
    mode = path.lstat().st_mode
    is_state = stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
    return None if is_state else _KINDS.get(stat.S_IFMT(mode), "no file")


def walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """(directory, directories in it, other entries in it), top down; as in os.walk, removing a directory from the list
    skips it.

    Raises RefusedError where directories are nested too deep, OSError where one cannot be listed.
    """
    for folder, folders, names in os.walk(root, onerror=_raise):
        here = Path(folder)
        if len(here.relative_to(root).parts) > MAX_DEPTH:
            raise RefusedError(
                f"{root} has directories nested more than {MAX_DEPTH} deep, which no state directory has",
                hint="move those away: they are not the application's",
            )
        yield here, folders, names


def _raise(error: OSError) -> None:
    raise error


@dataclass(frozen=True)
class Folder:
    """The names in a directory, by kind. Raises OSError where it cannot be listed."""

    path: Path

    @cached_property
    def _entries(self) -> tuple[os.DirEntry[str], ...]:
        with os.scandir(self.path) as entries:
            return tuple(sorted(entries, key=lambda entry: entry.name))

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """Names of directories, without symbolic links."""
        return tuple(entry.name for entry in self._entries if entry.is_dir(follow_symlinks=False))

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Names of regular files, without symbolic links."""
        return tuple(entry.name for entry in self._entries if entry.is_file(follow_symlinks=False))

    @cached_property
    def links(self) -> tuple[str, ...]:
        """Names of symbolic links to directories."""
        return tuple(entry.name for entry in self._entries if entry.is_symlink() and Path(entry.path).is_dir())

    def inside(self, name: str) -> Folder:
        return Folder(self.path / name)
