"""A real application of Kafka Streams keeps a list of Avro objects for each key. Its new version has another schema.

The store is migrated together with its changelog; the new version starts on it, loses its disk, and is rolled back.
`make demo-changelog` runs it; everything it makes lies in build/changelog.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from tests.broker.broker import running_broker
from tests.live.changelog.app import App, Program, classpath
from tests.live.changelog.model import (
    Input,
    Rows,
    first_difference,
    make_input_topic,
    migrated,
    random_inputs,
    rows_after,
    send,
)
from tests.live.maven import ProgramError

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "build/changelog"
CUSTOMERS = 20_000
SHOWN = 2
"""Orders of a customer."""
VERSION = "4.3.1"


class DemoError(Exception):
    """A command failed, or an application does not hold what it must."""


def main(folder: Path = FOLDER, customers: int = CUSTOMERS) -> int:
    """The exit code: 1 if anything is not as it must be."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[dim]starting a broker, and building an application with Kafka Streams {VERSION} ...")
    (folder / "broker").mkdir()
    try:
        classpath(VERSION)
        with running_broker(folder / "broker") as broker:
            _Demo(folder, broker.bootstrap, console).show(customers)
    except (DemoError, ProgramError) as error:
        console.print(f"{error}", style="bold red", markup=False)
        return 1
    console.print("Everything is in build/changelog: the spec, the state directory, work_dir with plan and ledger.")
    return 0


class _Demo:
    def __init__(self, folder: Path, bootstrap: str, console: Console) -> None:
        self._console = console
        self._spec = folder / "migration.toml"
        for schema in HERE.glob("*.avsc"):
            shutil.copy(schema, folder)
        text = (HERE / "migration.toml").read_text(encoding="utf-8")
        self._spec.write_text(text.replace("localhost:9092", bootstrap), encoding="utf-8")
        self._old = Program(bootstrap, "shop-app", folder / "state", version=VERSION, exactly_once=True)
        self._new = self._old.next_version()

    def show(self, customers: int) -> None:
        """Start to finish. Raises DemoError."""
        orders = _orders(customers, customers // 5, seed=1)
        later = _orders(customers // 20, 0, seed=2)
        make_input_topic(self._old.bootstrap, self._old.input)
        before = rows_after(self._old.kind, orders)
        self._title("Version 1 of the application")
        self._send(orders)
        self._run(self._old, before, restored=0)
        self._title("Its state gets the schema of version 2")
        self._stateferry("plan")
        self._stateferry("run", "--no-spark")
        self._stateferry("cutover")
        self._title("Version 2")
        self._run(self._new, migrated(before), restored=0)
        self._send(later)
        after = rows_after(self._new.kind, later, schema_id=2, before=migrated(before))
        self._run(self._new, after, restored=0)
        self._title("Version 2 on another host, where it has no state: it rebuilds it from its changelog")
        self._run(self._new.elsewhere(), after, restored=None)
        self._title("And back")
        self._stateferry("rollback")
        self._run(self._old, rows_after(self._old.kind, [*orders, *later]), restored=0)

    def _title(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}")

    def _send(self, orders: list[Input]) -> None:
        send(self._old.bootstrap, self._old.input, orders)
        self._console.print(f"  {len(orders):,} orders are sent to {self._old.input}")

    def _stateferry(self, verb: str, *options: str) -> None:
        self._console.print("[bold]$", "stateferry", verb, os.path.relpath(self._spec), *options)
        command = [sys.executable, "-c", "from migrate.cli import main; main()", verb, str(self._spec), *options]
        if code := subprocess.run(command, check=False).returncode:
            raise DemoError(f"stateferry {verb} exited {code}")

    def _run(self, program: Program, expected: Rows, *, restored: int | None) -> None:
        """Start the application, compare what it holds, stop it."""
        started = time.monotonic()
        with App(program) as app:
            app.wait_running()
            seconds = time.monotonic() - started
            found = app.wait_caught_up().dump()
            self._tell(f"running after {seconds:.1f} s; restored {app.restored:,} records, processed {app.processed:,}")
            app.stop()
        if difference := first_difference(found, expected):
            raise DemoError(f"{program.store} is not what it must be: {difference}")
        if restored is not None and app.restored != restored:
            raise DemoError(f"{program.store}: {app.restored} records were restored, not {restored}")
        self._tell(f"{program.store} holds {len(found):,} customers, each with the orders and the time that it must")
        customer, row = next((key, row) for (key, _), row in found.items() if len(row.orders) == SHOWN)
        self._tell(f"such as {customer} at {row.timestamp_ms}:")
        for order in row.orders:
            self._tell(f"  {json.dumps(order, ensure_ascii=False)}")

    def _tell(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False)


def _orders(customers: int, more: int, *, seed: int) -> list[Input]:
    return random_inputs(customers, more, seed=seed, now_ms=time.time_ns() // 1_000_000)


if __name__ == "__main__":
    sys.exit(main())
