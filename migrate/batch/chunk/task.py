"""What a worker does: one function for both kinds of task, wherever the worker runs."""

from __future__ import annotations

from collections.abc import Callable

from migrate.batch.chunk.rewrite import RewriteTask, rewrite_chunk
from migrate.batch.chunk.verify import CountTask, Verified, VerifyTask, run_verify_task
from migrate.batch.stop import go_on
from migrate.errors import MigrationError, explain_system_error
from migrate.model.receipt import Receipt
from migrate.spec.function.fingerprint import tracking_imports

Task = RewriteTask | VerifyTask
TaskResult = Receipt | Verified | MigrationError
"""An error: one that a further attempt would meet again."""


def run_task(task: Task, check: Callable[[], None] = go_on) -> TaskResult:
    """Do it here and now. What is expected to go wrong is returned; anything else is raised, and worth a retry.

    `check` is called with each batch, and may raise to abandon the task.
    """
    try:
        return _done(task, check)
    except Exception as failure:
        error = failure if isinstance(failure, MigrationError) else explain_system_error(failure)
        if error is None:
            raise
        return error


def _done(task: Task, check: Callable[[], None]) -> Receipt | Verified:
    if isinstance(task, CountTask):
        return run_verify_task(task, check)
    with tracking_imports(task.conversion):
        return rewrite_chunk(task, check) if isinstance(task, RewriteTask) else run_verify_task(task, check)
