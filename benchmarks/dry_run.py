"""The dry run: quick and small on a sample, as fast as the conversion itself over all records."""

from __future__ import annotations

import statistics

from benchmarks.results import Bar, Result
from benchmarks.rounds import Sample, empty_folder, measure
from benchmarks.setting import SMALL, Setting

CPU_BAR = 3.0
MEMORY_BAR = 200.0
FULL_BAR = 0.8


def dry_run(setting: Setting) -> list[Result]:
    """A sample's processor time and memory; `full` beside the rewriting that a run does, in the same rounds."""
    store = setting.store(SMALL)
    result = Result("dry run", store.words, ["what", "CPU, s", "wall, s", "peak MiB", "M records/s of CPU"])
    arguments = {"source": str(store.path)}
    sampled, full, rewritten = [], [], []
    for _ in range(setting.rounds):
        sampled.append(measure("dry-run", {**arguments, "full": False}))
        full.append(measure("dry-run", {**arguments, "full": True}))
        with empty_folder(setting.folder) as folder:
            rewritten.append(measure("chunks", {**arguments, "folder": str(folder), "edges": [None, None]}))
    for what, samples in (("sample", sampled), ("full", full), ("the run's rewriting", rewritten)):
        result.rows.append(_row(what, samples, store.records))
    result.raw = {"sample, CPU s": [each.cpu for each in sampled], "sample, MiB": [each.peak_mib for each in sampled]}
    rounds = zip(sampled, full, rewritten, strict=True)
    times = statistics.median(theirs.cpu / (mine.cpu - sample.cpu) for sample, mine, theirs in rounds)
    result.bars = [
        Bar(result.name, "seconds of CPU on a sample", CPU_BAR, statistics.median(s.cpu for s in sampled), "at most"),
        Bar(result.name, "MiB on a sample", MEMORY_BAR, max(s.peak_mib for s in sampled), "at most"),
        Bar(result.name, "MiB over all records", MEMORY_BAR, max(s.peak_mib for s in full), "at most"),
        Bar(result.name, "times the rewriting's rate, over all records", FULL_BAR, times),
    ]
    result.notes.append("The bar for all records leaves out the seconds of the sample, which both dry runs try first.")
    return [result]


def _row(what: str, samples: list[Sample], records: int) -> list[str]:
    cpu = statistics.median(each.cpu for each in samples)
    wall = statistics.median(each.wall for each in samples)
    rate = "" if what == "sample" else f"{records / cpu / 1e6:.2f}"
    return [what, f"{cpu:.2f}", f"{wall:.2f}", f"{max(each.peak_mib for each in samples):.0f}", rate]
