"""Copy a state directory that Kafka Streams 4.0.1 wrote, migrate it on Spark, kill that half-way, and resume.

Then show records before and after, and how fast each engine is.

`make demo` runs it; everything it makes lies in build/demo. `python -m examples.demo --only-store DIR` copies the state
directory, to DIR/state/orders-app, and does nothing else.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from examples.demo.engines import show_engines
from formats import get_format
from jobs.java import find_java_home
from migrate import load_spec, open_store, status
from migrate.spec.spec import Spec

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / "tests/fixtures/kafka-streams-4.0.1/orders-app"
FOLDER = ROOT / "build/demo"
SHOWN = 4
ENOUGH_CHUNKS = 5


@click.command()
@click.option("--only-store", "folder", type=click.Path(path_type=Path), help="Copy the state directory there only.")
def main(folder: Path | None) -> None:
    """Exits with the job's own code."""
    if folder is not None:
        _copy_state(folder)
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    _copy_state(FOLDER)
    spec_file = shutil.copy(Path(__file__).with_name("migration.toml"), FOLDER / "migration.toml")
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    command = [*submit, str(ROOT / "jobs/migrate_job.py"), "--spec", str(spec_file)]
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    spec = load_spec(spec_file)
    os.environ |= _without_notices()
    shown = " ".join(os.path.relpath(part) if part.startswith("/") else part for part in command)
    console.print(f"[bold]$ {shown}")
    _kill_half_way(console, command, spec)
    console.print(f"[bold]$ {shown}")
    exit_code = subprocess.run(command, check=False).returncode
    if exit_code == 0:
        _show_before_and_after(console, spec)
        show_engines(console, FOLDER / "engines")
        console.print("The work_dir, plan, ledger and chunks are in build/demo/work. See also:")
        console.print("  .venv/bin/stateferry status build/demo/migration.toml")
        console.print("  .venv/bin/stateferry inspect build/demo/state-v2/orders-app --digest")
    sys.exit(exit_code)


def _without_notices() -> dict[str, str]:
    """The environment in which Spark prints nothing when it starts, unless something is wrong."""
    options = f"-Dlog4j2.configurationFile={(ROOT / 'jobs/log4j2.properties').as_uri()}"
    return {"JAVA_HOME": str(find_java_home()), "SPARK_SUBMIT_OPTS": options}


def _kill_half_way(console: Console, command: list[str], spec: Spec) -> None:
    """As a power switch would: everything that the command started, as soon as some chunks are done."""
    with subprocess.Popen(command, process_group=0) as job:
        while job.poll() is None and status(spec).totals.chunks < ENOUGH_CHUNKS:
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
    if sys.stdout.isatty():
        console.show_cursor()
        console.print()  # below the bar
    found = status(spec)
    done = found.chunks_planned - found.chunks_left
    console.print(f"[bold]killed (SIGKILL), with {done} of {found.chunks_planned} chunks done; the same command again:")


def _show_before_and_after(console: Console, spec: Spec) -> None:
    assert spec.target_path is not None
    store = Path("0_0/rocksdb/orders")
    table = Table(title=f"the first records of {store}, before and after", title_justify="left", box=None)
    for column in ("key", "", "timestamp", "value"):
        table.add_column(column)
    with (
        open_store(spec.source_path / store, format=spec.source.format) as old,
        open_store(spec.target_path / store, format=spec.target.format) as new,
    ):
        for key, value in islice(old.all(), SHOWN):
            before = get_format(spec.source.format).decode(key, value)
            after = get_format(spec.target.format).decode(key, new.get(key) or b"")
            table.add_row(before.key.decode(), "before", "none", before.value.decode())
            table.add_row("", "after", f"{after.timestamp_ms} (unknown)", after.value.decode())
    console.print(table)


def _copy_state(folder: Path) -> None:
    state = folder / "state/orders-app"
    if state.exists():
        sys.exit(f"{state} is already there: remove it, or name another directory")
    shutil.copytree(STATE, state)


if __name__ == "__main__":
    main()
