"""Cost that stays flat: many chunks, many SST files, many store partitions, many records, and Spark's start."""

from __future__ import annotations

import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.durability import PARTITION_RECORDS, make_application
from benchmarks.processes import CLI, Spent, peaks_of, run_command
from benchmarks.results import Bar, Result
from benchmarks.rounds import ROOT, Sample, empty_folder, measure, start
from benchmarks.setting import Setting
from benchmarks.stores import TABLES, Store, ensure_store, key_of
from jobs.java import find_java_home

CHUNK_BAR = 1.3
CHUNK_MS_BARS = {None: 15.0, "local[2]": 25.0}
"""By the master."""
TABLES_BAR = 1.2
PLAN_BAR = 10.0
PARTITIONS_BAR = 11.0
PARTITION_MS_BAR = 20.0
SWITCH_BAR = 5.0
"""For 1 000 store partitions."""
MEMORY_BAR = 1.3
START_BAR = 6.0
CHUNK_RECORDS = 100


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the chunks of a run are made, and how they are verified."""

    name: str
    master: str | None
    verify: str = "full"


_PLACES = (
    _Place("in process", None),
    _Place("in process, digest", None, "digest"),
    _Place("local[2]", "local[2]"),
)


def chunks(setting: Setting) -> list[Result]:
    """The last chunks of a directory beside the first ones: rewriting, and verification."""
    count, window = (2_000, 400) if setting.quick else (10_000, 1_000)
    store = setting.store(count * CHUNK_RECORDS)
    columns = ["where", "phase, clock", "ms a chunk", f"the first {window:,}", f"the last {window:,}", "times"]
    result = Result("chunks", f"{store.words} in chunks of {CHUNK_RECORDS} records", columns)
    for place in _PLACES:
        with empty_folder(setting.folder) as folder:
            settings = {"chunk_size": _chunk_size(store, count), "verify": place.verify}
            arguments = {"source": str(store.path), "folder": str(folder), "master": place.master}
            run = measure("watched-run", {**arguments, "settings": settings, "window": window})
        _add_chunks(result, place, run.facts)
        result.notes.append(f"{place.name}: {run.facts['chunks']:,} chunks, {run.peak_mib:.0f} MiB in the driver.")
        result.raw[place.name] = run.facts
    result.notes.append("CPU is that of the driver's Python, which is all there is in process.")
    result.notes.append(
        "A full verification works in ranges of 16 MiB or more, a few in all: their time is divided among the chunks, "
        "and says nothing about the first and the last of them. By digest, each chunk has a task."
    )
    return [result]


def _add_chunks(result: Result, place: _Place, facts: dict[str, Any]) -> None:
    for phase in ("rewrite", "verify"):
        is_each = phase == "rewrite" or place.verify == "digest"
        for clock, spent in facts[phase].items():
            figures = [spent[name] * 1000 for name in ("all", "first", "last")] + [spent["last"] / spent["first"]]
            cells = [f"{figure:.2f}" for figure in figures] if is_each else [f"{figures[0]:.2f}", "", "", ""]
            result.rows.append([place.name, f"{phase}, {clock}", *cells])
        spent = facts[phase]["wall"]
        what, bar = f"{phase}, {place.name}", CHUNK_MS_BARS[place.master]
        if is_each:
            times = spent["last"] / spent["first"]
            result.bars.append(Bar(result.name, f"times the first, {what}", CHUNK_BAR, times, "at most"))
        result.bars.append(Bar(result.name, f"ms a chunk, {what}", bar, spent["all"] * 1000, "at most"))


def _chunk_size(store: Store, chunks: int) -> int:
    return store.records * (len(key_of(0)) + store.shape.value_size) // chunks


def _arguments(store: Store, folder: Path, chunks: int) -> dict[str, object]:
    return {"source": str(store.path), "folder": str(folder), "chunk_size": _chunk_size(store, chunks)}


def tables(setting: Setting) -> list[Result]:
    """A store of many SST files, in many chunks and in two; and what planning those files takes."""
    files, many = (4_000, 16) if setting.quick else (16_000, 64)
    store = ensure_store(setting.folder, TABLES, files * TABLES.records_of_file)
    found = len(list(store.path.glob("*.sst")))
    result = Result("tables", f"{store.words} in {found:,} SST files", ["what", "plan, s", "rewrite, s", "verify, s"])
    ratios, planned = [], []
    for number in range(min(3, setting.rounds)):
        seconds = {count: _phases(setting, store, count) for count in (many, 2)}
        ratios.append(_work(seconds[many]) / _work(seconds[2]))
        planned += [phases["plan"] for phases in seconds.values()]
        for count, phases in seconds.items():
            cells = [f"{phases[name]:.2f}" for name in ("plan", "rewrite", "verify")]
            result.rows.append([f"{count} chunks, round {number + 1}", *cells])
            result.raw[result.rows[-1][0]] = phases
    with empty_folder(setting.folder) as folder:
        spec = write_spec(folder, store.path)
        shell = run_command([*CLI, "plan", str(spec)])
    result.rows.append(["`stateferry plan`, from the shell", f"{shell.wall:.2f}", "", ""])
    times = statistics.median(ratios)
    slowest = max(planned)
    result.bars = [
        Bar(result.name, f"times the time of 2 chunks, in {many}", TABLES_BAR, times, "at most"),
        Bar(result.name, "seconds of `stateferry plan`, from the shell", PLAN_BAR, shell.wall, "at most"),
        Bar(result.name, "seconds of a run's planning", PLAN_BAR, slowest, "at most"),
    ]
    return [result]


def _phases(setting: Setting, store: Store, chunks: int) -> dict[str, float]:
    with empty_folder(setting.folder) as folder:
        return dict(measure("run", {**_arguments(store, folder, chunks), "master": None}).facts["phases"])


def _work(phases: dict[str, float]) -> float:
    return phases["rewrite"] + phases["verify"]


def write_spec(folder: Path, source: Path) -> Path:
    """A migration's file, with every setting at its default."""
    file = folder / "migration.toml"
    file.write_text(
        f'name = "benchmark"\nwork_dir = "work"\n[source]\nformat = "kafka-streams.key-value"\npath = "{source}"\n'
        '[target]\nformat = "kafka-streams.timestamped-key-value"\npath = "published"\n',
        encoding="utf-8",
    )
    return file


