"""Two slots against one, and memory that does not grow with the store."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder, finish, measure, start
from benchmarks.routes import ENGINE_NAMES, PORTABLE
from benchmarks.setting import LARGE, SMALL, Setting
from benchmarks.stores import HUGE, Store, ensure_store, key_of

SLOT_BARS = {
    "portable: Spark slots": 1.7,
    "native: threads": 1.8,
    "native: --jobs": 1.7,
    "native: Spark slots": 1.7,
}
MEMORY_BAR = 1.15
MOST_MIB = 300.0
SLOTS_RECORDS = 8_000_000
CHUNKS = 16
HUGE_RECORDS = 8


def slots(setting: Setting) -> list[Result]:
    """Two threads or processes of an engine alone, two `--jobs` and two Spark slots of the whole product."""
    store = setting.store(SMALL if setting.quick else SLOTS_RECORDS)
    result = Result("slots", f"{store.words}; {CHUNKS} chunks", ["what", "one, s", "two, s", "times"])
    result.notes.append("Wall time, medians; needs two idle cores: a busy neighbour shows here as a missing slot.")
    for engine in ENGINE_NAMES:
        alone = "processes" if engine == PORTABLE else "threads"
        measured = _in_processes if engine == PORTABLE else _in_threads
        _add_row(result, f"{engine}: {alone}", setting.rounds, partial(measured, setting, store, engine))
        rounds = setting.rounds if setting.quick else max(1, setting.rounds // 2)
        for what in ("--jobs", "Spark slots"):
            on_spark = what == "Spark slots"
            _add_row(result, f"{engine}: {what}", rounds, partial(_in_run, setting, store, engine, on_spark=on_spark))
    cluster = partial(_on_spark, setting, store, None)
    one, four = (cluster(f"local-cluster[{executors},1,1024]")["rewrite"] for executors in (1, 4))
    result.rows.append(["Spark: one executor, four executors", f"{one:.2f}", f"{four:.2f}", f"{one / four:.2f}"])
    return [result]


def _add_row(result: Result, what: str, rounds: int, seconds: Callable[[int], float]) -> None:
    pairs = [(seconds(1), seconds(2)) for _ in range(rounds)]
    times = statistics.median(one / two for one, two in pairs)
    one, two = (statistics.median(column) for column in zip(*pairs, strict=True))
    result.rows.append([what, f"{one:.2f}", f"{two:.2f}", f"{times:.2f}"])
    result.raw[what] = pairs
    if what in SLOT_BARS:
        result.bars.append(Bar(result.name, f"times one, {what}", SLOT_BARS[what], times))


def _in_processes(setting: Setting, store: Store, engine: str, count: int) -> float:
    """Seconds for the whole store, its chunks dealt out to so many processes."""
    edges = _edges(store, store.records // CHUNKS)
    share = CHUNKS // count
    with empty_folder(setting.folder) as folder:
        workers = []
        begun = time.perf_counter()
        for number in range(count):
            own = folder / str(number)
            own.mkdir()
            arguments = {"source": str(store.path), "folder": str(own), "engine": engine}
            workers.append(start("chunks", {**arguments, "edges": edges[number * share : (number + 1) * share + 1]}))
        for worker in workers:
            finish(worker)
        return time.perf_counter() - begun


def _in_threads(setting: Setting, store: Store, engine: str, count: int) -> float:
    """The same in so many threads of one process, without its start."""
    with empty_folder(setting.folder) as folder:
        arguments = {"source": str(store.path), "folder": str(folder), "engine": engine, "threads": count}
        return measure("engine-threads", {**arguments, "edges": _edges(store, store.records // CHUNKS)}).wall


def _in_run(setting: Setting, store: Store, engine: str, count: int, *, on_spark: bool) -> float:
    """Of a whole run: on Spark the rewriting, else the full verification too."""
    if on_spark:
        return _on_spark(setting, store, engine, f"local[{count}]")["rewrite"]
    with empty_folder(setting.folder) as folder:
        phases = measure_run(store, folder, engine=engine, jobs=count)["phases"]
    return phases["rewrite"] + phases["verify"]


def _on_spark(setting: Setting, store: Store, engine: str | None, master: str) -> dict[str, float]:
    with empty_folder(setting.folder) as folder:
        return measure_run(store, folder, engine=engine, master=master)["phases"]


def measure_run(
    store: Store, folder: Path, *, master: str | None = None, engine: str | None = None, jobs: int = 1
) -> dict[str, dict[str, float]]:
    """The facts of one run of the product with at least CHUNKS chunks; None: the engine that it chooses."""
    size = store.records * (len(key_of(0)) + store.shape.value_size)
    arguments = {
        "source": str(store.path),
        "folder": str(folder),
        "master": master,
        "chunk_size": size // CHUNKS,
        "engine": engine,
        "jobs": jobs,
    }
    return measure("run", arguments).facts


def memory(setting: Setting) -> list[Result]:
    """The peak resident memory of a worker process that rewrites a whole store, in chunks of one size."""
    few, many = (setting.store(records) for records in ((SMALL // 10, SMALL) if setting.quick else (SMALL, LARGE)))
    huge = ensure_store(setting.folder, HUGE, HUGE_RECORDS)
    result = Result("memory", f"One worker process, chunks of {few.records:,} records", ["route", "store", "peak MiB"])
    bare = {store: _peak(setting, store, "bare") for store in (many, huge)}
    result.rows = [["bare", store.words, f"{peak:.0f}"] for store, peak in bare.items()]
    for engine in ENGINE_NAMES:
        peaks = {store.words: _peak(setting, store, engine, few.records) for store in (few, many, huge)}
        peaks[f"{many.words}, a single chunk"] = _peak(setting, many, engine, many.records)
        result.rows += [[engine, words, f"{peak:.0f}"] for words, peak in peaks.items()]
        result.raw[engine] = peaks
        base, most = peaks[few.words], peaks[many.words]
        what = f"{engine}: times the memory for ten times the records ({many.records:,})"
        result.bars.append(Bar(result.name, what, MEMORY_BAR, most / base, "at most"))
        result.bars.append(Bar(result.name, f"{engine}: MiB of a worker", MOST_MIB, most, "at most"))
        mine, theirs = ((peak - base) / (HUGE.value_size / 2**20) for peak in (peaks[huge.words], bare[huge]))
        result.notes.append(
            f"{engine}: huge values take the memory of {mine:.1f} more of them, in the bare loop of {theirs:.1f}."
        )
    result.notes.append(
        "A chunk's memory grows with its records: RocksDB's SST writer keeps a hash and an index of them."
    )
    return [result]


def _peak(setting: Setting, store: Store, route: str, chunk_records: int = 0) -> float:
    """`chunk_records`: of an engine."""
    with empty_folder(setting.folder) as folder:
        arguments: dict[str, object] = {"source": str(store.path), "folder": str(folder)}
        if route not in ENGINE_NAMES:
            return measure("route", {**arguments, "name": route}).peak_mib
        edges = _edges(store, min(chunk_records, store.records))
        return measure("chunks", {**arguments, "edges": edges, "engine": route}).peak_mib


def _edges(store: Store, chunk_records: int) -> list[str | None]:
    inner = range(chunk_records, store.records, chunk_records)
    return [None, *(key_of(number).decode("ascii") for number in inner), None]
