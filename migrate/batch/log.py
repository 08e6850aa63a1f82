"""The log of a migration: a line for each phase, its progress from time to time, a warning for each retry."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from migrate.batch.ledger.receipts_in_force import pending_chunks
from migrate.model.comparison import Verification
from migrate.model.display import one_line, plural, size
from migrate.model.events import Event
from migrate.model.reports import RunReport

LOGGER = "stateferry.batch"
SPARK_LOGGER = "stateferry.spark"
"""The logger whose own level, once it is set, is that of Spark's log."""
_QUIET_SECONDS, _QUIET_SHARE = 10.0, 0.05
"""Between two lines about the progress of a phase: at least so long, and such a part of its time so far."""
_LOG = logging.getLogger(LOGGER)
_LOG.addHandler(logging.NullHandler())  # else Python prints warnings of a program that configures no logging
_SENTENCES: dict[str, Callable[[dict[str, Any]], str]] = {
    "source.checked": lambda facts: (
        f"checked {facts['source'].path}: {plural(len(facts['source'].partitions), 'store partition')}"
    ),
    "snapshot.taken": lambda _: "snapshot taken",
    "plan.stored": lambda facts: f"plan stored: revision {facts['plan'].revision}",
    "engine.chosen": lambda facts: f"engine: {facts['engine']}",
    "chunks.adopted": lambda facts: f"{plural(len(facts['receipts']), 'chunk')} of an earlier run kept",
    "conversion.revised": lambda facts: (
        f"function replaced (revision {facts['revision']}): "
        f"{plural(facts['superseded'], 'chunk')} with rejected records to rewrite"
    ),
    "dead-letters.written": lambda facts: f"rejects are in {facts['folder']}" if facts["folder"] else "",
    "verify.started": lambda facts: f"verifying ({facts['mode']}): {plural(facts['records'], 'record')}",
    "verify.resumed": lambda facts: f"{plural(facts['records'], 'record')} already compared before the interruption",
    "verify.committed": lambda facts: f"verified: {_outcome(facts['verification'])}",
    "changelog.opened": lambda facts: (
        f"writing {', '.join(sorted({each.new_topic for each in facts['topics'].changelogs}))}"
    ),
    "changelog.verified": lambda facts: (
        f"read back: {plural(sum(each.records for each in facts['found']), 'key')} as they should be"
    ),
    "publish.started": lambda facts: f"publishing {facts['target']}",
    "publish.committed": lambda facts: f"published {facts['target']}",
    "cutover.committed": lambda _: "cut over",
    "rollback.committed": lambda _: "rolled back",
    "finalize.committed": lambda _: "finalized",
    "abandon.removed": lambda _: "abandoned",
}


def log_end(report: RunReport) -> None:
    """Log the result of a run."""
    _LOG.info("%s: %s; next: %s", report.name, one_line(report.state), one_line(report.next_step))


@dataclass
class RewriteProgress:
    """The progress of the rewriting, by bytes of the source."""

    chunks: int = 0
    chunks_done: int = 0
    size: int = 1
    size_done: int = 0
    records: int = 0
    started: float | None = None
    """When the first chunk was started: the start of a Spark session does not count."""

    def follow(self, event: str, facts: dict[str, Any]) -> None:
        """Count what an event says: of the chunks of the plan that earlier runs have not done."""
        match event:
            case "run.begun":
                left = pending_chunks(facts["plan"], facts["done"])
                self.chunks, self.size = len(left), max(1, sum(chunk.estimated_bytes for chunk in left))
            case "chunk.started":
                self.started = self.started or time.monotonic()
            case "chunk.committed":
                self.chunks_done += len(facts["receipts"])
                self.size_done += sum(receipt.bytes_in for receipt in facts["receipts"])
                self.records += sum(receipt.records_in for receipt in facts["receipts"])

    @property
    def share(self) -> float:
        """The share of the work that is done, from 0 to 1; 1 only at the end."""
        return 1.0 if self.chunks_done == self.chunks else min(0.999, self.size_done / self.size)

    @property
    def seconds(self) -> float:
        """Seconds since the first chunk was started."""
        return 1e-9 if self.started is None else max(time.monotonic() - self.started, 1e-9)

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds

    @property
    def note(self) -> str:
        """A summary: `3/10 chunks, 1,000 records, 500/s`."""
        chunks, records = plural(self.chunks, "chunk"), plural(self.records, "record")
        return f"{self.chunks_done}/{chunks}, {records}, {self.rate:,.0f}/s"

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.seconds / max(self.share, 1e-9) - self.seconds)


