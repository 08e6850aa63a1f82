"""Process trees, as the system knows them: whose child, which command, and an end for all of them."""

import os
import signal
import subprocess
from contextlib import suppress


def parent_of(pid: int) -> int:
    return int(_ps("ppid", pid))


def command_of(pid: int) -> str:
    """The command line; empty where there is no such process."""
    return _ps("args", pid)


def _ps(column: str, pid: int) -> str:
    command = ["ps", "-ww", "-o", f"{column}=", "-p", str(pid)]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def kill_session(leader: int) -> None:
    """SIGKILL to every process group of a session: pyspark's daemon and its workers have one of their own."""
    for pid in session_of(leader):
        with suppress(ProcessLookupError):
            os.killpg(os.getpgid(pid), signal.SIGKILL)


def session_of(leader: int) -> list[int]:
    """The processes of a session."""
    listed = subprocess.run(["ps", "-e", "-o", "pid="], capture_output=True, text=True, check=True)
    return [pid for pid in map(int, listed.stdout.split()) if _leader_of(pid) == leader]


def _leader_of(pid: int) -> int | None:
    with suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid)
    return None
