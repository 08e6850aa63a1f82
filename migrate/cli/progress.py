"""Progress of a run: a live bar on a terminal, plain lines in a log, every event with --verbose."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from migrate.cli.event_lines import in_a_line
from migrate.cli.output import Output
from migrate.cli.streams import remark
from migrate.events import Event, Listener, ignore
from migrate.plan_model import Plan
from migrate.progress_state import pending_chunks, totals_of
from migrate.receipt import Receipt
from migrate.words import one_line

_SECONDS_BETWEEN_LINES = 5.0

_SENTENCES = {
    "snapshot.taken": "snapshot taken",
    "plan.stored": "plan stored",
    "assemble.started": "assembling {store_partition.id}",
    "verify.started": "verifying ({mode})",
    "publish.started": "publishing {target}",
    "warning": "warning: {sentence}",
}


@contextmanager
def progress(output: Output) -> Iterator[Listener]:
    """A listener that shows a run's progress on standard error."""
    console = output.console(is_error=True)
    if output.is_quiet:
        yield ignore
    elif output.verbosity:
        yield details(output)
    elif console.is_terminal:
        with _bars(console) as bars:
            yield _Bars(bars)
    else:
        yield _Lines()


def details(output: Output) -> Listener:
    """A listener that tells every event, where that was asked for."""
    return _tell if output.verbosity and not output.is_quiet else ignore


def _tell(event: Event) -> None:
    _say(in_a_line(event))


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )


@dataclass
class _Count:
    """How far the rewriting is, by bytes of the source."""

    chunks: int = 0
    chunks_done: int = 0
    size: int = 1
    size_done: int = 0
    records: int = 0
    started: float | None = None
    """When the first chunk was handed out: a Spark session that starts is no progress."""

    @classmethod
    def of(cls, plan: Plan, done: list[Receipt]) -> _Count:
        left = pending_chunks(plan, done)
        return cls(chunks=len(left), size=max(1, sum(chunk.estimated_bytes for chunk in left)))

    def begin(self) -> None:
        self.started = self.started or time.monotonic()

    def add(self, receipts: list[Receipt]) -> None:
        self.chunks_done += len(receipts)
        self.size_done += sum(receipt.bytes_in for receipt in receipts)
        self.records += totals_of(receipts).records_in

    @property
    def share(self) -> float:
        return 1.0 if self.chunks_done == self.chunks else min(0.999, self.size_done / self.size)

    @property
    def seconds(self) -> float:
        return 1e-9 if self.started is None else max(time.monotonic() - self.started, 1e-9)

    @property
    def rate(self) -> float:
        return self.records / self.seconds

    @property
    def note(self) -> str:
        return f"{self.chunks_done}/{self.chunks} chunks, {self.records:,} records, {self.rate:,.0f}/s"


class _Bars:
    """For a terminal."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._count = _Count()
        self._rewrite: TaskID | None = None
        self._verify: TaskID | None = None

    def __call__(self, event: Event) -> None:
        if event.name == "run.begun":
            self._count = _Count.of(event.facts["plan"], event.facts["done"])
            self._rewrite = self._bars.add_task("rewrite", total=1.0, note=self._count.note)
        elif event.name == "chunk.started":
            self._count.begin()
        elif event.name == "chunk.committed" and self._rewrite is not None:
            self._count.add(event.facts["receipts"])
            self._bars.update(self._rewrite, completed=self._count.share, note=self._count.note)
        elif event.name == "verify.started":
            self._verify = self._bars.add_task("verify", total=max(1, event.facts["records"]), note="")
        elif event.name == "verify.progressed" and self._verify is not None:
            records = event.facts["records"]
            self._bars.update(self._verify, completed=records, note=f"{records:,} records")


class _Lines:
    """For a log."""

    def __init__(self) -> None:
        self._count = _Count()
        self._next_line = 0.0

    def __call__(self, event: Event) -> None:
        if event.name == "run.begun":
            self._count = _Count.of(event.facts["plan"], event.facts["done"])
            _say(f"{self._count.chunks} chunks to rewrite, {len(event.facts['done'])} done before")
        elif event.name == "chunk.started":
            self._count.begin()
        elif event.name == "chunk.committed":
            self._count.add(event.facts["receipts"])
            if time.monotonic() >= self._next_line or self._count.chunks_done == self._count.chunks:
                self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
                _say(f"rewrite {self._count.share:.0%}: {self._count.note}, {self._left()} left")
        elif event.name in _SENTENCES:
            _say(_SENTENCES[event.name].format(**event.facts))

    def _left(self) -> str:
        seconds = self._count.seconds
        return f"{max(0.0, seconds / max(self._count.share, 1e-9) - seconds):,.0f} s"


def _say(sentence: str) -> None:
    remark(f"{time.strftime('%H:%M:%S')} {one_line(sentence)}")
