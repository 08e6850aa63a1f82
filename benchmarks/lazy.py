"""The lazy adapter: what dual access costs, how fast the old store empties, and what is left to pay afterwards."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.dual_access import LONG, OPERATIONS, SHORT
from benchmarks.dual_stores import ARRANGEMENTS
from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder, measure, rotated
from benchmarks.setting import SMALL, Setting

OLD_BAR, NEW_BAR, PUT_BAR, SCAN_BAR = 2.2, 1.15, 1.6, 0.5
CONVERGED_BAR = 1.05
CONVERGE_BAR = 0.3
OPEN_BAR = 50.0
CLOCKS = (
    "Bars of this table are on CPU time, of all threads of the process; syncs and waiting show in the wall's times."
)


@dataclass(frozen=True, slots=True)
class Row:
    """An operation, and the one that it is held against."""

    route: str
    base: str
    bar: float | None = None
    """At most so many times the base's time."""
    scan_bar: float | None = None
    """At least so many times the base's speed."""


GETS = [
    Row("still old, nothing moved yet", "bare get", OLD_BAR),
    Row("still old, half moved", "bare get", OLD_BAR),
    Row("still old, half moved, moved by the read", "bare get"),
    Row("new already, half moved", "bare get", NEW_BAR),
    Row("in neither store, half moved", "bare get, not there"),
]
PUTS = [
    Row("still old", "bare put", PUT_BAR),
    Row("new already", "bare put", PUT_BAR),
    Row("in neither store", "bare put", PUT_BAR),
    Row("moved by the sweep", "bare put", PUT_BAR),
    Row("each key five times", "bare put", PUT_BAR),
    Row("get and put, each key five times", "bare get and put"),
    Row("put_all, still old", "bare batch"),
    Row("put_all, moved by the sweep", "bare batch"),
    Row("put_all, each key five times", "bare batch"),
]
SCANS = [
    Row(f"{moved}, {length}", f"bare, {length}", scan_bar=SCAN_BAR if length == LONG else None)
    for length in (LONG, SHORT)
    for moved in ("nothing moved yet", "half moved")
]
_AFTERWARDS = [("get", CONVERGED_BAR), ("put", CONVERGED_BAR), (f"range, {LONG}", CONVERGED_BAR)]
CONVERGED = [
    *(Row(f"dual {what}", f"plain {what}", bar) for what, bar in (*_AFTERWARDS, (f"range, {SHORT}", None))),
    *(Row(f"plain {what}", f"bare {what}") for what, _ in (*_AFTERWARDS, (f"range, {SHORT}", None))),
]


def lazy(setting: Setting) -> list[Result]:
    """Every table is of both arrangements; the stores are made once, and each round has copies of its own."""
    store = setting.store(SMALL)
    source, records = str(store.path), store.records
    with empty_folder(setting.folder) as images:
        for arrangement in ARRANGEMENTS:
            arguments = {"source": source, "folder": str(images), "arrangement": arrangement, "records": records}
            measure("make-half", arguments)
        measure("make-emptied", {"source": source, "folder": str(images), "records": records})
        both: dict[str, object] = {"source": source, "records": records}
        one: dict[str, object] = {"records": records}
        return [
            _operations(setting, "dual-gets", GETS, images, both),
            _operations(setting, "dual-puts", PUTS, images, both),
            _operations(setting, "dual-scans", SCANS, images, both),
            _operations(setting, "dual-converged", CONVERGED, images, one),
            *(_converge(setting, records) for records in setting.sizes),
            _open(setting, images),
        ]


def _operations(setting: Setting, job: str, rows: list[Row], images: Path, arguments: dict[str, object]) -> Result:
    store = setting.store(SMALL)
    columns = ["arrangement", "what", "us of CPU", "against", "us of CPU", "times, CPU", "lowest", "highest", "wall"]
    result = Result(
        f"lazy: {job.removeprefix('dual-')}", f"{store.words}; {OPERATIONS:,} operations a round, scans fewer", columns
    )
    result.notes.append(CLOCKS)
    for arrangement, words in ARRANGEMENTS.items():
        rounds = []
        for number in range(setting.rounds):
            with empty_folder(setting.folder) as folder:
                half = str(images / f"half-{arrangement}")
                own = {"half": half, "folder": str(folder), "arrangement": arrangement, "number": number}
                rounds.append(measure(job, {**arguments, **own}).facts["routes"])
        for row in rows:
            _add(result, words, row, rounds)
        result.raw[words] = rounds
    return result


