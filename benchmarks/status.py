"""How soon `stateferry status` answers: the whole command, process start included."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import CLI, Spent, run_command
from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder, measure
from benchmarks.setting import Setting

_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class _Ledger:
    """A migration's size, and how soon its commands have to answer: seconds of CPU, process start included."""

    chunks: int
    chunks_of_commit: int
    bars: dict[str, float]


_LEDGERS = (
    _Ledger(1_000, 1, {"`stateferry status`": 0.5}),
    _Ledger(10_000, 20, {"`stateferry status`": 1.0, "`stateferry report`": 1.0}),
)


def status(setting: Setting) -> list[Result]:
    """Of many chunks, in commits of one chunk and of as many as a quarter of a second brings."""
    return [_status(setting, ledger) for ledger in _LEDGERS]


def _status(setting: Setting, ledger: _Ledger) -> Result:
    with empty_folder(setting.folder) as folder:
        spec = str(folder / "migration.toml")
        arguments = {"folder": str(folder), "chunks": ledger.chunks, "chunks_of_commit": ledger.chunks_of_commit}
        measure("many-commits", arguments)
        commands = {
            "a Python that does nothing": [sys.executable, "-c", "pass"],
            "`stateferry --help`": [*CLI, "--help"],
            "`stateferry status`": [*CLI, "status", spec],
            "`stateferry status --json`": [*CLI, "status", spec, "--json"],
            "`stateferry report`": [*CLI, "report", spec],
        }
        spent: dict[str, list[Spent]] = {name: [] for name in commands}
        for _ in range(max(_ROUNDS, setting.rounds)):
            for name, words in commands.items():
                spent[name].append(run_command(words))
    title = f"A ledger of {ledger.chunks:,} chunks, {ledger.chunks_of_commit} in each commit"
    columns = ["command", "wall s, median", "best", "CPU s, median", "best"]
    result = Result(f"status, {ledger.chunks:,} chunks", title, columns)
    for name, each in spent.items():
        walls, cpus = [one.wall for one in each], [one.cpu for one in each]
        figures = (statistics.median(walls), min(walls), statistics.median(cpus), min(cpus))
        result.rows.append([name, *(f"{figure:.3f}" for figure in figures)])
        result.raw[name] = {"wall": walls, "cpu": cpus}
    for name, bar in ledger.bars.items():
        median = statistics.median(one.cpu for one in spent[name])
        result.bars.append(Bar(result.name, f"seconds of CPU, {name}", bar, median, "at most"))
    return result


def many_commits(folder: str, chunks: int, chunks_of_commit: int) -> dict[str, object]:
    """A plan and a ledger as a run leaves them, and the files that it vouches for; not a measurement."""
    from benchmarks.ledgers import make_migration

    make_migration(Path(folder), chunks, chunks_of_commit)
    return {}


JOBS = {"many-commits": many_commits}
