"""Progress of a run: a live bar on a terminal, its log records elsewhere, every event with --verbose."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from migrate.batch.chunk.executor import RETRIES
from migrate.batch.log import LOGGER, RewriteProgress
from migrate.model.events import Event, Listener, ignore
from migrate.model.units import one_line
from migrate.show.output import Output
from migrate.show.streams import remark


@contextmanager
def progress(output: Output) -> Iterator[Listener]:
    """A listener that shows a run's progress on standard error."""
    console = output.console(is_error=True)
    if output.is_quiet:
        with _log_shown(logging.CRITICAL):
            yield ignore
    elif output.verbosity:
        with _log_shown(logging.WARNING, RETRIES):  # every other record would repeat an event
            yield details(output)
    elif console.is_terminal:
        with _log_shown(logging.WARNING), _bars(console) as bars:
            yield _Bars(bars)
    else:
        with _log_shown(logging.INFO):
            yield ignore


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


class _OnStandardError(logging.Handler):
    """Shows log records to a person who watches."""

    def emit(self, record: logging.LogRecord) -> None:
        label = "warning: " if record.levelno >= logging.WARNING else ""
        _say(f"{label}{record.getMessage()}")


@contextmanager
def _log_shown(level: int, name: str = LOGGER) -> Iterator[None]:
    """Log records of this logger on standard error, and none elsewhere: the user's function may configure logging."""
    logger, handler = logging.getLogger(LOGGER), _OnStandardError()
    before = logger.level, logger.propagate
    handler.addFilter(logging.Filter(name))
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _Bars:
    """For a terminal."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._count = RewriteProgress()
        self._rewrite: TaskID | None = None
        self._verify: TaskID | None = None

    def __call__(self, event: Event) -> None:
        if event.name == "run.begun":
            self._count = RewriteProgress.of(event.facts["plan"], event.facts["done"])
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


def _say(sentence: str) -> None:
    remark(f"{time.strftime('%H:%M:%S')} {one_line(sentence)}")


_FACTS: dict[str, Callable[[Any], str]] = {
    "source": lambda source: f"{source.path}: {_ids(source.partitions)}",
    "plan": lambda plan: f"revision {plan.revision}, {len(plan.chunks)} chunks, migration {plan.migration_id}",
    "done": lambda receipts: f"{len(receipts)} chunks done before",
    "receipts": lambda receipts: "; ".join(map(_receipt, receipts)),
    "task": lambda task: str(task.chunk),
    "store_partition": lambda partition: str(partition.id),
    "verification": lambda found: f"{found.records:,} records, {found.seconds:,.2f} s",
    "records": lambda records: f"{records:,} records",
}
"""In words, by name; others as they are."""


def in_a_line(event: Event) -> str:
    """`chunk.committed  0_0/orders #3: 2,000 records in, 2,000 out, 0.12 s`."""
    told = [_FACTS.get(name, str)(fact) for name, fact in event.facts.items() if fact is not None]
    return f"{event.name}  {', '.join(filter(None, told))}".rstrip()


def _receipt(receipt: Any) -> str:  # noqa: ANN401 - importing its class would load numpy for nothing
    return f"{receipt}: {receipt.records_in:,} records in, {receipt.records_out:,} out, {receipt.seconds:,.2f} s"


def _ids(partitions: Any) -> str:  # noqa: ANN401
    return ", ".join(partition.id for partition in partitions)
