"""A run in a process of its own that can be held in a chunk, and commands beside it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import make_store, numbered, spec_file

RECORDS = numbered(1500)
COMMAND = [sys.executable, "-c", "from migrate.cli import main; main()"]
_INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""A shell's background jobs, and what they start, ignore it."""
_FUNCTION = """
import time
from pathlib import Path

HERE = Path(__file__).parent


def convert(record):
    while (HERE / "hold").exists() and any(HERE.glob("work/held/plan-*.json")):
        (HERE / "reached").touch()
        time.sleep(0.01)
    if (HERE / "fail").exists():
        raise ValueError("cannot be read")
    return record
"""


def make_migration(folder: Path, *, target: str | None = "new", **run: object) -> Path:
    """Several chunks, and a function that waits while a file `hold` is there, and fails while `fail` is."""
    make_store(folder / "old", RECORDS)
    (folder / "held.py").write_text(_FUNCTION)
    sections = {"conversion": {"function": "held:convert"}, "run": {"chunk_size": "8 KiB", **run}}
    return spec_file(folder / "migration.toml", name="held", target={"path": target}, **sections)


@contextmanager
def held_run(spec: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that stands still in its next chunk; not in planning, which converts a few records too."""
    (spec.parent / "hold").touch()
    with subprocess.Popen(
        [*COMMAND, "run", str(spec), "--no-spark"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        try:
            await_it((spec.parent / "reached").exists)
            yield process
        finally:
            process.kill()


@contextmanager
def watching(spec: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`status --watch`, a look every tenth of a second."""
    command = [*COMMAND[:2], _INTERRUPTIBLE + COMMAND[2], "status", str(spec), "--watch", "--interval", "0.1", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def next_look(watch: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line of `--watch --json`."""
    assert watch.stdout is not None
    look: dict[str, Any] = json.loads(watch.stdout.readline())
    return look


def await_it(is_so: Callable[[], bool]) -> None:
    """Within a minute."""
    for _ in range(6000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about")
