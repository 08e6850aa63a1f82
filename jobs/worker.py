"""What runs in a Spark executor's Python. Imports nothing heavy: a missing package must end in a sentence."""

from __future__ import annotations

import importlib
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from migrate.tasks import Task, TaskResult

NEEDED = ("rocksdict", "fastavro", "numpy", "pyarrow", "pydantic", "xxhash")


@dataclass(frozen=True, slots=True)
class Ground:
    """What one executor lacks."""

    host: str
    missing: tuple[str, ...]
    unseen: tuple[str, ...]


def run(task: Task) -> TaskResult:
    """One task, here."""
    from migrate.tasks import run_task

    return run_task(task)


def look_around(paths: tuple[str, ...]) -> Ground:
    """Whether the packages can be imported and the paths seen."""
    missing = []
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    unseen = tuple(path for path in paths if not Path(path).exists())
    return Ground(socket.gethostname(), tuple(missing), unseen)
