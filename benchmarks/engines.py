"""The table of the engines' speed: each of them against a loop in C over the same library, and against what it costs.

`python -m benchmarks --only engines` prints all of it. Bars are the native engine's, but for one; the portable one
has its own against the bare loop (`comparisons`).
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.evolving import CHANGES, ensure_avro_store
from benchmarks.growth import write_spec
from benchmarks.processes import CLI, run_command
from benchmarks.results import Bar, Result, raw_series, route_result
from benchmarks.rounds import Sample, Series, empty_folder, measure, ratio, rotated, take_turns
from benchmarks.routes import ENGINE_NAMES, LEFT_OUT, PORTABLE
from benchmarks.setting import PER_CORE, SMALL, Setting
from benchmarks.stores import KILO, MIXED, PLAIN, Store, ensure_store
from benchmarks.yardstick import Yardstick

NATIVE = "native"
C = "C"
PASS_BAR = 0.9
RUN_BAR = 0.9
DIGEST_BAR = 1.0
"""Of the portable engine, in million records a second."""
AVRO_BAR = 15.0
SEGMENT_BAR = 3.0
SHELL_BAR = 2.5
PASSES = {"rewrite": "rewriting with counts and digests", "verify": "full verification", "digest": "digest"}
_ENGINE_MODES = {"verify": "compare"}
_SEGMENTS, _SEGMENT_RECORDS = 256, 2_000
_SHELL_RECORDS = 10_000


def _stores(setting: Setting) -> list[Store]:
    return [
        setting.store(SMALL),
        ensure_store(setting.folder, KILO, SMALL // 4),
        ensure_store(setting.folder, MIXED, SMALL),
    ]


def _note_missing(result: Result) -> Result:
    result.notes += LEFT_OUT
    if NATIVE not in ENGINE_NAMES:
        result.notes.append("No native engine can work here: its rows and bars are left out.")
    return result


def passes(setting: Setting) -> list[Result]:
    """Each of the three loops of an engine, for values of each shape, against the same loop in C."""
    yardstick = Yardstick(setting.folder)
    columns = ["pass", "values", "who", "M records/s of CPU, median", "best", "MB/s", "times C", "first records, s"]
    result = _note_missing(Result("passes", f"The loops of an engine, against {yardstick.words}", columns))
    for store in _stores(setting):
        with _new_store(setting, store) as target:
            for mode, words in PASSES.items():
                series = _take_turns(setting, yardstick, mode, store, target)
                _add_pass(result, mode, words, store, series)
    result.notes.append(PER_CORE)
    result.notes.append(
        "First records: what the first pass of a process took, over 64 records; it does not count in the others."
    )
    return [result]


@contextmanager
def _new_store(setting: Setting, store: Store) -> Iterator[Path]:
    with empty_folder(setting.folder) as folder:
        measure("prepare", {"source": str(store.path), "folder": str(folder)})
        yield folder / "result"


def _take_turns(setting: Setting, yardstick: Yardstick, mode: str, store: Store, target: Path) -> dict[str, Series]:
    def sample(who: str, _: int) -> Sample:
        if who == C:
            given = Store(target, store.shape, store.records) if mode == "digest" else store
            return yardstick.sample(mode, given, target)
        with empty_folder(setting.folder) as folder:
            arguments = {"source": str(store.path), "folder": str(folder), "target": str(target)}
            return measure("engine-pass", {**arguments, "engine": who, "mode": _ENGINE_MODES.get(mode, mode)})

    series = take_turns(setting.rounds, [C, *ENGINE_NAMES], store.records, sample)
    found = [[each.samples[0].facts.get(side) for side in ("scanned", "written")] for each in series.values()]
    wanted = found[-1]
    if any(one not in (wanted, [None, None]) for one in found):
        raise AssertionError(f"{mode}: they do not do the same: {found}")
    return series


def _add_pass(result: Result, mode: str, words: str, store: Store, series: dict[str, Series]) -> None:
    size = sum(file.stat().st_size for file in store.path.glob("*.sst"))
    for who, each in series.items():
        rate = each.rate("cpu")
        best = store.records / min(each.seconds("cpu"))
        times = ratio(each, series[C], "cpu")
        first = "" if who == C else f"{statistics.median(sample.facts['first'] for sample in each.samples):.2f}"
        cells = [f"{rate / 1e6:.3f}", f"{best / 1e6:.3f}", f"{rate * size / store.records / 1e6:.0f}", f"{times:.2f}"]
        result.rows.append([words, store.shape.words, who, *cells, first])
        if who == NATIVE:
            result.bars.append(Bar(result.name, f"{words}, {store.shape.words}: times C", PASS_BAR, times))
    if mode == "digest" and store.shape is PLAIN:
        rate = series[PORTABLE].rate("cpu") / 1e6
        result.bars.append(Bar(result.name, "M records/s, digest, portable", DIGEST_BAR, rate))
    result.raw[f"{mode}, {store.shape.name}"] = {who: raw_series(each) for who, each in series.items()}


def whole_runs(setting: Setting) -> list[Result]:
    """A default run with full verification: what more records take, against a loop that rewrites and verifies."""
    yardstick = Yardstick(setting.folder)
    columns = ["values", "who", "more records", "CPU s, median", "M records/s", "times C"]
    result = _note_missing(Result("whole-runs", f"`run --jobs 1`, against {yardstick.words}", columns))
    for store in _stores(setting):
        few = ensure_store(setting.folder, store.shape, store.records // 10)
        spent: dict[str, list[float]] = {who: [] for who in (C, *ENGINE_NAMES)}
        for number in range(setting.rounds):
            for who in rotated([*spent], number):
                less, more = (_whole(setting, yardstick, who, each) for each in (few, store))
                spent[who].append(more - less)
        records = store.records - few.records
        for who, each in spent.items():
            median = statistics.median(each)
            times = statistics.median(one / other for one, other in zip(spent[C], each, strict=True))
            cells = [f"{records:,}", f"{median:.2f}", f"{records / median / 1e6:.3f}", f"{times:.2f}"]
            result.rows.append([store.shape.words, who, *cells])
            if who == NATIVE:
                result.bars.append(Bar(result.name, f"{store.shape.words}: times C", RUN_BAR, times))
        result.raw[store.shape.name] = spent
    result.notes.append("CPU seconds of a store less those of one of a tenth of its records.")
    return [result]


def _whole(setting: Setting, yardstick: Yardstick, who: str, store: Store) -> float:
    if who == C:
        return yardstick.sample("whole", store).cpu
    with empty_folder(setting.folder) as folder:
        sample = measure("run", {"source": str(store.path), "folder": str(folder), "engine": who})
    if sample.facts["records"] != store.records:
        raise AssertionError(sample.facts)
    return sample.cpu


def avro(setting: Setting) -> list[Result]:
    """A store of Avro values for another schema, against the bare loop that resolves and encodes with fastavro."""
    return [_evolve(setting, change) for change in CHANGES]


def _evolve(setting: Setting, change: str) -> Result:
    store, records = ensure_avro_store(setting.folder)

    def sample(route: str, _: int) -> Sample:
        with empty_folder(setting.folder) as folder:
            arguments = {"change": change, "route": route, "source": str(store), "folder": str(folder)}
            measured = measure("engine-avro", arguments)
            digests.add(measure("digest", {"folder": str(folder)}).facts["digest"])
            return measured

    digests: set[str] = set()
    series = take_turns(setting.rounds, [*ENGINE_NAMES, "fastavro"], records, sample)
    if len(digests) != 1:
        raise AssertionError(f"{change}: they do not write the same")
    name = f"avro-stores, {change}"
    result = _note_missing(route_result(name, f"{records:,} Avro values of a store, {change}", series))
    if NATIVE in series:
        times = ratio(series[NATIVE], series["fastavro"], "cpu")
        result.bars.append(Bar(name, "times fastavro's resolving and encoding", AVRO_BAR, times))
    return result


def segments(setting: Setting) -> list[Result]:
    """Many small stores, as a windowed store has them, against one store of as many records."""
    one, many = [setting.store(_SEGMENTS * _SEGMENT_RECORDS).path], _ensure_segments(setting)
    title = f"{_SEGMENTS} segments of {_SEGMENT_RECORDS:,} records, rewritten; the time beyond that of one store"
    result = _note_missing(Result("segments", title, ["engine", "CPU ms a segment", "wall ms a segment"]))
    for engine in ENGINE_NAMES:
        pairs = [(_rewritten(setting, engine, many), _rewritten(setting, engine, one)) for _ in range(setting.rounds)]
        each = {
            clock: statistics.median(
                1000 * (getattr(all_of, clock) - getattr(single, clock)) for all_of, single in pairs
            )
            / _SEGMENTS
            for clock in ("cpu", "wall")
        }
        result.rows.append([engine, *(f"{milliseconds:.2f}" for milliseconds in each.values())])
        result.raw[engine] = each
        result.bars.append(Bar(result.name, f"{engine}: CPU ms a segment", SEGMENT_BAR, each["cpu"], "at most"))
    return [result]


def _ensure_segments(setting: Setting) -> list[Path]:
    folder = setting.folder / f"segments-{_SEGMENTS}-{_SEGMENT_RECORDS}"
    segments = [folder / str(number) for number in range(_SEGMENTS)]
    for segment in segments:
        if not segment.exists():
            shutil.copytree(setting.store(_SEGMENT_RECORDS).path, segment)
    return segments


def _rewritten(setting: Setting, engine: str, stores: list[Path]) -> Sample:
    with empty_folder(setting.folder) as folder:
        arguments = {"engine": engine, "stores": [*map(str, stores)], "folder": str(folder)}
        return measure("engine-segments", arguments)


def shell(setting: Setting) -> list[Result]:
    """A whole run of a small store from the shell, without Spark."""
    store = setting.store(_SHELL_RECORDS)
    result = Result("shell", f"`stateferry run --no-spark`, {store.words}", ["wall s, median", "best", "most"])
    walls = []
    for _ in range(setting.rounds):
        with empty_folder(setting.folder) as folder:
            walls.append(run_command([*CLI, "run", str(write_spec(folder, store.path)), "--no-spark"]).wall)
    median = statistics.median(walls)
    result.rows = [[f"{seconds:.2f}" for seconds in (median, min(walls), max(walls))]]
    result.raw["wall"] = walls
    result.bars = [Bar(result.name, f"seconds of a run of {store.records:,} records", SHELL_BAR, median, "at most")]
    return [result]
