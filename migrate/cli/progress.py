"""Progress of a run: a live bar on a terminal, its log records elsewhere, every event with --verbose."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from migrate.cli.event_lines import in_a_line
from migrate.cli.output import Output
from migrate.cli.streams import remark
from migrate.events import Event, Listener, ignore
from migrate.executor import RETRIES
from migrate.run_log import LOGGER, RewriteProgress
from migrate.words import one_line


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
