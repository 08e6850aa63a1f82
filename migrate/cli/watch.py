"""`status --watch` on a terminal, in a log, and as a line of JSON for each look."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from migrate.cli.foreign_text import visible_json, visible_report
from migrate.cli.options import Output, remark, stop_writing
from migrate.cli.plain import ATTENTION
from migrate.cli.show import concerns_in_words
from migrate.spec import Spec
from migrate.watching import Watch, WatchReport
from migrate.words import duration, plural, rate, share

Show = Callable[[WatchReport], None]
_SHARE_OF_A_CORE = 10
"""Looks at a very long ledger are made less often: they take a tenth of one core at most."""
_NARROW = 40


def follow(spec: Spec, interval: float, output: Output) -> None:
    """Look and show until there is nothing left to follow, or somebody has seen enough: the run itself goes on."""
    watch = Watch(spec)
    try:
        with _shown(output) as show:
            while True:
                begun = time.monotonic()
                seen = watch.look()
                show(seen)
                if seen.is_over:
                    return
                time.sleep(max(interval, _SHARE_OF_A_CORE * (time.monotonic() - begun)))
    except KeyboardInterrupt:
        remark("\nno longer watching; whatever is at work goes on")
    except BrokenPipeError:
        stop_writing(sys.stdout)  # whoever read this has gone


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
    """The same place of the terminal, again and again."""
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def drawn(seen: WatchReport) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, text in _facts(seen).items():
            table.add_row(name, Text(text, style="yellow" if name == ATTENTION else ""))
            if name == "state" and seen.chunks_planned:
                table.add_row("", ProgressBar(total=1.0, completed=seen.share_done, width=_NARROW))
        return table

    with Live(console=output.console(), auto_refresh=False) as live:
        yield lambda seen: live.update(drawn(seen), refresh=True)


def _facts(seen: WatchReport) -> dict[str, str]:
    facts = {"migration": seen.name, "state": f"{seen.state} {_share(seen)}".rstrip()}
    if seen.chunks_planned:
        facts |= {
            "chunks": f"{_chunks(seen)}, {seen.chunks_at_work:,} at work, {_retries(seen)}",
            "records": f"{seen.totals.records_in:,} read, {seen.totals.rejected:,} rejected",
            "rate": _rate(seen) or "not known yet",
            "slowest": _slowest(seen) or "none is done yet",
            "hosts": "\n".join(_hosts(seen)) or "none yet",
            ATTENTION: concerns_in_words(seen.concerns),
            "quiet for": "" if seen.quiet_seconds is None else duration(seen.quiet_seconds),
        }
    return {name: text for name, text in {**facts, "note": seen.notice}.items() if text}


class _Lines:
    """For a log: a line where something has changed."""

    def __init__(self) -> None:
        self._before: tuple[object, ...] = ()

    def __call__(self, seen: WatchReport) -> None:
        moved = (seen.state, seen.run_id, seen.chunks_left, seen.retries, seen.totals.rejected)
        now = (*moved, seen.at_work, bool(seen.notice), seen.is_over)
        if now == self._before:
            return
        self._before = now
        print(f"{time.strftime('%H:%M:%S')} {_in_a_line(seen)}", flush=True)
        if seen.notice:
            print(f"{time.strftime('%H:%M:%S')} {seen.notice}", flush=True)


def _in_a_line(seen: WatchReport) -> str:
    if not seen.chunks_planned:
        return seen.state
    done = filter(None, (_chunks(seen), f"{seen.totals.records_in:,} records", _rate(seen)))
    trouble = f"{seen.chunks_at_work:,} at work, {_retries(seen)}, {seen.totals.rejected:,} rejected"
    slowest = f"slowest {_slowest(seen)}" if seen.slowest is not None else ""
    parts = (f"{seen.state} {_share(seen)}: {', '.join(done)}", trouble, slowest, ", ".join(_hosts(seen)))
    return "; ".join(filter(None, parts))


def _share(seen: WatchReport) -> str:
    return share(seen.share_done) if seen.chunks_planned else ""


def _chunks(seen: WatchReport) -> str:
    return f"{seen.chunks_planned - seen.chunks_left:,} of {plural(seen.chunks_planned, 'chunk')}"


def _retries(seen: WatchReport) -> str:
    return plural(seen.retries, "retry", "retries")


def _rate(seen: WatchReport) -> str:
    speed = "" if seen.records_per_second is None else rate(seen.records_per_second)
    left = "" if seen.seconds_left is None else f"{duration(seen.seconds_left)} left to rewrite"
    return ", ".join(filter(None, (speed, left)))


def _slowest(seen: WatchReport) -> str:
    chunk = seen.slowest
    if chunk is None:
        return ""
    return f"{duration(chunk.seconds)} ({chunk.store_partition} chunk {chunk.number} on {chunk.host})"


def _hosts(seen: WatchReport) -> list[str]:
    return [f"{each.host}: {plural(each.chunks, 'chunk')}" for each in seen.hosts]