def partitions(setting: Setting) -> list[Result]:
    """Ten times the tasks of an application: the run, the cut-over and the way back."""
    counts = (20, 200) if setting.quick else (100, 1_000)
    columns = [
        "tasks",
        "run, s",
        "ms each",
        "CPU ms each",
        "plan, s",
        "rewrite, s",
        "assemble, s",
        "verify, s",
        "cutover, s",
        "rollback, s",
    ]
    result = Result("partitions", f"Store partitions of {PARTITION_RECORDS:,} records, in process", columns)
    runs: dict[int, Sample] = {}
    with empty_folder(setting.folder) as parent:
        # Removed at the end: ext4 without a journal makes files slowly where many were removed in the last minute.
        for count in counts:
            folder = parent / str(count)
            folder.mkdir()
            arguments = {"folder": str(folder), "application": str(make_application(folder, count))}
            run = runs[count] = measure("run-in-place", arguments)
            switched = measure("switch", arguments).facts
            phases = run.facts["phases"]
            cells = [run.wall, *(1000 * seconds / count for seconds in (run.wall, run.cpu))]
            cells += [*(phases[name] for name in ("plan", "rewrite", "assemble", "verify")), *switched.values()]
            result.rows.append([str(count), *(f"{cell:.2f}" for cell in cells)])
            result.raw[str(count)] = {**phases, **switched, "seconds": run.wall}
    few, many = counts
    times, each = runs[many].wall / runs[few].wall, 1000 * runs[many].wall / many
    result.bars = [
        Bar(result.name, f"times {few} tasks, of {many:,}", PARTITIONS_BAR, times, "at most"),
        Bar(result.name, f"ms a task of {many:,}, the whole run", PARTITION_MS_BAR, each, "at most"),
    ]
    for verb in ("cutover", "rollback"):
        what = f"seconds, {verb} of {many:,} tasks"
        result.bars.append(Bar(result.name, what, SWITCH_BAR * many / 1000, switched[verb], "at most"))
    return [result]


def memory(setting: Setting) -> list[Result]:
    """Ten times the records in ten times the chunks: each process at its peak."""
    few, many = (setting.store(n) for n in ((500_000, 5_000_000) if setting.quick else (5_000_000, 50_000_000)))
    title = f"Peak resident memory, MiB; chunks of {few.records // 8:,} records"
    result = Result("growth-memory", title, ["process", f"{few.records:,} records", f"{many.records:,}", "times"])
    for place in (_PLACES[0], _PLACES[-1]):
        small, large = (_peaks(setting, store, place, store.records * 8 // few.records) for store in (few, many))
        for kind in small:
            times = large[kind] / small[kind]
            what = f"{kind}, {place.name}"
            result.rows.append([what, f"{small[kind]:.0f}", f"{large[kind]:.0f}", f"{times:.2f}"])
            result.bars.append(Bar(result.name, f"times the memory, {what}", MEMORY_BAR, times, "at most"))
        result.raw[place.name] = [small, large]
    return [result]


def _peaks(setting: Setting, store: Store, place: _Place, chunks: int) -> dict[str, float]:
    with empty_folder(setting.folder) as folder:
        return peaks_of(start("run", {**_arguments(store, folder, chunks), "master": place.master}))


def start_of_spark(setting: Setting) -> list[Result]:
    """A migration of 10 000 records from the shell: the first run may fill caches, the others use them."""
    store = setting.store(10_000)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # spark-submit looks for python3, and in PATH
    os.environ.setdefault("JAVA_HOME", str(find_java_home()))
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    commands = {
        "`stateferry run --no-spark`": [*CLI, "run", "SPEC", "--no-spark"],
        "`stateferry run --master local[2]`": [*CLI, "run", "SPEC", "--master", "local[2]"],
        "`spark-submit --master local[2]`": [*submit, str(ROOT / "jobs/migrate_job.py"), "--spec", "SPEC"],
    }
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
    columns = ["command", "first, s", "then, wall s, median", "best"]
    result = Result("start", f"{store.words}, from the shell", columns)
    for name, command in commands.items():
        first = _run_once(setting, store, command)
        then = [_run_once(setting, store, command) for _ in range(min(3, setting.rounds))]
        walls = [one.wall for one in then]
        figures = (first.wall, statistics.median(walls), min(walls))
        result.rows.append([name, *(f"{figure:.2f}" for figure in figures)])
        result.raw[name] = {"first": first.wall, "wall": walls}
        if "--master" in command and "run" in command:
            result.bars.append(Bar(result.name, f"seconds, {name}", START_BAR, statistics.median(walls), "at most"))
    return [result]


def _run_once(setting: Setting, store: Store, command: list[str]) -> Spent:
    with empty_folder(setting.folder) as folder:
        spec = str(write_spec(folder, store.path))
        return run_command([spec if word == "SPEC" else word for word in command])
