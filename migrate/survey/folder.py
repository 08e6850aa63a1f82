"""The names in a directory, read once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Folder:
    """A directory as names alone. Raises OSError where it cannot be listed."""

    path: Path

    @cached_property
    def _entries(self) -> tuple[os.DirEntry[str], ...]:
        with os.scandir(self.path) as entries:
            return tuple(sorted(entries, key=lambda entry: entry.name))

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """Directories, without symbolic links."""
        return tuple(entry.name for entry in self._entries if entry.is_dir(follow_symlinks=False))

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Regular files, without symbolic links."""
        return tuple(entry.name for entry in self._entries if entry.is_file(follow_symlinks=False))

    @cached_property
    def links(self) -> tuple[str, ...]:
        """Symbolic links to directories."""
        return tuple(entry.name for entry in self._entries if entry.is_symlink() and Path(entry.path).is_dir())

    def inside(self, name: str) -> Folder:
        """One of the directories in it."""
        return Folder(self.path / name)
