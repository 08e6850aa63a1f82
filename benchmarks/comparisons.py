"""The engines beside other ways to do the same work."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import product

from benchmarks.evolving import AVRO_ROUTES, CHANGES, ensure_values
from benchmarks.evolving import RECORDS as AVRO_RECORDS
from benchmarks.pairs import PAIR_ROUTES, PAIRS
from benchmarks.results import Bar, Result, route_result
from benchmarks.retention import RECORDS as WINDOWS
from benchmarks.retention import RETENTIONS, ensure_windows
from benchmarks.rounds import Sample, Series, empty_folder, measure, ratio, take_turns
from benchmarks.routes import ENGINE_NAMES, PORTABLE
from benchmarks.setting import PER_CORE, SMALL, Setting
from benchmarks.stores import KILO, MIXED, Store, ensure_store, ensure_store_of
from formats import get_format

Job = tuple[str, dict[str, str]]
"""A worker's job and its arguments, but for the folder."""

BARE_BAR = 1.0
PAIR_BAR = 0.9
AVRO_BARS = {"splice": 10.0, "rebuild": 3.0}
RETENTION_BAR = 0.6
PAIR_RECORDS = 500_000
PEER_BARS = {"portable": {"get-put": 3.5, "ldb": 5.0}, "native": {"get-put": 4.0, "ldb": 6.5}}


def engine(setting: Setting) -> list[Result]:
    """With counts and digests, against the bare loop over items(), which has neither."""
    results = []
    for records in setting.sizes:
        store = setting.store(records)
        result, series = _compare(setting, store, f"engine, {records / 1e6:.0f} M records", ["bare"])
        times = ratio(series[PORTABLE], series["bare"], "cpu")
        result.bars.append(Bar(result.name, "times the bare items() loop, per core", BARE_BAR, times))
        results.append(result)
    return results


def formats(setting: Setting) -> list[Result]:
    """Other pairs of formats, each against the bare loop that does the same to every value."""
    return [_pair(setting, name) for name in PAIRS]


def _pair(setting: Setting, name: str) -> Result:
    source = get_format(PAIRS[name].source)
    store = ensure_store_of(setting.folder, source, PAIR_RECORDS)
    subject = f"formats, {name}"
    arguments = {"name": name, "source": str(store.path)}
    result, series = _take_turns(
        setting, store, subject, {route: ("pair", {**arguments, "route": route}) for route in PAIR_ROUTES}
    )
    times = ratio(series[PORTABLE], series["bare"], "cpu")
    result.bars.append(Bar(subject, "times the bare items() loop, per core", PAIR_BAR, times))
    return result


def avro(setting: Setting) -> list[Result]:
    """Values from one schema to the next, against fastavro: the conversion alone."""
    file = ensure_values(setting.folder)
    return [_evolve(setting, str(file), change) for change in CHANGES]


def _evolve(setting: Setting, file: str, change: str) -> Result:
    def sample(route: str, _: int) -> Sample:
        found = measure("avro", {"change": change, "route": route, "file": file})
        return replace(found, cpu=found.facts["seconds"])

    series = take_turns(setting.rounds, AVRO_ROUTES, AVRO_RECORDS, sample)
    digests = {sample.facts["digest"] for each in series.values() for sample in each.samples}
    if len(digests) != 1:
        raise AssertionError(f"{change}: the two do not write the same")
    subject = f"avro, {change}"
    result = route_result(subject, f"{subject}: {AVRO_RECORDS:,} values", series)
    times = ratio(series["program"], series["fastavro"], "cpu")
    result.bars = [Bar(subject, "times fastavro's resolving and encoding, of CPU", AVRO_BARS[change], times)]
    return result


def retention(setting: Setting) -> list[Result]:
    """A windowed store under another retention, against the same run without."""
    source = str(ensure_windows(setting.folder))

    def sample(route: str, _: int) -> Sample:
        with empty_folder(setting.folder) as folder:
            return measure("retention", {"route": route, "source": source, "folder": str(folder)})

    series = take_turns(setting.rounds, RETENTIONS, WINDOWS, sample)
    same, *others = series.values()
    result = route_result("retention", f"{WINDOWS:,} windows in two segments", series)
    what = "times the same run with the segments as they are, of CPU"
    result.bars = [Bar(f"retention, {each.name}", what, RETENTION_BAR, ratio(each, same, "cpu")) for each in others]
    return [result]


def shapes(setting: Setting) -> list[Result]:
    """The same for values of any size and for larger ones. Reported only."""
    stores = [ensure_store(setting.folder, MIXED, SMALL), ensure_store(setting.folder, KILO, SMALL // 4)]
    return [_compare(setting, store, f"shapes, {store.shape.words}", ["bare"])[0] for store in stores]


def peers(setting: Setting) -> list[Result]:
    """Against what people do today."""
    others = ["get-put", *(["ldb"] if shutil.which("ldb") else [])]
    result, series = _compare(setting, setting.store(SMALL), "peers", others)
    for (name, bars), other in product(PEER_BARS.items(), others):
        if name in series:
            times = ratio(series[name], series[other], "cpu")
            result.bars.append(Bar(result.name, f"{name}: times {other}, per core", bars[other], times))
    if "ldb" not in others:
        result.notes.append("ldb is not installed (Debian, Ubuntu: rocksdb-tools), and was not measured.")
    return [result]


def _compare(setting: Setting, store: Store, name: str, others: list[str]) -> tuple[Result, dict[str, Series]]:
    jobs = {route: ("route", {"name": route, "source": str(store.path)}) for route in [*ENGINE_NAMES, *others]}
    return _take_turns(setting, store, name, jobs)


def _take_turns(setting: Setting, store: Store, name: str, jobs: dict[str, Job]) -> tuple[Result, dict[str, Series]]:
    digests: dict[str, str] = {}

    def sample(route: str, _: int) -> Sample:
        job, arguments = jobs[route]
        with empty_folder(setting.folder) as folder:
            measured = measure(job, {**arguments, "folder": str(folder)})
            if route not in digests:
                found = measure("digest", {"folder": str(folder)}).facts
                digests[route] = f"{found['records']} records, digest {found['digest']}"
        return measured

    series = take_turns(setting.rounds, jobs, store.records, sample)
    if len(set(digests.values())) != 1:
        raise RuntimeError(f"the routes do not do the same work: {digests}")
    result = route_result(name, store.words, series)
    result.notes = [PER_CORE, f"Every route's result: {digests[PORTABLE]}."]
    return result, series
