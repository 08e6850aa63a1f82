"""What surrounds the engine: verification, and a whole run from the spec to the published store."""

from __future__ import annotations

from benchmarks.results import Bar, Result, raw_series
from benchmarks.rounds import empty_folder, measure, take_turns
from benchmarks.scaling import measure_run
from benchmarks.setting import PER_CORE, SMALL, Setting

DIGEST_BAR = 1.0
_MASTERS = {"in process": None, "Spark, two slots": "local[2]"}


def verify(setting: Setting) -> list[Result]:
    """Every kind of verification, through the product, of one chunk that is the whole store."""
    store = setting.store(SMALL)
    with empty_folder(setting.folder) as folder:
        arguments = {"source": str(store.path), "folder": str(folder)}
        measure("prepare", arguments)
        modes = ("digest", "digest and scan", "full")
        series = take_turns(
            setting.rounds, modes, store.records, lambda mode, _: measure("verify", {**arguments, "mode": mode})
        )
    result = Result("verify", store.words, ["mode", "M records/s of CPU", "M records/s of wall"])
    result.rows = [
        [mode, f"{one.rate('cpu') / 1e6:.2f}", f"{one.rate('wall') / 1e6:.2f}"] for mode, one in series.items()
    ]
    result.raw = {mode: raw_series(one) for mode, one in series.items()}
    result.notes.append(PER_CORE)
    reached = series["digest"].rate("cpu") / 1e6
    result.bars.append(Bar(result.name, "M records/s, digest, per core", DIGEST_BAR, reached))
    return [result]


def run(setting: Setting) -> list[Result]:
    """A whole run, phase by phase, with full verification."""
    store = setting.store(setting.sizes[-1])
    result = Result("run", store.words, ["where", "phase", "seconds", "of the run"])
    for where, master in _MASTERS.items():
        with empty_folder(setting.folder) as folder:
            facts = measure_run(store, folder, master=master)
        _add_rows(result, where, facts, 1 if master is None else 2)
        result.raw[where] = facts
    return [result]


def _add_rows(result: Result, where: str, facts: dict[str, dict[str, float]], slots: int) -> None:
    phases = facts["phases"]
    total = sum(phases.values())
    tasks = float(str(facts["task_seconds"])) / slots
    commits = float(str(facts["chunk_commit_seconds"]))
    lines = {
        **phases,
        "(of rewrite: beyond the chunk tasks)": phases["rewrite"] - tasks,
        "(of rewrite: committing chunks)": commits,
        "total": total,
    }
    result.rows += [[where, name, f"{seconds:.2f}", f"{seconds / total:.1%}"] for name, seconds in lines.items()]
    result.notes.append(f"{where}: {facts['chunks']} chunks.")
