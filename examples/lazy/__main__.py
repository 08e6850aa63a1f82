"""Run version 1 of a processor, upgrade it to version 2 on the same state, kill both at random, and recount.

`make demo-lazy` runs it; everything it makes lies in build/lazy.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from examples.lazy import version_1, version_2
from examples.lazy.recount import what_is_wrong
from examples.lazy.stream import BATCH_EVENTS, NAME_PREFIX, NameSerde, offset_of
from migrate import RefusedError, open_store

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/lazy"
SHOWN = 3
LONGER_THAN_A_BATCH_S = 0.02
LONGER_THAN_A_START_S = 0.6


@dataclass(slots=True)
class Show:
    """What is run, with how much, and how often it was killed."""

    folder: Path
    names: int
    events: int
    kills: int
    dice: random.Random
    console: Console
    killed: int = 0

    @property
    def stream(self) -> Path:
        """The file of events."""
        return self.folder / "events.txt"

    @property
    def state(self) -> Path:
        """The processor's own RocksDB directory."""
        return self.folder / "state"


@click.command()
@click.option("--names", type=click.IntRange(min=10), default=20_000, show_default=True)
@click.option("--events", type=click.IntRange(min=1_000), default=100_000, show_default=True)
@click.option(
    "--kills", type=click.IntRange(min=1), default=12, show_default=True, help="A third of them of version 1."
)
@click.option("--seed", type=int, help="Of the events and of when to kill; a random one by default, which is printed.")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, help="Is emptied first.")
def main(names: int, events: int, kills: int, seed: int | None, folder: Path) -> None:
    """Exits with 1 where a number is wrong."""
    started = time.monotonic()
    seed = random.randrange(1_000_000) if seed is None else seed
    show = Show(folder, names, events, kills, random.Random(seed), Console(highlight=False, width=120))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write_events(show)
    show.console.print(f"{events} events of {names} names (--seed {seed})")
    upgraded_at, before = _run_version_1(show)
    _run_version_2(show)
    if wrong := what_is_wrong(show.stream, show.state, upgraded_at):
        show.console.print("[bold]WRONG:", *wrong, sep="\n  ")
        sys.exit(1)
    _show_before_and_after(show, before)
    seconds = time.monotonic() - started
    show.console.print(f"[bold]Every number is right, after {show.killed} kills[/] ({seconds:.0f} s).")


def _write_events(show: Show) -> None:
    """Some names come in the first half only: nothing but `converge` will ever touch their records again."""
    names = [f"customer-{number:05d}" for number in range(show.names)]
    show.dice.shuffle(names)
    with show.stream.open("w", encoding="ascii") as file:
        for number in range(show.events):
            known = names if number < show.events // 2 else names[: show.names // 2]
            file.write(f"{show.dice.choice(known)} {show.dice.randint(1, 100_000)}\n")


def _run_version_1(show: Show) -> tuple[int, dict[bytes, bytes]]:
    """Killed every time. Returns its last offset, and some of its records."""
    show.console.print("[bold]version 1[/] starts from nothing")
    kills = max(1, show.kills // 3)
    for number in range(kills):
        _run_and_kill(show, "version_1", show.events // 2 // kills, is_early=number % 3 == 2)
    with open_store(show.state, format="rocksdb.raw") as store:
        return offset_of(store), dict(islice(store.prefix_scan(NAME_PREFIX), SHOWN))


def _run_version_2(show: Show) -> None:
    """Killed most times; then it comes to the end of the stream."""
    show.console.print("[bold]version 2[/] takes the same directory over, and goes on at once")
    kills = max(1, show.kills - show.kills // 3)
    for number in range(kills):
        _run_and_kill(show, "version_2", show.events // 2 // kills, is_early=number % 3 == 2)
        if number == 0:
            _open_too_early(show)
    done = subprocess.run(_command(show, "version_2"), cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        sys.exit(f"version_2 ended with {done.returncode}")
    show.console.print("  came to the end of the stream, and of the old records")


def _command(show: Show, version: str) -> list[str]:
    return [sys.executable, "-m", f"examples.lazy.{version}", str(show.stream), str(show.state)]


def _run_and_kill(show: Show, version: str, events: int, *, is_early: bool) -> None:
    """Let it count up to so many events, or not even start, then SIGKILL it, wherever it is."""
    batches = 0 if is_early else show.dice.randint(1, max(1, events // BATCH_EVENTS - 1))
    with subprocess.Popen(_command(show, version), cwd=ROOT, stdout=subprocess.PIPE, text=True) as processor:
        assert processor.stdout is not None
        lines = list(islice(processor.stdout, batches))
        time.sleep(show.dice.random() * (LONGER_THAN_A_START_S if is_early else LONGER_THAN_A_BATCH_S))
        processor.kill()
        lines += processor.stdout.readlines()
    where = lines[-1].strip() if lines else "while it started"
    if processor.returncode == 0:
        show.console.print(f"  came to its end before it could be killed, {where}")
    elif processor.returncode == -signal.SIGKILL:
        show.killed += 1
        show.console.print(f"  killed (SIGKILL) {where}")
    else:
        sys.exit(f"{version} ended with {processor.returncode}, {where}")


def _open_too_early(show: Show) -> None:
    """The plain new code would miss what is still in the old format."""
    try:
        open_store(show.state, format="rocksdb.raw", family=version_2.FAMILY).close()
    except RefusedError as refused:
        show.console.print(f"  without the adapter it would be refused now: {refused.message}", soft_wrap=True)


def _show_before_and_after(show: Show, before: dict[bytes, bytes]) -> None:
    show.console.print("the first names, before the upgrade and at the end")
    table = Table(box=None)
    for column in ("name", "", "count", "sum", "largest"):
        table.add_column(column)
    with open_store(show.state, format="rocksdb.raw", family=version_2.FAMILY) as store:
        for key, value in before.items():
            old = version_1.TotalsSerde().decode(value)
            new = version_2.TotalsSerde().decode(store.get(key) or b"")
            table.add_row(NameSerde().decode(key), "before", str(old.count), str(old.sum), "")
            table.add_row("", "after", str(new.count), str(new.sum), str(new.largest))
    show.console.print(table)


if __name__ == "__main__":
    main()