@dataclass
class VerifyProgress:
    """The progress of a verification, by records."""

    total: int = 1
    records: int = 0
    before: int = 0
    """Those among `records` that were compared before an interruption."""
    started: float = 0.0

    def follow(self, event: str, facts: dict[str, Any]) -> None:
        """Count the records of an event: those to compare, those compared before, or those compared so far."""
        match event:
            case "verify.started":
                self.total, self.records, self.before, self.started = facts["records"], 0, 0, time.monotonic()
            case "verify.resumed":
                self.records = self.before = facts["records"]
            case "verify.progressed":
                self.records = facts["records"]

    @property
    def share(self) -> float:
        return min(1.0, self.records / max(1, self.total))

    @property
    def note(self) -> str:
        return f"{plural(self.records, 'record')}, {self._rate:,.0f}/s"

    @property
    def seconds_left(self) -> float:
        return max(0, self.total - self.records) / max(self._rate, 1e-9)

    @property
    def _rate(self) -> float:
        return (self.records - self.before) / max(time.monotonic() - self.started, 1e-9)


@dataclass
class RunLog:
    """A listener that logs the events of one migration."""

    name: str
    _rewrite: RewriteProgress = field(default_factory=RewriteProgress)
    _stores: int = 0
    _assembled: int = 0
    _verify: VerifyProgress = field(default_factory=VerifyProgress)
    _phases: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When its work was first seen, and when it was last logged, by phase; infinity: it is complete."""

    def __call__(self, event: Event) -> None:
        """Log the event if it starts or ends a phase, or if a phase is at work for long enough."""
        if event.name == "warning":
            _LOG.warning("%s: %s", self.name, one_line(event.facts["sentence"]))
        elif (sentence := _SENTENCES.get(event.name)) is not None:
            self._log(sentence(event.facts))
        self._count(event.name, event.facts)

    def _count(self, name: str, facts: dict[str, Any]) -> None:
        done, compared = self._rewrite, self._verify
        done.follow(name, facts)
        compared.follow(name, facts)
        match name:
            case "run.begun":
                self._stores, before = len(facts["plan"].store_partitions), len(facts["done"])
                self._log(f"{plural(done.chunks, 'chunk')} to rewrite, {size(done.size)}; {before} done before")
            case "chunk.committed":
                self._log_progress("rewrite", done.share, f"{done.note}, {done.seconds_left:,.0f} s left")
            case "assemble.committed":
                self._assembled += 1
                self._stores = max(self._stores, self._assembled)  # a catch-up begins no run
                share = self._assembled / self._stores
                self._log_progress("assemble", share, f"{self._assembled}/{self._stores} store partitions")
            case "verify.started" | "verify.resumed":
                self._phases.pop("verify", None)
            case "verify.progressed":
                self._log_progress("verify", compared.share, f"{compared.note}, {compared.seconds_left:,.0f} s left")

    def _log_progress(self, phase: str, share: float, note: str) -> None:
        now = time.monotonic()
        started, logged = self._phases.setdefault(phase, (now, now))
        is_complete = share >= 1 and logged < math.inf
        if is_complete or now - logged >= max(_QUIET_SECONDS, _QUIET_SHARE * (now - started)):
            self._phases[phase] = started, math.inf if is_complete else now
            self._log(f"{phase} {int(100 * share)}%: {note}")

    def _log(self, sentence: str) -> None:
        if sentence:
            _LOG.info("%s: %s", self.name, one_line(sentence))


def _outcome(found: Verification) -> str:
    if found.ok:
        dropped = f", {found.dropped:,} dropped by the function" if found.dropped else ""
        return f"{plural(found.records, 'record')} equal{dropped}"
    return f"{plural(found.missing, 'key')} missing, {found.differing:,} differing, {found.extra:,} extra"
