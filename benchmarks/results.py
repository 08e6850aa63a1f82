"""What a benchmark found: rows to read, and figures that a bar judges."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.rounds import Series, ratio


@dataclass(frozen=True, slots=True)
class Bar:
    """A budget, and what was reached."""

    name: str
    what: str
    wanted: float
    reached: float
    kind: Literal["at least", "at most"] = "at least"

    @property
    def is_met(self) -> bool:
        """Whether the budget is kept."""
        return self.reached >= self.wanted if self.kind == "at least" else self.reached <= self.wanted

    def __str__(self) -> str:
        mark = "met" if self.is_met else "MISSED"
        return f"{mark}: {self.name}: {self.what}: {self.reached:.2f}, {self.kind} {self.wanted:.2f}"


@dataclass(slots=True)
class Result:
    """One benchmark's outcome."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raw: dict[str, object] = field(default_factory=dict)


_ROUTE_COLUMNS = [
    "route",
    "M records/s of CPU, median",
    "best",
    "M records/s of wall, median",
    "best",
    "times this, of CPU",
    "of wall",
    "peak MiB",
]


def route_result(name: str, title: str, series: dict[str, Series]) -> Result:
    """A table of routes: the subject of the benchmark, and beside it the others."""
    subject = next(iter(series.values()))
    rows = [_route_row(each, subject) for each in series.values()]
    raw: dict[str, object] = {route: raw_series(each) for route, each in series.items()}
    return Result(name, title, _ROUTE_COLUMNS, rows, raw=raw)


def _route_row(series: Series, subject: Series) -> list[str]:
    rates = [
        f"{rate / 1e6:.3f}"
        for clock in ("cpu", "wall")
        for rate in (series.rate(clock), series.records / min(series.seconds(clock)))
    ]
    times = ["" if series is subject else f"{ratio(subject, series, clock):.2f}" for clock in ("cpu", "wall")]
    peak = statistics.median(sample.peak_mib for sample in series.samples)
    return [series.name, *rates, *times, f"{peak:.0f}"]


def raw_series(series: Series) -> dict[str, object]:
    """For the JSON file."""
    return {
        "records": series.records,
        "rounds": [{"wall": s.wall, "cpu": s.cpu, "peak_mib": round(s.peak_mib, 1), **s.facts} for s in series.samples],
    }
