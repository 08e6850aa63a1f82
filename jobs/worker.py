"""What runs in a Spark executor's Python. Imports nothing heavy: a missing package must end in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from migrate.batch.chunk.task import Task, TaskResult


def run(task: Task) -> TaskResult:
    """One task, here."""
    from migrate.batch.chunk.task import run_task

    return run_task(task)
