"""Who holds a lock file, asked without taking it.

POSIX record locks belong to a process: opening and closing a lock file in the process that holds it drops the lock.
So the file is probed in a child process only, by F_GETLK on a read-only descriptor, which also tells the holder's pid.
RocksDB's LOCK and Kafka Streams' `.lock` (a Java FileChannel lock) are both of this kind.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from migrate.errors import RefusedError, StoreLockedError

# struct flock of 64-bit Linux: short type, short whence, off_t start, off_t len, pid_t pid; macOS: offsets first.
_PROBE = """
import fcntl, json, struct, sys
layout, at_type, at_pid = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi4x", 0, 4)
held = {}
for path in json.load(sys.stdin):
    try:
        with open(path, "rb") as file:
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
    """The lock files that a process holds now, with its pid (0: not of this host). Missing files are free."""
    names = [str(path) for path in files]
    child = subprocess.run(
        [sys.executable, "-IS", "-c", _PROBE], input=json.dumps(names), capture_output=True, text=True, check=False
    )
    if child.returncode != 0:
        reason = child.stderr.strip().rpartition("\n")[2]
        raise RefusedError(f"cannot probe the lock files: {reason}", hint="run as the application's user")
    return {Path(name): pid for name, pid in json.loads(child.stdout).items()}


def check_unlocked(files: Iterable[Path]) -> None:
    """Raises StoreLockedError naming the first lock file that is held, and by whom."""
    for path, pid in lock_holders(files).items():
        raise StoreLockedError(
            f"{path} is held by process {pid}" if pid else f"{path} is held by a process of another host",
            pid=pid,
            hint="stop the application (all instances and standbys), then run the command again",
        )
