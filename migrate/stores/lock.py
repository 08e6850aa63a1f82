"""Which process holds a lock file, found without taking the lock; and holding lock files.

POSIX record locks belong to a process: opening and closing a lock file in the process that holds it drops the lock.
So the file is probed in a child process, by F_GETLK on a read-only descriptor, which also returns the holder's pid.
RocksDB's LOCK and Kafka Streams' `.lock` (a Java FileChannel lock) are both of this kind.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from migrate.errors import RefusedError, StoreLockedError
from migrate.stores.regular_files import check_regular

# struct flock of 64-bit Linux: short type, short whence, off_t start, off_t len, pid_t pid; macOS: offsets first.
_PROBE = """
import fcntl, json, os, struct, sys
layout, at_type, at_pid = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi4x", 0, 4)
held = {}
for path in json.load(sys.stdin):
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            fields = [0] * 5
            fields[at_type] = fcntl.F_WRLCK
            answer = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(layout, *fields))
        fields = struct.unpack(layout, answer)
        if fields[at_type] != fcntl.F_UNLCK:
            held[path] = max(fields[at_pid], 0)
    except FileNotFoundError:
        continue
json.dump(held, sys.stdout)
"""


def lock_holders(files: Iterable[Path]) -> dict[Path, int]:
    """The lock files that a process holds, with its pid (0: on another host). Missing files are free.

    Raises RefusedError for an entry that is no file, or cannot be read.
    """
    paths = [path for path in files if path.exists()]
    for path in paths:
        check_regular(path)
    if not paths:
        return {}
    names = [str(path) for path in paths]
    child = subprocess.run(
        [sys.executable, "-IS", "-c", _PROBE], input=json.dumps(names), capture_output=True, text=True, check=False
    )
    if child.returncode != 0:
        reason = child.stderr.strip().rpartition("\n")[2]
        raise RefusedError(f"cannot probe the lock files: {reason}", hint="run as the application's user")
    return {Path(name): pid for name, pid in json.loads(child.stdout).items()}


_HOLD = """
import fcntl, json, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = []
try:
    for path in json.loads(sys.stdin.readline()):
        try:
            file = open(path, "r+b")
        except FileNotFoundError:
            continue
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held.append(file)
    print("held", flush=True)
except OSError as error:
    print(error, flush=True)
sys.stdin.read()
"""


def holds_for_us(pid: int) -> bool:
    """Whether a process is one of `holding_locks`, of this or another command: it writes to no store."""
    try:
        return _HOLD.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


@contextmanager
def holding_locks(files: Iterable[Path]) -> Iterator[Callable[[], None]]:
    """Hold these lock files, as their owner would, in a child process; missing ones are not created.

    Yields a check that no owner has meanwhile taken a lock file that was missing. Raises StoreLockedError.
    """
    paths = list(files)
    check_unlocked(paths)
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", _HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        print(json.dumps([str(path) for path in paths]), file=child.stdin, flush=True)
        if (refused := child.stdout.readline().strip()) != "held":
            check_unlocked(paths)
            raise RefusedError(f"cannot hold the lock files: {refused}", hint="run as the application's user")

        def check() -> None:
            if child.poll() is not None:
                raise RefusedError("the process that held the lock files has died", hint="run the command again")
            check_unlocked(paths, but=child.pid)

        try:
            yield check
        finally:
            child.kill()


def check_unlocked(files: Iterable[Path], *, but: int | None = None) -> None:
    """Raises StoreLockedError for the first lock file that is held, with its holder; `but`: a pid that may hold it."""
    for path, pid in lock_holders(files).items():
        if pid == but:
            continue
        raise StoreLockedError(
            f"{path} is held by process {pid}" if pid else f"{path} is held by a process of another host",
            pid=pid,
            hint="stop the application (all instances and standbys), then run the command again",
        )
