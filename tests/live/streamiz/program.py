"""Runs the real Streamiz, where `STATEFERRY_STREAMIZ` names the program that `source/` is the source of.

Nothing that the other tests install can build it: that takes .NET and NuGet. README.md has the commands.
"""

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "STATEFERRY_STREAMIZ"
VERSION = "1.8.2"
OLDER_TABLES = 6
"""The newest version of the table format that this project reads; RocksDB 11 writes 7 unless it is told."""
_TIMEOUT_SECONDS = 300


def require_streamiz() -> None:
    """Skip the calling test where no program is named."""
    if not os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} names no program: tests/live/streamiz/README.md says how to build it")


def run_program(**options: object) -> dict[str, Any]:
    """What the program says in the end; the options stand at the head of its sources."""
    command = [os.environ[VARIABLE], *(f"{name}={value}" for name, value in options.items())]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    said: dict[str, Any] = json.loads(ended.stdout[ended.stdout.index("{") :])
    return said


def drive(application: Path, kind: str, lines: Iterable[str] = (), **options: object) -> list[str]:
    """Open the store `kv` of task 0-0 without a broker, write these lines, and return what it then holds."""
    application.parent.mkdir(parents=True, exist_ok=True)
    puts, dump = (application.with_name(f"{application.name}.{name}") for name in ("puts", "dump"))
    puts.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    given: dict[str, object] = {"format": OLDER_TABLES} | options
    run_program(mode="driver", app=application.name, dir=application.parent, kind=kind, puts=puts, dump=dump, **given)
    return dump.read_text(encoding="ascii").splitlines()


def work(application: Path, kind: str, bootstrap: str, topic: str, until: int, **options: object) -> dict[str, Any]:
    """Run a whole application until it has processed so many records of its input, and stop it cleanly.

    What it said, with what its store holds as `rows`.
    """
    application.parent.mkdir(parents=True, exist_ok=True)
    dump = application.with_name(f"{application.name}.dump")
    given: dict[str, object] = {"format": OLDER_TABLES, "in": topic} | options
    said = run_program(
        app=application.name,
        dir=application.parent,
        kind=kind,
        bootstrap=bootstrap,
        until=until,
        dump=dump,
        **given,
    )
    assert (said["state"], said["errors"]) == ("RUNNING", []), said
    return said | {"rows": dump.read_text(encoding="utf-8").splitlines()}
