"""Progress on standard error: bars on a terminal, log records elsewhere, every event if --verbose; `status --watch`."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from migrate.batch.chunk.executor import RETRIES, STARTS
from migrate.batch.log import LOGGER, RewriteProgress, VerifyProgress
from migrate.model.display import duration, plural, rate, share
from migrate.model.events import Event, Listener, ignore
from migrate.model.reports import WatchReport
from migrate.show.output import Output
from migrate.show.text.report_text import status_facts, verifying_in_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_BAR_WIDTH = 40


@contextmanager
def progress(output: Output) -> Iterator[Listener]:
    """A listener that shows the progress of a run."""
    console = output.terminal(sys.stderr)
    if output.is_quiet:
        with _log_shown(output, logging.CRITICAL):
            yield ignore
    elif output.verbosity:
        with _log_shown(output, logging.INFO, (RETRIES, STARTS)):  # other records would repeat an event
            yield details(output)
    elif console is not None:
        with _log_shown(output, logging.INFO, (STARTS,), least=logging.WARNING), _bars(console) as bars:
            yield _Bars(bars)
    else:
        with _log_shown(output, logging.INFO):
            yield ignore


def start_shown(output: Output) -> AbstractContextManager[None]:
    """Show what is started and may take long, and what is tried again, for a command without a bar."""
    return _log_shown(output, logging.CRITICAL if output.is_quiet else logging.INFO, (RETRIES, STARTS))


@contextmanager
def counting(output: Output) -> Iterator[Listener]:
    """A listener that counts the records that a dry run reads, on a terminal."""
    console = output.terminal(sys.stderr)
    if output.is_quiet or console is None:
        yield ignore
        return
    records = 0

    def count(event: Event) -> None:
        nonlocal records
        if event.name == "dry-run.progressed":
            records += event.facts["records"]
            status.update(f"{plural(records, 'record')} read")

    with console.status("reading") as status:
        yield count


def details(output: Output) -> Listener:
    """A listener that prints every event, with --verbose."""
    if output.is_quiet or not output.verbosity:
        return ignore

    def show(event: Event) -> None:
        facts = {name: _FACTS.get(name, str)(fact) for name, fact in event.facts.items() if fact is not None}
        line = f"{event.name}  {', '.join(filter(None, facts.values()))}".rstrip()
        output.log("debug", LOGGER, line, event=event.name, facts=facts)

    return show


def _receipt(receipt: Any) -> str:  # noqa: ANN401 - importing its class would load numpy for nothing
    return (
        f"{receipt}: {plural(receipt.records_in, 'record')} in, {receipt.records_out:,} out, {receipt.seconds:,.2f} s"
    )


_FACTS: dict[str, Callable[[Any], str]] = {
    "source": lambda source: f"{source.path}: {', '.join(partition.id for partition in source.partitions)}",
    "plan": lambda plan: (
        f"revision {plan.revision}, {plural(len(plan.chunks), 'chunk')}, migration {plan.migration_id}"
    ),
    "done": lambda receipts: f"{plural(len(receipts), 'chunk')} already done",
    "receipts": lambda receipts: "; ".join(map(_receipt, receipts)),
    "produced": lambda parts: "; ".join(f"{each.part}: {plural(each.records, 'record')}" for each in parts),
    "topics": lambda topics: ", ".join(dict.fromkeys(each.new_topic for each in topics.changelogs)),
    "found": lambda comparisons: plural(len(comparisons), "changelog"),
    "store_partition": lambda partition: str(partition.id),
    "verification": lambda found: f"{plural(found.records, 'record')}, {found.seconds:,.2f} s",
    "records": lambda records: plural(records, "record"),
    "ranges": lambda tasks: plural(len(tasks), "range"),
    "revision": lambda revision: f"revision {revision}",
    "superseded": lambda superseded: f"{plural(superseded, 'chunk')} superseded",
}
"""The facts of events as text, by name; all others are printed as they are."""


class _OnStandardError(logging.Handler):
    """Prints log records for a person."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        message = self._output.named(record.getMessage())
        self._output.log("warning" if record.levelno >= logging.WARNING else "info", record.name, message)


