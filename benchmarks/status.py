"""How soon `stateferry status` answers: the whole command, process start included."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Bar, Result
from benchmarks.rounds import ROOT, empty_folder, measure
from benchmarks.setting import Setting

CHUNKS = 1000
BAR = 0.5
_COMMAND = "from migrate.cli import main; main()"
_ROUNDS = 9


@dataclass(frozen=True, slots=True)
class _Spent:
    wall: float
    cpu: float


def status(setting: Setting) -> list[Result]:
    """Of a migration of 1 000 chunks, each committed on its own, beside a process that does nothing."""
    with empty_folder(setting.folder) as folder:
        spec = str(folder / "migration.toml")
        measure("many-commits", {"folder": str(folder), "chunks": CHUNKS})
        commands = {
            "a Python that does nothing": ["pass"],
            "`stateferry --help`": [_COMMAND, "--help"],
            "`stateferry status`": [_COMMAND, "status", spec],
            "`stateferry status --json`": [_COMMAND, "status", spec, "--json"],
        }
        spent: dict[str, list[_Spent]] = {name: [] for name in commands}
        for _ in range(max(_ROUNDS, setting.rounds)):
            for name, arguments in commands.items():
                spent[name].append(_run(arguments))
    title = f"A ledger of {CHUNKS:,} chunks in {CHUNKS:,} commits"
    result = Result("status", title, ["command", "wall s, median", "best", "CPU s, median", "best"])
    for name, each in spent.items():
        walls, cpus = [one.wall for one in each], [one.cpu for one in each]
        figures = (statistics.median(walls), min(walls), statistics.median(cpus), min(cpus))
        result.rows.append([name, *(f"{figure:.3f}" for figure in figures)])
        result.raw[name] = {"wall": walls, "cpu": cpus}
    median = statistics.median(one.cpu for one in spent["`stateferry status`"])
    result.bars.append(Bar(result.name, "seconds of CPU, process start included", BAR, median, "at most"))
    return [result]


def _run(arguments: list[str]) -> _Spent:
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, code, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise RuntimeError(f"{process.args!r} failed with exit code {process.returncode}")
    return _Spent(wall, usage.ru_utime + usage.ru_stime)


def many_commits(folder: str, chunks: int) -> dict[str, object]:
    """A plan and a ledger as a run leaves them, and the files that it vouches for; not a measurement."""
    from benchmarks.ledgers import make_migration

    make_migration(Path(folder), chunks)
    return {}


JOBS = {"many-commits": many_commits}
