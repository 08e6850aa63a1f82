"""Prometheus metrics of a run, in a file for node_exporter's textfile collector."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Enum,
    Gauge,
    Histogram,
    disable_created_metrics,
    write_to_textfile,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from migrate.batch.ledger.receipts_in_force import totals_of
from migrate.batch.log import RewriteProgress
from migrate.errors import ExitCode, MigrationError, SpecError
from migrate.model.comparison import Verification
from migrate.model.events import Event, Listener
from migrate.model.receipt import Receipt

M = TypeVar("M", bound=MetricWrapperBase)
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
"""Field of `Totals` to the name and description of its counter."""
_SECONDS_BETWEEN_WRITES = 1.0
_ENDS = ("stateferry_last_success_timestamp_seconds", "stateferry_last_failure_timestamp_seconds")


class _Metrics:
    """The metrics of one run in a registry of their own, labelled with the migration's name and id."""

    def __init__(self, name: str, migration: str, ended_at: dict[str, float]) -> None:
        """`ended_at`: the times of the last success and the last failure, by the name of their metric."""
        self.registry = CollectorRegistry()
        self._labels = {"name": name, "migration": migration}
        self.chunks_planned = self._made(Gauge, "chunks_planned", "Chunks of the plan.")
        self.chunks_done = self._made(Gauge, "chunks_done", "Committed chunks, including those of earlier runs.")
        self.chunks_failed = self._made(Counter, "chunks_failed", "Chunks that ended this run.")
        self._counted = {field: self._made(Counter, *named) for field, named in _COUNTED.items()}
        self._rate = self._made(Gauge, "records_per_second", "Records rewritten per second, on all workers.")
        self._chunk_seconds = self._made(Histogram, "chunk_seconds", "Duration of a chunk.", buckets=_BUCKETS)
        self.verified_records = self._made(Gauge, "verified_records", "Records compared so far.")
        self._mismatches = self._family(Gauge, "mismatches", "Keys that differ according to the verification.", "kind")
        self.phase = self._made(Enum, "phase", "Phase of the run.", states=PHASES)
        self._exit_code = self._family(Gauge, "exit_code", "Exit code of the run, after its end.")
        self._ends = {
            end: Gauge(end, "Time of the last run of this migration that ended so.", ["name"], registry=self.registry)
            for end in _ENDS
        }
        for end, at in ended_at.items():
            self._ends[end].labels(name).set(at)

    def _family(self, kind: Callable[..., M], name: str, what: str, *more: str, **options: object) -> M:
        return kind(f"stateferry_run_{name}", what, [*self._labels, *more], registry=self.registry, **options)

    def _made(self, kind: Callable[..., M], name: str, what: str, **options: object) -> M:
        return self._family(kind, name, what, **options).labels(**self._labels)

    def add(self, receipts: list[Receipt], rate: float) -> None:
        """Count committed chunks; `rate`: of this run's records so far."""
        totals = totals_of(receipts)
        self.chunks_done.inc(totals.chunks)
        for field, counter in self._counted.items():
            counter.inc(getattr(totals, field))
        for receipt in receipts:
            self._chunk_seconds.observe(receipt.seconds)
        self._rate.set(rate)

    def verify(self, found: Verification) -> None:
        self.verified_records.set(found.records)
        for kind in ("missing", "differing", "extra"):
            self._mismatches.labels(**self._labels, kind=kind).set(getattr(found, kind))

    def end(self, exit_code: int) -> None:
        self.phase.state("ended")
        self._exit_code.labels(**self._labels).set(exit_code)
        self._ends[_ENDS[bool(exit_code)]].labels(self._labels["name"]).set(time.time())


class _MetricsFile:
    """A listener that keeps the file of one run up to date."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._ended_at = _ended_before(path, name)
        self._metrics = _Metrics(name, "", self._ended_at)
        self._progress = RewriteProgress()
        self._next_write = time.monotonic() + _SECONDS_BETWEEN_WRITES

    def __call__(self, event: Event) -> None:
        """Record the event, and write the file about once a second."""
        self._progress.follow(event.name, event.facts)
        self._record(event.name, event.facts)
        if (phase := _PHASE_OF.get(event.name)) is not None:
            self._metrics.phase.state(phase)
        if time.monotonic() >= self._next_write:
            with suppress(OSError):  # a full disk of the metrics file must not end a migration
                self.write()

    def _record(self, name: str, facts: dict[str, Any]) -> None:
        if name == "run.begun":
            self._metrics = _Metrics(self._name, facts["plan"].migration_id, self._ended_at)
            self._metrics.chunks_planned.set(len(facts["plan"].chunks))
            self._metrics.chunks_done.set(len(facts["done"]))
        elif name == "chunk.committed":
            self._metrics.add(facts["receipts"], self._progress.rate)
        elif name == "chunk.failed":
            self._metrics.chunks_failed.inc()
        elif name == "verify.progressed":
            self._metrics.verified_records.set(facts["records"])
        elif name == "verify.committed":
            self._metrics.verify(facts["verification"])

    def end(self, exit_code: int) -> None:
        self._metrics.end(exit_code)
        with suppress(OSError):
            self.write()

    def write(self) -> None:
        """Replace the file. Raises OSError."""
        self._next_write = time.monotonic() + _SECONDS_BETWEEN_WRITES
        write_to_textfile(str(self._path), self._metrics.registry)


@contextmanager
def metrics_file(path: Path, name: str) -> Iterator[Listener]:
    """A listener that writes the file about once a second, and at the end of the run, even if it fails.

    Raises SpecError if the file cannot be written at the start; later errors are ignored.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double each counter
    file = _MetricsFile(path, name)
    try:
        file.write()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(
            f"--metrics-file {path} cannot be written: {reason}", hint="name a file in a directory that exists"
        ) from error
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
        file.end(exit_code)


def _ended_before(path: Path, name: str) -> dict[str, float]:
    """Read the times of the last success and failure from the file of an earlier run."""
    try:
        families = list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if sample.name in _ENDS and sample.labels.get("name") == name
    }
