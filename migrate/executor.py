"""Where tasks run: the seam between the driver and Spark, or this very process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Protocol

from migrate.breadcrumb import read_breadcrumb
from migrate.errors import ChunkFailedError, ExitCode, MigrationError, RejectedError
from migrate.keyrange import show_key
from migrate.rewriting import RewriteTask
from migrate.tasks import Task, TaskFailure, TaskResult, run_task

ATTEMPTS = 3
_MOST_AT_ONCE = 4096  # threads are only made as tasks come; a cluster's slots may grow while a run goes on
Finished = list[tuple[Task, TaskResult]]
"""Tasks that finished together."""


class Executor(Protocol):
    """Runs tasks, each in a call that returns when it is done; calls come from several threads."""

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        ...

    def run(self, task: Task) -> TaskResult:
        """Raises whatever takes a worker down."""
        ...

    def cancel(self) -> None:
        """Give up whatever is running."""
        ...


class InProcessExecutor:
    """This process, one task at a time: no Spark, no JVM."""

    slots = 1

    def run(self, task: Task) -> TaskResult:
        """Here and now."""
        return run_task(task)

    def cancel(self) -> None:
        """Nothing runs but in the caller's own thread."""


def run_all(
    executor: Executor,
    tasks: Iterable[Task],
    *,
    on_start: Callable[[Task], None],
    deadline: float | None = None,
) -> Iterator[Finished]:
    """Run every task, one more at a time than there are slots so that none waits; yields what finished together.

    After a failure nothing new starts; what runs is finished and yielded, then the failure is raised. Past the
    `deadline` (monotonic seconds) nothing new starts either, and the iteration just ends.
    """
    left = iter(tasks)
    failures: list[BaseException] = []
    running: dict[Future[TaskResult], Task] = {}
    cancelled = Event()
    with ThreadPoolExecutor(_MOST_AT_ONCE, "stateferry") as pool:
        try:
            while True:
                width = 1 if executor.slots == 1 else executor.slots + 1
                room = 0 if failures or _is_past(deadline) else max(0, width - len(running))
                for task in islice(left, room):
                    on_start(task)
                    running[pool.submit(_attempt, executor, task, cancelled)] = task
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                ended = [(running.pop(future), future) for future in done]
                failures += [error for _, future in ended if (error := future.exception()) is not None]
                if finished := [(task, future.result()) for task, future in ended if future.exception() is None]:
                    yield finished
        except BaseException:
            cancelled.set()
            executor.cancel()
            for future in running:
                future.cancel()
            raise
    if failures:
        raise failures[0]


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _attempt(executor: Executor, task: Task, cancelled: Event) -> TaskResult:
    """A few attempts where a worker dies; from the second one on it leaves a trace of the record that it is at."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            result = executor.run(task)
        except MigrationError:
            raise
        except Exception as error:
            if attempt == ATTEMPTS or cancelled.is_set():
                raise _worker_died(task, error) from error
            task = _with_breadcrumb(task)
            continue
        if isinstance(result, TaskFailure):
            raise as_error(result)
        _forget_breadcrumb(task)
        return result
    raise AssertionError("unreachable: the last attempt returns or raises")


def as_error(failure: TaskFailure) -> MigrationError:
    """The failure that a worker returned, as the driver's own error."""
    error = MigrationError(failure.message, hint=failure.hint)
    if failure.exit_code is ExitCode.FAILED:
        error = (RejectedError if failure.kind == "RejectedError" else ChunkFailedError)(
            failure.message, hint=failure.hint
        )
    error.exit_code = failure.exit_code
    return error


def _with_breadcrumb(task: Task) -> Task:
    if not isinstance(task, RewriteTask) or task.conversion.function is None:
        return task
    chunk = task.chunk
    name = f"{chunk.store_partition.replace('/', '.')}-{chunk.number}.breadcrumb"
    return replace(task, breadcrumb=str(Path(task.home) / "chunks" / name))


def _forget_breadcrumb(task: Task) -> None:
    if isinstance(task, RewriteTask) and task.breadcrumb is not None:
        Path(task.breadcrumb).unlink(missing_ok=True)


def _worker_died(task: Task, error: Exception) -> MigrationError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    where = str(task.chunk if isinstance(task, RewriteTask) else task.receipt)
    if isinstance(task, RewriteTask) and task.breadcrumb is not None:
        key = read_breadcrumb(Path(task.breadcrumb))
        _forget_breadcrumb(task)
        if key is not None:
            return ChunkFailedError(
                f"{where}: the worker died {ATTEMPTS} times, last on the key {show_key(key)}: {reason}",
                hint="try the function on that record; then rerun to resume",
            )
    return ChunkFailedError(
        f"{where}: failed {ATTEMPTS} times: {reason}", hint="see the log above; rerun to resume what is finished"
    )
