"""Metrics of a run, for Prometheus, in a file that node_exporter's textfile collector reads."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, StateSetMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from migrate.errors import ExitCode, MigrationError, SpecError
from migrate.events import Event, Listener
from migrate.metrics import write_collected
from migrate.progress_state import totals_of
from migrate.receipt import Receipt
from migrate.report_model import Verification

PHASES = ("plan", "start", "rewrite", "assemble", "verify", "publish", "ended")
_PHASE_OF = {
    "run.begun": "start",
    "chunk.started": "rewrite",
    "assemble.started": "assemble",
    "verify.started": "verify",
    "publish.started": "publish",
}
_BUCKETS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_COUNTED = {
    "records_in": ("records_read", "Records that this run has read."),
    "records_out": ("records_written", "Records that this run has written."),
    "rejected": ("records_rejected", "Records that cannot be converted."),
    "dropped": ("records_dropped", "Records that the function dropped."),
    "bytes_in": ("bytes_read", "Keys and values that this run has read."),
    "bytes_out": ("bytes_written", "Keys and values that this run has written."),
}
"""By the names of `Totals`."""
_SECONDS_BETWEEN_WRITES = 1.0
_SUCCESS = "stateferry_last_success_timestamp_seconds"
_FAILURE = "stateferry_last_failure_timestamp_seconds"


@dataclass
class _Figures:
    """What a run has told so far."""

    name: str
    migration: str = ""
    phase: str = "plan"
    chunks_planned: int = 0
    chunks_done: int = 0
    """By earlier runs too."""
    chunks_failed: int = 0
    done: Counter[str] = field(default_factory=Counter)
    """What the chunks of this run come to, by the names of `Totals`."""
    chunk_seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
    """Its chunks, by how long they took."""
    seconds: float = 0.0
    """From its first chunk to its last."""
    verified_records: int = 0
    verification: Verification | None = None
    exit_code: int | None = None
    ended_at: dict[str, float] = field(default_factory=dict)
    """When a run of this name last succeeded, or failed, by the metric's name."""

    def add(self, receipts: list[Receipt]) -> None:
        totals = totals_of(receipts)
        self.chunks_done += totals.chunks
        self.done.update({name: getattr(totals, name) for name in _COUNTED})
        for receipt in receipts:
            self.chunk_seconds += receipt.seconds
            self.buckets[bisect_left(_BUCKETS, receipt.seconds)] += 1


class RunMetrics(Collector):
    """A run's listener, and the collector of what it heard."""

    def __init__(self, name: str, ended_at: dict[str, float]) -> None:
        self._figures = _Figures(name, ended_at=ended_at)
        self._first_chunk: float | None = None

    def __call__(self, event: Event) -> None:
        """Take note."""
        figures, facts = self._figures, event.facts
        figures.phase = _PHASE_OF.get(event.name, figures.phase)
        if event.name == "run.begun":
            figures.migration = facts["plan"].migration_id
            figures.chunks_planned, figures.chunks_done = len(facts["plan"].chunks), len(facts["done"])
        elif event.name == "chunk.started":
            self._first_chunk = self._first_chunk or time.monotonic()
        elif event.name == "chunk.committed" and self._first_chunk is not None:
            figures.add(facts["receipts"])
            figures.seconds = time.monotonic() - self._first_chunk
        elif event.name == "chunk.failed":
            figures.chunks_failed += 1
        elif event.name == "verify.progressed":
            figures.verified_records = facts["records"]
        elif event.name == "verify.committed":
            figures.verification = facts["verification"]
            figures.verified_records = figures.verification.records

    def end(self, exit_code: int) -> None:
        """The run is over."""
        self._figures.phase = "ended"
        self._figures.exit_code = exit_code
        self._figures.ended_at[_FAILURE if exit_code else _SUCCESS] = time.time()

    def collect(self) -> Iterator[Metric]:
        """All of it, under the migration's name and id."""
        yield from _Families(self._figures).every()


