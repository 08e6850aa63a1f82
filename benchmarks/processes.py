"""What other processes took: a command's time, and the memory of every process that a measurement starts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rounds import ROOT, finish

CLI = [sys.executable, "-c", "from migrate.cli import main; main()"]
"""The command `stateferry`."""
_PAUSE = 0.1
_MIB_OF_KIB = 1 / 1024


@dataclass(frozen=True, slots=True)
class Spent:
    """A command's time."""

    wall: float
    cpu: float
    """Of the command and of those that it waited for."""


def run_command(command: list[str]) -> Spent:
    """From its start to its end. Raises RuntimeError where it fails."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, code, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise RuntimeError(f"{process.args!r} failed with exit code {process.returncode}")
    return Spent(wall, usage.ru_utime + usage.ru_stime)


def peaks_of(worker: subprocess.Popen[str]) -> dict[str, float]:
    """The highest resident MiB of a process of each kind that a measurement has: driver, JVM, worker."""
    peaks: defaultdict[str, float] = defaultdict(float)
    with _watched(worker.pid, peaks):
        peaks["driver"] = finish(worker).peak_mib
    return dict(peaks)


@contextmanager
def _watched(root: int, peaks: defaultdict[str, float]) -> Iterator[None]:
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_PAUSE):
            for pid, kind in _children(root):
                peaks[kind] = max(peaks[kind], _peak_mib(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _children(root: int) -> Iterator[tuple[int, str]]:
    """The JVM and Python's workers below a process. The daemon is only where workers are forked."""
    listed = subprocess.run(["ps", "-e", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    kinds = {root: "driver"}
    for line in listed.stdout.splitlines():
        pid, parent, command = line.split(None, 2)
        if int(parent) in kinds and "pyspark.daemon" in command:
            kinds[int(pid)] = "worker"
        elif int(parent) in kinds and "/java " in command:
            kinds[int(pid)] = "JVM"
    del kinds[root]
    yield from kinds.items()


def _peak_mib(pid: int) -> float:
    """0 for a process that has ended meanwhile."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * _MIB_OF_KIB
    return 0.0
