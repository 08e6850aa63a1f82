"""Whether a run is at work, asked without touching its lock."""

from __future__ import annotations

import os
from pathlib import Path

_LOCKS = Path("/proc/locks")


def is_run_at_work(home: Path) -> bool | None:
    """Whether a process of this host holds the migration's lock; None: this system does not tell.

    The kernel's own list of locks is read: to try the lock, if only for an instant, and be it shared, would turn a run
    away that starts just then.
    """
    try:
        status = (home / "run.lock").stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        locks = _LOCKS.read_text(encoding="ascii")
    except OSError:
        return None
    return any(_is_of(line.split(), status) for line in locks.splitlines())


def _is_of(lock: list[str], status: os.stat_result) -> bool:
    """One line: "1: FLOCK ADVISORY WRITE 4711 fe:00:9987684 0 EOF"; a lock that is waited for has an arrow first."""
    if len(lock) < 6 or lock[1] != "FLOCK":
        return False
    major, minor, inode = lock[5].split(":")
    if int(inode) != status.st_ino:
        return False
    here = (os.major(status.st_dev), os.minor(status.st_dev))
    return (int(major, 16), int(minor, 16)) == here or _has_open(lock[4], status)


def _has_open(pid: str, status: os.stat_result) -> bool:
    """Some file systems give each volume a device number that the list of locks does not know."""
    try:
        return any(os.path.samestat(file.stat(), status) for file in Path("/proc", pid, "fd").iterdir())
    except OSError:
        return False
