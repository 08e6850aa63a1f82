"""Two slots against one, and memory that does not grow with the store."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder, finish, measure, start
from benchmarks.setting import LARGE, SMALL, Setting
from benchmarks.stores import HUGE, Store, ensure_store, key_of

SLOTS_BAR = 1.7
MEMORY_BAR = 1.15
SLOTS_RECORDS = 8_000_000
CHUNKS = 16
HUGE_RECORDS = 8


def slots(setting: Setting) -> list[Result]:
    """The engine alone in one process and in two; the whole product on Spark with one slot and with two."""
    store = setting.store(SMALL if setting.quick else SLOTS_RECORDS)
    result = Result("slots", f"{store.words}; {CHUNKS} chunks", ["what", "one, s", "several, s", "times"])
    result.notes.append("Wall time, medians; needs two idle cores: a busy neighbour shows here as a missing slot.")
    engine = [(_processes(setting, store, 1), _processes(setting, store, 2)) for _ in range(setting.rounds)]
    _add_row(result, "engine: one process, two", engine)
    rounds = setting.rounds if setting.quick else max(1, setting.rounds // 2)
    spark = [(_on_spark(setting, store, "local[1]"), _on_spark(setting, store, "local[2]")) for _ in range(rounds)]
    times = _add_row(result, "Spark: a run's rewriting, one slot, two", spark)
    result.bars.append(Bar(result.name, "times one slot, rewriting on Spark", SLOTS_BAR, times))
    one, four = (_on_spark(setting, store, f"local-cluster[{executors},1,1024]") for executors in (1, 4))
    _add_row(result, "Spark: one executor, four executors", [(one, four)])
    return [result]


def _add_row(result: Result, what: str, pairs: list[tuple[float, float]]) -> float:
    times = statistics.median(one / two for one, two in pairs)
    one, two = (statistics.median(column) for column in zip(*pairs, strict=True))
    result.rows.append([what, f"{one:.2f}", f"{two:.2f}", f"{times:.2f}"])
    result.raw[what] = pairs
    return times


def _processes(setting: Setting, store: Store, count: int) -> float:
    """Seconds for the whole store, its chunks dealt out to so many processes."""
    edges = _edges(store, store.records // CHUNKS)
    share = CHUNKS // count
    with empty_folder(setting.folder) as folder:
        for number in range(count):
            (folder / str(number)).mkdir()
        begun = time.perf_counter()
        workers = [
            start(
                "chunks",
                {
                    "source": str(store.path),
                    "folder": str(folder / str(n)),
                    "edges": edges[n * share : (n + 1) * share + 1],
                },
            )
            for n in range(count)
        ]
        for worker in workers:
            finish(worker)
        return time.perf_counter() - begun


def _on_spark(setting: Setting, store: Store, master: str) -> float:
    with empty_folder(setting.folder) as folder:
        return float(measure_run(store, folder, master=master)["phases"]["rewrite"])


def measure_run(store: Store, folder: Path, *, master: str | None) -> dict[str, dict[str, float]]:
    """The facts of one run of the product with at least CHUNKS chunks."""
    size = store.records * (len(key_of(0)) + store.shape.value_size)
    arguments = {
        "source": str(store.path),
        "folder": str(folder),
        "master": master,
        "chunk_size": size // CHUNKS,
    }
    return measure("run", arguments).facts


def memory(setting: Setting) -> list[Result]:
    """The peak resident memory of a worker process that rewrites a whole store, in chunks of one size."""
    few, many = (setting.store(records) for records in ((SMALL // 10, SMALL) if setting.quick else (SMALL, LARGE)))
    huge = ensure_store(setting.folder, HUGE, HUGE_RECORDS)
    result = Result("memory", f"One worker process, chunks of {few.records:,} records", ["route", "store", "peak MiB"])
    peaks = {
        (route, store.words): _peak(setting, store, route, few.records if route == "engine" else store.records)
        for route, store in (("engine", few), ("engine", many), ("bare", many), ("engine", huge), ("bare", huge))
    }
    peaks["engine, a single chunk", many.words] = _peak(setting, many, "engine", many.records)
    result.rows = [[*names, f"{peak:.0f}"] for names, peak in peaks.items()]
    result.raw = {", ".join(names): peak for names, peak in peaks.items()}
    base = peaks["engine", few.words]
    what = f"times the memory for ten times the records ({many.records:,})"
    result.bars.append(Bar(result.name, what, MEMORY_BAR, peaks["engine", many.words] / base, "at most"))
    mine, theirs = ((peaks[route, huge.words] - base) / (HUGE.value_size / 2**20) for route in ("engine", "bare"))
    result.notes.append(f"Huge values take the memory of {mine:.1f} more of them, in the bare loop of {theirs:.1f}.")
    result.notes.append(
        "A chunk's memory grows with its records: RocksDB's SST writer keeps a hash and an index of them."
    )
    return [result]


def _peak(setting: Setting, store: Store, route: str, chunk_records: int) -> float:
    with empty_folder(setting.folder) as folder:
        arguments: dict[str, object] = {"source": str(store.path), "folder": str(folder)}
        if route != "engine":
            return measure("route", {**arguments, "name": route}).peak_mib
        return measure("chunks", {**arguments, "edges": _edges(store, chunk_records)}).peak_mib


def _edges(store: Store, chunk_records: int) -> list[str | None]:
    inner = range(chunk_records, store.records, chunk_records)
    return [None, *(key_of(number).decode("ascii") for number in inner), None]
