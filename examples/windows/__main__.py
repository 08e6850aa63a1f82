"""Make a windowed store with Avro values as Kafka Streams keeps one, plan and run its migration, and show what became.

`make demo-windows` runs it; everything it makes lies in build/windows.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from formats import Format, StateRecord, Window
from migrate import load_spec, open_store
from migrate.spec.conversion import conversion_ref, load_conversion
from migrate.spec.spec import Spec

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "build/windows"
HOUR_MS = 3_600_000
SEGMENT_MS = HOUR_MS // 2
WINDOW_MS = 60_000
BEGIN_MS = 1_767_225_600_000
TASKS = ("0_0", "0_1")
SHOWN = 4


def main(folder: Path = FOLDER) -> int:
    """The exit code of the first command that fails."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in [*HERE.glob("*.toml"), *HERE.glob("*.avsc")]:
        shutil.copy(file, folder)
    spec_file = folder / "migration.toml"
    spec = load_spec(spec_file)
    _make_state(spec)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    for verb, *options in (("plan",), ("run", "--no-spark")):
        console.print("[bold]$", "stateferry", verb, os.path.relpath(spec_file), *options)
        command = [sys.executable, "-c", "from migrate.cli import main; main()", verb, str(spec_file), *options]
        if exit_code := subprocess.run(command, check=False).returncode:
            return exit_code
    _show(console, spec)
    return 0


def _make_state(spec: Spec) -> None:
    """Three segments of half an hour in each task, and the changelog's position."""
    source = _conversion_formats(spec)[0]
    rng = random.Random(1)
    for task in TASKS:
        folder = spec.source_path / task / "visits"
        for segment in range(BEGIN_MS, BEGIN_MS + 3 * SEGMENT_MS, SEGMENT_MS):
            with open_store(folder / f"visits.{segment}", format=source.id, read_only=False, create=True) as store:
                for user in range(100):
                    start = segment + rng.randrange(SEGMENT_MS // WINDOW_MS) * WINDOW_MS
                    store.put(*source.encode(_visits(rng, f"{task}-user-{user:03}", start)))
        (spec.source_path / task / ".checkpoint").write_text("0\n1\nshop-app-visits-changelog 0 299\n")


def _visits(rng: random.Random, user: str, start_ms: int) -> StateRecord:
    pages = [f"/page/{rng.randrange(50)}" for _ in range(rng.randrange(4))]
    value = {"count": len(pages), "seconds": rng.randrange(900), "pages": pages, "referer": rng.choice([None, "ads"])}
    return StateRecord(user.encode(), value, timestamp_ms=start_ms + 1000, window=Window(start_ms))


def _conversion_formats(spec: Spec) -> tuple[Format, Format]:
    """The two formats, with the values' serdes as both sides write them."""
    conversion = load_conversion(replace(conversion_ref(spec), function=lambda record: record))
    return conversion.source, conversion.target


def _show(console: Console, spec: Spec) -> None:
    source, target = _conversion_formats(spec)
    assert spec.target_path is not None
    old_folder, new_folder = (path / TASKS[0] / "visits" for path in (spec.source_path, spec.target_path))
    console.print(f"old segments: {', '.join(sorted(segment.name for segment in old_folder.iterdir()))}")
    console.print(f"new segments: {', '.join(sorted(segment.name for segment in new_folder.iterdir()))}")
    table = Table(title="the first windows, before and after", title_justify="left", box=None)
    for column in ("key", "window", "", "value"):
        table.add_column(column)
    with (
        open_store(old_folder / f"visits.{BEGIN_MS}", format=source.id) as old,
        open_store(new_folder / f"visits.{BEGIN_MS}", format=target.id) as new,
    ):
        for key, value in islice(old.all(), SHOWN):
            before, after = source.decode(key, value), target.decode(key, new.get(key) or b"")
            assert before.window is not None
            table.add_row(before.key.decode(), str(before.window.start_ms), "before", str(before.value))
            table.add_row("", "", "after", str(after.value))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