@dataclass(frozen=True)
class _Families:
    figures: _Figures

    def every(self) -> Iterator[Metric]:
        figures = self.figures
        yield self._gauge("chunks_planned", "Chunks of the plan.", figures.chunks_planned)
        yield self._gauge("chunks_done", "Committed chunks, those of earlier runs too.", figures.chunks_done)
        yield self._counter("chunks_failed", "Chunks that ended this run.", figures.chunks_failed)
        for counted, (name, what) in _COUNTED.items():
            yield self._counter(name, what, figures.done[counted])
        rate = figures.done["records_in"] / figures.seconds if figures.seconds else 0.0
        yield self._gauge("records_per_second", "Of this run's rewriting, over all workers.", rate)
        yield self._histogram()
        yield self._gauge("verified_records", "Records compared so far.", figures.verified_records)
        if figures.verification is not None:
            yield self._mismatches(figures.verification)
        phase = StateSetMetricFamily("stateferry_run_phase", "What the run is doing.", labels=self._names)
        phase.add_metric(self._labels, {each: each == figures.phase for each in PHASES})
        yield phase
        if figures.exit_code is not None:
            yield self._gauge("exit_code", "Of the run, once it has ended.", figures.exit_code)
        for name, at in sorted(figures.ended_at.items()):
            ended = GaugeMetricFamily(name, "When a run of this migration last ended so.", labels=["name"])
            ended.add_metric([figures.name], at)
            yield ended

    @property
    def _names(self) -> list[str]:
        return ["name", "migration"]

    @property
    def _labels(self) -> list[str]:
        return [self.figures.name, self.figures.migration]

    def _gauge(self, name: str, what: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(f"stateferry_run_{name}", what, labels=self._names)
        gauge.add_metric(self._labels, value)
        return gauge

    def _counter(self, name: str, what: str, value: float) -> Metric:
        counter = CounterMetricFamily(f"stateferry_run_{name}", what, labels=self._names)
        counter.add_metric(self._labels, value)
        return counter

    def _histogram(self) -> Metric:
        bounds = [*map(str, _BUCKETS), "+Inf"]
        buckets = list(zip(bounds, accumulate(self.figures.buckets), strict=True))
        family = HistogramMetricFamily("stateferry_run_chunk_seconds", "How long a chunk took.", labels=self._names)
        family.add_metric(self._labels, buckets, sum_value=self.figures.chunk_seconds)
        return family

    def _mismatches(self, found: Verification) -> Metric:
        family = GaugeMetricFamily(
            "stateferry_run_mismatches", "Keys that the verification found wrong.", labels=[*self._names, "kind"]
        )
        for kind in ("missing", "differing", "extra"):
            family.add_metric([*self._labels, kind], getattr(found, kind))
        return family


@contextmanager
def metrics_file(path: Path, name: str) -> Iterator[Listener]:
    """A listener that keeps the file up to date.

    It is written about once a second while things happen, and at the end, a bad one too.

    Raises SpecError where the file cannot be written at the beginning; later trouble with it does not end a run.
    """
    metrics = RunMetrics(name, _ended_before(path, name))
    try:
        write_collected(path, metrics)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(
            f"--metrics-file {path} cannot be written: {reason}", hint="name a file in a directory that exists"
        ) from error
    file = _Writing(path, metrics)
    exit_code: int = ExitCode.BUG
    try:
        yield file
        exit_code = ExitCode.DONE
    except MigrationError as error:
        exit_code = error.exit_code
        raise
    except KeyboardInterrupt:
        exit_code = ExitCode.INTERRUPTED
        raise
    finally:
        metrics.end(exit_code)
        file.write()


class _Writing:
    def __init__(self, path: Path, metrics: RunMetrics) -> None:
        self._path = path
        self._metrics = metrics
        self._next = time.monotonic() + _SECONDS_BETWEEN_WRITES

    def __call__(self, event: Event) -> None:
        self._metrics(event)
        if time.monotonic() >= self._next:
            self.write()
            self._next = time.monotonic() + _SECONDS_BETWEEN_WRITES

    def write(self) -> None:
        try:
            write_collected(self._path, self._metrics)
        except OSError:
            return  # a full disk under a metrics file is no reason to give up a migration


def _ended_before(path: Path, name: str) -> dict[str, float]:
    """What the file of an earlier run says: a failure does not make the last success forgotten."""
    try:
        families = list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if sample.name in (_SUCCESS, _FAILURE) and sample.labels.get("name") == name
    }
