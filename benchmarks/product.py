"""What surrounds the engine: a whole run from the spec to the published store."""

from __future__ import annotations

from benchmarks.results import Result
from benchmarks.rounds import empty_folder
from benchmarks.scaling import measure_run
from benchmarks.setting import Setting

_MASTERS = {"in process": None, "Spark, two slots": "local[2]"}


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
