"""`status --watch` on a terminal, in a log, and as a line of JSON for each look."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from migrate.batch.status.watch import Watch, WatchReport
from migrate.model.units import duration, plural, rate, share
from migrate.show.foreign_text import visible_json, visible_report
from migrate.show.output import Output
from migrate.show.streams import remark, stop_writing
from migrate.show.text.reports import status_facts
from migrate.spec.spec import Spec

Show = Callable[[WatchReport], None]
_SHARE_OF_A_CORE = 10
"""Looks at a very long ledger are made less often: they take a tenth of one core at most."""
_BAR = 40


def follow(spec: Spec, interval: float, output: Output) -> None:
    """Look and show until there is nothing left to follow, or the user stops it: the run itself goes on."""
    watch = Watch(spec)
    try:
        with _shown(output) as show:
            while True:
                begun = time.monotonic()
                seen = watch.poll()
                show(seen)
                if seen.is_over:
                    return
                time.sleep(max(interval, _SHARE_OF_A_CORE * (time.monotonic() - begun)))
    except KeyboardInterrupt:
        remark("\nno longer watching; whatever is at work goes on")
    except BrokenPipeError:
        stop_writing(sys.stdout)  # the reader of the pipe has gone


@contextmanager
def _shown(output: Output) -> Iterator[Show]:
    if output.as_json:
        yield lambda seen: print(visible_json(seen.model_dump_json()), flush=True)
    elif sys.stdout.isatty():
        with _screen(output) as show:
            yield lambda seen: show(visible_report(seen))
    else:
        lines = _Lines()
        yield lambda seen: lines(visible_report(seen))


@contextmanager
def _screen(output: Output) -> Iterator[Show]:
    """The facts in the same place of the terminal, again and again, under a bar."""
    from rich.console import Group
    from rich.live import Live
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    def drawn(seen: WatchReport) -> Group:
        facts = status_facts(seen, output) | {"rate": _rate(seen), "note": seen.notice}
        bar = ProgressBar(total=1.0, completed=seen.share_done, width=_BAR)
        return Group(Padding(bar, 0), Text.from_ansi("\n".join(output.layout.facts(facts))))

    with Live(console=output.console(), auto_refresh=False) as live:
        yield lambda seen: live.update(drawn(seen), refresh=True)


class _Lines:
    """For a log: a line where something has changed."""

    def __init__(self) -> None:
        self._before: tuple[object, ...] = ()

    def __call__(self, seen: WatchReport) -> None:
        now = (seen.state, seen.run_id, seen.chunks_left, seen.totals.rejected, seen.notice, seen.is_over)
        if now == self._before:
            return
        self._before = now
        for line in filter(None, (_in_a_line(seen), seen.notice)):
            print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def _in_a_line(seen: WatchReport) -> str:
    if not seen.chunks_planned:
        return seen.state
    done = f"{seen.chunks_planned - seen.chunks_left:,} of {plural(seen.chunks_planned, 'chunk')}"
    records = f"{seen.totals.records_in:,} records, {seen.totals.rejected:,} rejected"
    return ", ".join(filter(None, (f"{seen.state} {share(seen.share_done)}: {done}", records, _rate(seen))))


def _rate(seen: WatchReport) -> str:
    speed = "" if seen.records_per_second is None else rate(seen.records_per_second)
    left = "" if seen.seconds_left is None else f"{duration(seen.seconds_left)} left to rewrite"
    return ", ".join(filter(None, (speed, left)))
