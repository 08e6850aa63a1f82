"""`status --watch` on a terminal, in a log, and as lines of JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from migrate.batch.status.watch import WatchReport
from migrate.model.units import duration, plural, rate, share
from migrate.show.output import Output
from migrate.show.text.reports import status_facts, verifying_in_words

if TYPE_CHECKING:
    from rich.console import Console

_BAR_WIDTH = 40


@contextmanager
def watch_display(output: Output) -> Iterator[Callable[[WatchReport], None]]:
    """A function that shows each report: on a terminal in the same place, else as a line, with --json as a document."""
    if output.as_json:
        yield lambda report: print(output.document(report, indent=None), flush=True)
    elif (console := output.terminal(sys.stdout)) is not None:
        with _screen(console, output) as show:
            yield lambda report: show(output.readable(report))
    else:
        lines = _Lines()
        yield lambda report: lines(output.readable(report))


@contextmanager
def _screen(console: Console, output: Output) -> Iterator[Callable[[WatchReport], None]]:
    """A bar and the facts, updated in the same place of the terminal."""
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


class _Lines:
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