def _add(result: Result, arrangement: str, row: Row, rounds: list[dict[str, Any]]) -> None:
    times = {clock: [one[row.route][clock] / one[row.base][clock] for one in rounds] for clock in ("cpu", "wall")}
    mine, base = (statistics.median(one[name]["cpu"] for one in rounds) for name in (row.route, row.base))
    cpu = times["cpu"]
    median = statistics.median(cpu)
    figures = [f"{each:.2f}" for each in (median, min(cpu), max(cpu), statistics.median(times["wall"]))]
    result.rows.append([arrangement, row.route, f"{mine:.2f}", row.base, f"{base:.2f}", *figures])
    what = f"{arrangement}: {row.route}, times {row.base}"
    if row.bar is not None:
        result.bars.append(Bar(result.name, what, row.bar, median, "at most"))
    if row.scan_bar is not None:
        result.bars.append(Bar(result.name, f"{what}, speed", row.scan_bar, 1 / median))


def _converge(setting: Setting, records: int) -> Result:
    store = setting.store(records)
    columns = ["arrangement", "M records/s of wall, median", "lowest", "highest", "of CPU"]
    result = Result(f"lazy: converge, {records / 1e6:.0f} M records", store.words, columns)
    rounds: dict[str, list[dict[str, float]]] = {arrangement: [] for arrangement in ARRANGEMENTS}
    for number in range(setting.rounds if records == SMALL else 1):
        for arrangement in rotated(list(ARRANGEMENTS), number):
            with empty_folder(setting.folder) as folder:
                arguments = {"source": str(store.path), "folder": str(folder), "arrangement": arrangement}
                facts = measure("dual-converge", arguments).facts
            if facts["moved"] != records:
                raise RuntimeError(f"{facts['moved']} of {records} records were moved")
            rounds[arrangement].append(facts["seconds"])
    for arrangement, words in ARRANGEMENTS.items():
        wall = [records / seconds["wall"] / 1e6 for seconds in rounds[arrangement]]
        cpu = statistics.median(records / seconds["cpu"] / 1e6 for seconds in rounds[arrangement])
        reached = statistics.median(wall)
        result.rows.append([words, *(f"{each:.2f}" for each in (reached, min(wall), max(wall), cpu))])
        result.bars.append(Bar(result.name, f"M records/s, {words}", CONVERGE_BAR, reached))
    result.raw = {ARRANGEMENTS[arrangement]: each for arrangement, each in rounds.items()}
    return result


def _open(setting: Setting, images: Path) -> Result:
    columns = ["deletes", "how", "ms, median", "best", "worst"]
    result = Result("lazy: open", f"An old store in which {SMALL:,} records were deleted, one by one", columns)
    ways: dict[str | None, str] = {None: "rocksdict alone, the old store"}
    ways |= ARRANGEMENTS.items()
    for state in ("flushed", "logged"):
        taken: dict[str | None, list[float]] = {way: [] for way in ways}
        for _ in range(setting.rounds):
            for way in ways:
                with empty_folder(setting.folder) as folder:
                    arguments = {"emptied": str(images / state), "folder": str(folder), "arrangement": way}
                    taken[way].append(measure("dual-open", arguments).facts["milliseconds"])
        for way, each in taken.items():
            median = statistics.median(each)
            result.rows.append([state, ways[way], *(f"{ms:.1f}" for ms in (median, min(each), max(each)))])
            if way is not None:
                beyond = statistics.median(mine - bare for mine, bare in zip(each, taken[None], strict=True))
                what = f"ms, deletes {state}, {ways[way]}"
                reached = median if state == "flushed" else beyond
                what += "" if state == "flushed" else ", beyond rocksdict's own"
                result.bars.append(Bar(result.name, what, OPEN_BAR, reached, "at most"))
        result.raw[state] = {ways[way]: each for way, each in taken.items()}
    result.notes.append("Logged: RocksDB replays its log first; judged is what comes on top.")
    return result
