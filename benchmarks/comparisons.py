"""The portable engine beside other ways to do the same work."""

from __future__ import annotations

import shutil

from benchmarks.pairs import PAIR_ROUTES, PAIRS
from benchmarks.results import ROUTE_COLUMNS, Bar, Result, raw_series, route_row
from benchmarks.rounds import Series, empty_folder, measure, ratio, rotated
from benchmarks.setting import PER_CORE, SMALL, Setting
from benchmarks.stores import KILO, MIXED, Store, ensure_store, ensure_store_of
from formats import get_format

Job = tuple[str, dict[str, str]]
"""A worker's job and its arguments, but for the folder."""

BARE_BAR = 1.0
PAIR_BAR = 0.9
PAIR_RECORDS = 500_000
PEER_BARS = {"get-put": 3.5, "ldb": 5.0}


def engine(setting: Setting) -> list[Result]:
    """With counts and digests, against the bare loop over items(), which has neither."""
    results = []
    for records in setting.sizes:
        store = setting.store(records)
        result, series = _compare(setting, store, f"engine, {records / 1e6:.0f} M records", ["bare"])
        times = ratio(series["engine"], series["bare"], "cpu")
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
    times = ratio(series["engine"], series["bare"], "cpu")
    result.bars.append(Bar(subject, "times the bare items() loop, per core", PAIR_BAR, times))
    return result


def shapes(setting: Setting) -> list[Result]:
    """The same for values of any size and for larger ones. Reported only."""
    stores = [ensure_store(setting.folder, MIXED, SMALL), ensure_store(setting.folder, KILO, SMALL // 4)]
    return [_compare(setting, store, f"shapes, {store.shape.words}", ["bare"])[0] for store in stores]


def peers(setting: Setting) -> list[Result]:
    """Against what people do today."""
    others = ["get-put", *(["ldb"] if shutil.which("ldb") else [])]
    result, series = _compare(setting, setting.store(SMALL), "peers", others)
    for other in others:
        times = ratio(series["engine"], series[other], "cpu")
        result.bars.append(Bar(result.name, f"times {other}, per core", PEER_BARS[other], times))
    if "ldb" not in others:
        result.notes.append("ldb is not installed (Debian, Ubuntu: rocksdb-tools), and was not measured.")
    return [result]


def _compare(setting: Setting, store: Store, name: str, others: list[str]) -> tuple[Result, dict[str, Series]]:
    jobs = {route: ("route", {"name": route, "source": str(store.path)}) for route in ["engine", *others]}
    return _take_turns(setting, store, name, jobs)


def _take_turns(setting: Setting, store: Store, name: str, jobs: dict[str, Job]) -> tuple[Result, dict[str, Series]]:
    series = {route: Series(route, store.records) for route in jobs}
    digests: dict[str, str] = {}
    for number in range(setting.rounds):
        for route in rotated(list(series), number):
            job, arguments = jobs[route]
            with empty_folder(setting.folder) as folder:
                series[route].samples.append(measure(job, {**arguments, "folder": str(folder)}))
                if number == 0:
                    found = measure("digest", {"folder": str(folder)}).facts
                    digests[route] = f"{found['records']} records, digest {found['digest']}"
    if len(set(digests.values())) != 1:
        raise RuntimeError(f"the routes do not do the same work: {digests}")
    result = Result(name, store.words, ROUTE_COLUMNS)
    result.rows = [route_row(one, series["engine"]) for one in series.values()]
    result.raw = {one.name: raw_series(one) for one in series.values()}
    result.notes = [PER_CORE, f"Every route's result: {digests['engine']}."]
    return result, series