@contextmanager
def _log_shown(
    output: Output, level: int, names: tuple[str, ...] = (), *, least: int = logging.CRITICAL
) -> Iterator[None]:
    """Log records from `level` on on standard error, and nowhere else: the user's function may configure logging.

    `names`: those of these loggers, and of others from `least` on; empty: of all.
    """
    logger, handler = logging.getLogger(LOGGER), _OnStandardError(output)
    before = logger.level, logger.propagate
    handler.addFilter(lambda record: not names or record.name in names or record.levelno >= least)
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def _bars(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[note]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    )


class _Bars:
    """A listener that draws the progress of rewriting and verifying on a terminal."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._count = RewriteProgress()
        self._rewrite: TaskID | None = None
        self._compared = VerifyProgress()
        self._verify: TaskID | None = None

    def __call__(self, event: Event) -> None:
        self._count.follow(event.name, event.facts)
        self._compared.follow(event.name, event.facts)
        if event.name == "run.begun":
            self._rewrite = self._bars.add_task("rewrite", total=1.0, note=self._count.note)
            self._bars.update(self._rewrite, completed=self._count.share)  # where nothing is left, it is full
        elif event.name == "chunk.committed" and self._rewrite is not None:
            self._bars.update(self._rewrite, completed=self._count.share, note=self._count.note)
        elif event.name == "verify.started":
            self._verify = self._bars.add_task("verify", total=1.0, note="")
        elif event.name in ("verify.resumed", "verify.progressed") and self._verify is not None:
            self._bars.update(self._verify, completed=self._compared.share, note=self._compared.note)


@contextmanager
def watch_display(output: Output) -> Iterator[Callable[[WatchReport], None]]:
    """A function that shows each report: on a terminal in the same place, else as a line, with --json as a document."""
    if output.as_json:
        yield lambda report: print(output.document(report, indent=None), flush=True)
    elif (console := output.terminal(sys.stdout)) is not None:
        with _screen(console, output) as show:
            yield lambda report: show(output.readable(report))
    else:
        lines = _ProgressLines()
        yield lambda report: lines(output.readable(report))


@contextmanager
def _screen(console: Console, output: Output) -> Iterator[Callable[[WatchReport], None]]:
    from rich.console import Group
    from rich.live import Live
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    def content(report: WatchReport) -> Group:
        facts = status_facts(report, output) | {"rate": _rate(report), "note": report.notice}
        done = report.share_done if report.verifying is None else report.verifying.share_done
        bar = ProgressBar(total=1.0, completed=done, width=_BAR_WIDTH)
        return Group(Padding(bar, 0), Text.from_ansi("\n".join(output.layout.facts(facts))))

    with Live(console=console, auto_refresh=False) as live:
        yield lambda report: live.update(content(report), refresh=True)


class _ProgressLines:
    """Lines of a log: one for each report that differs from the one before."""

    def __init__(self) -> None:
        self._before: tuple[object, ...] = ()

    def __call__(self, report: WatchReport) -> None:
        work = (report.chunks_left, report.totals.rejected, report.verifying)
        now = (report.state, report.run_id, *work, report.notice, report.is_over)
        if now == self._before:
            return
        self._before = now
        for line in filter(None, (_in_a_line(report), report.notice)):
            print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def _in_a_line(report: WatchReport) -> str:
    if not report.chunks_planned:
        return report.state
    if report.verifying is not None:
        return f"{report.state}, verifying {verifying_in_words(report.verifying)}"
    done = f"{report.chunks_planned - report.chunks_left:,} of {plural(report.chunks_planned, 'chunk')}"
    records = f"{plural(report.totals.records_in, 'record')}, {report.totals.rejected:,} rejected"
    return ", ".join(filter(None, (f"{report.state} {share(report.share_done)}: {done}", records, _rate(report))))


def _rate(report: WatchReport) -> str:
    """The rate of the rewriting; that of a verification is shown with its progress."""
    if report.verifying is not None:
        return ""
    speed = "" if report.records_per_second is None else rate(report.records_per_second)
    left = "" if report.seconds_left is None else f"{duration(report.seconds_left)} left to rewrite"
    return ", ".join(filter(None, (speed, left)))
