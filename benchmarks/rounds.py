"""Interleaved rounds of measurements, each in a fresh process, and the ratios that come of them."""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement."""

    wall: float
    cpu: float
    peak_mib: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Series:
    """The measurements of one route, in the order of the rounds."""

    name: str
    records: int
    samples: list[Sample] = field(default_factory=list)

    def seconds(self, clock: str) -> list[float]:
        """`wall` or `cpu` of each round."""
        return [getattr(sample, clock) for sample in self.samples]

    def rate(self, clock: str) -> float:
        """Records per second, at the median."""
        return self.records / statistics.median(self.seconds(clock))


def ratio(series: Series, base: Series, clock: str) -> float:
    """By how much `series` is faster than `base`: the median over the ratios within each round."""
    pairs = zip(base.seconds(clock), series.seconds(clock), strict=True)
    return statistics.median(slow / fast for slow, fast in pairs)


def seconds() -> dict[str, float]:
    """By clock, as they stand now; of CPU those of this process and of those that it waited for, in all threads."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return {"wall": time.perf_counter(), "cpu": sum(usage.ru_utime + usage.ru_stime for usage in usages)}


def seconds_since(begun: Mapping[str, float]) -> dict[str, float]:
    """By clock, what `seconds` says more than it did then."""
    return {clock: now - begun[clock] for clock, now in seconds().items()}


def measure(job: str, arguments: Mapping[str, object]) -> Sample:
    """One measurement in a fresh process."""
    worker = start(job, arguments)
    return finish(worker)


def start(job: str, arguments: Mapping[str, object]) -> subprocess.Popen[str]:
    """Begin a measurement."""
    command = [sys.executable, "-m", "benchmarks.worker", job, json.dumps(arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(worker: subprocess.Popen[str]) -> Sample:
    """What a worker says at its end. Raises RuntimeError where it fails."""
    output, errors = worker.communicate()
    if worker.returncode:
        raise RuntimeError(f"{worker.args!r} failed with exit code {worker.returncode}:\n{errors}")
    facts = json.loads(output.splitlines()[-1])
    return Sample(facts.pop("wall"), facts.pop("cpu"), facts.pop("peak_mib"), facts)


@contextmanager
def empty_folder(parent: Path) -> Iterator[Path]:
    """A folder for a result, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="result-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def take_turns(
    rounds: int, routes: Iterable[str], records: int, sample: Callable[[str, int], Sample]
) -> dict[str, Series]:
    """What `sample` measures of each route in each round, by route."""
    series = {route: Series(route, records) for route in routes}
    for number in range(rounds):
        for route in rotated([*series], number):
            series[route].samples.append(sample(route, number))
    return series


def rotated(names: list[str], round_number: int) -> list[str]:
    """Who goes first changes from round to round."""
    at = round_number % len(names)
    return names[at:] + names[:at]
