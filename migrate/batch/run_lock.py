"""The lock of a migration: one run at a time, and a check of it that does not take it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.files import make_directories

_LOCKS = Path("/proc/locks")


def pid_at_work(home: Path) -> int | None:
    """The process of this host that holds the migration's lock; 0: none does; None: the system does not report it.

    The kernel's list of locks is read: taking the lock, even shared and for an instant, would make a run that starts
    just then fail.
    """
    try:
        status = (home / "run.lock").stat()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    try:
        locks = _LOCKS.read_text(encoding="ascii")
    except OSError:
        return None
    return next((int(lock[4]) for lock in map(str.split, locks.splitlines()) if _is_of(lock, status)), 0)


def _is_of(lock: list[str], status: os.stat_result) -> bool:
    """Whether a line "1: FLOCK ADVISORY WRITE 4711 fe:00:9987684 0 EOF" is of this file; waiting ones have an arrow."""
    if len(lock) < 6 or lock[1] != "FLOCK":
        return False
    major, minor, inode = lock[5].split(":")
    if int(inode) != status.st_ino:
        return False
    here = (os.major(status.st_dev), os.minor(status.st_dev))
    return (int(major, 16), int(minor, 16)) == here or _has_open(lock[4], status)


def _has_open(pid: str, status: os.stat_result) -> bool:
    """Whether the process has the file open: on some file systems the list of locks has another device number."""
    try:
        return any(os.path.samestat(file.stat(), status) for file in Path("/proc", pid, "fd").iterdir())
    except OSError:
        return False


@contextmanager
def one_run_at_a_time(home: Path) -> Iterator[None]:
    """Hold the migration's lock, which ends with the process; a run that wrote nothing removes the folders it made.

    Raises RefusedError while another run of this host holds it. (A run of another host is fenced off by the ledger.)
    """
    made = [folder for folder in (home, *home.parents) if not folder.exists()]
    make_directories(home)
    file = home / "run.lock"
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = os.path.samestat(file.stat(), os.fstat(lock.fileno()))
        except (BlockingIOError, FileNotFoundError) as error:
            raise another_run(home) from error
        if not is_current:  # the run that held it has removed it, and another run has created it again
            raise another_run(home)
        try:
            yield
        finally:
            if home.is_dir() and [path.name for path in home.iterdir()] == [file.name]:
                file.unlink()
                with suppress(OSError):  # another process uses it by now
                    for folder in made:
                        folder.rmdir()
            fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough: a child being started elsewhere has it open too


def another_run(home: Path) -> RefusedError:
    """The error while another run of this host is at work."""
    pid = pid_at_work(home)
    return RefusedError(
        f"another run of this migration is at work in {home}" + (f", with pid {pid}" if pid else ""),
        hint="let it finish (stateferry status SPEC --watch follows it), or stop it, and run again",
    )
