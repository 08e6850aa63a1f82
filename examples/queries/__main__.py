"""Ask a store over HTTP all the way through its migration: converted, cut over, rolled back, cut over again, finalized.

`make demo-queries` runs it; everything it makes lies in build/queries.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.queries.clients import BOTH, THREADS, Clients, Shop
from migrate import open_store

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "build/queries"
COMMAND = [sys.executable, "-c", "from migrate.cli import main; main()"]
TASKS = ("0_0", "0_1")
ORDERS = 50_000
LINES = {"plan": 2, "run": 3}
"""Shown of a report that is long."""
SECONDS = 1.5
"""Between two verbs."""


class DemoError(Exception):
    """A command failed."""


def main(folder: Path = FOLDER, orders: int = ORDERS) -> int:
    """The exit code: 1 if a command failed, or an answer was wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spec = Path(shutil.copy(HERE / "migration.toml", folder))
    shop = Shop(orders)
    _make_state(folder / "state/shop-app", shop)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    try:
        with _service(console, spec) as url, Clients(url, shop) as clients:
            _migrate(console, spec, clients)
    except DemoError as error:
        console.print(f"{error}", style="bold red", markup=False)
        return 1
    console.print(_table(clients))
    for each in clients.wrong[:5]:
        console.print(f"wrong: {each}", style="bold red", markup=False)
    return 1 if clients.wrong else 0


def _make_state(application: Path, shop: Shop) -> None:
    """Two tasks, and the changelog's positions."""
    for number, task in enumerate(TASKS):
        store = application / task / "rocksdb/orders"
        with open_store(store, format="kafka-streams.key-value", read_only=False, create=True) as orders:
            for order in range(number, shop.orders, len(TASKS)):
                orders.put(shop.key(order).encode(), json.dumps(shop.value(order)).encode())
        line = f"shop-app-orders-changelog {number} {shop.orders // len(TASKS) - 1}"
        (application / task / ".checkpoint").write_text(f"0\n1\n{line}\n")


@contextmanager
def _service(console: Console, spec: Path) -> Iterator[str]:
    """Its address. Raises DemoError where it does not start."""
    console.print("[bold]$", "stateferry serve", os.path.relpath(spec), "&")
    command = [*COMMAND, "serve", str(spec), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://\S+:\d+", said)
            if found is None:
                raise DemoError(f"the service did not start: {said}{process.stderr.read()}")
            console.print(said.strip())
            yield found[0]
        finally:
            process.terminate()


def _migrate(console: Console, spec: Path, clients: Clients) -> None:
    """Each verb is a stage, and the time after it another one. Raises DemoError."""
    old, new = frozenset({"old"}), frozenset({"new"})
    verbs = (
        (("plan", "--quiet"), old, old),
        (("run", "--no-spark", "--quiet"), old, old),
        (("get", "order-000017"), old, old),
        (("cutover",), BOTH, new),
        (("rollback",), BOTH, old),
        (("cutover",), BOTH, new),
        (("finalize", "--yes"), new, new),
    )
    time.sleep(SECONDS)
    for (verb, *options), meanwhile, afterwards in verbs:
        clients.enter(verb, meanwhile)
        _stateferry(console, spec, verb, options)
        clients.enter(f"after {verb}", afterwards)
        time.sleep(SECONDS)


def _stateferry(console: Console, spec: Path, verb: str, options: list[str]) -> None:
    """Run it; of long reports the end is shown. Raises DemoError."""
    lines = LINES.get(verb)
    shown = [] if lines is None else [f"| tail -n {lines}"]
    console.print("\n[bold]$", "stateferry", verb, os.path.relpath(spec), *options, *shown)
    done = subprocess.run([*COMMAND, verb, str(spec), *options], stdout=subprocess.PIPE, text=True, check=False)
    console.print("\n".join(done.stdout.splitlines()[-(lines or 0) :]), markup=False)
    if done.returncode:
        raise DemoError(f"stateferry {verb} exited {done.returncode}")


def _table(clients: Clients) -> Table:
    title = f"Answers to {THREADS} clients, which asked without a pause"
    table = Table(title=f"\n{title}", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("while")
    for column in ("old format", "new format", "ranges of both", "retried (503)", "longest ms"):
        table.add_column(column, justify="right")
    total: Counter[str] = Counter()
    for stage in clients.stages:
        total += stage.answers
        table.add_row(stage.name, *_counts(stage.answers), f"{stage.longest_ms:.0f}")
    table.add_section()
    longest = max(stage.longest_ms for stage in clients.stages)
    table.add_row("all", *_counts(total), f"{longest:.0f}", style="bold")
    table.caption = f"{total.total() - total['refused']:,} answers, {len(clients.wrong)} wrong or failed"
    table.caption_justify = "left"
    return table


def _counts(answers: Counter[str]) -> list[str]:
    by_format = [f"{answers[name]:,}" if answers[name] else "" for name in ("old", "new", "both")]
    return [*by_format, f"{answers['refused']:,}"]


if __name__ == "__main__":
    sys.exit(main())
