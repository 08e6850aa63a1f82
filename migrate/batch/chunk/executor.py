"""Executors: where the driver runs tasks, on Spark or in this process."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Protocol

from migrate.batch.chunk.rewrite import RewriteTask, read_breadcrumb
from migrate.batch.chunk.task import Task, TaskResult, run_task
from migrate.batch.stop import RERUN, Stop
from migrate.errors import ChunkFailedError, InterruptedMigrationError, MigrationError, SpecError
from migrate.model.key_range import show_key
from migrate.model.store_partition import place_name
from migrate.model.units import one_line
from migrate.packages import claim
from migrate.spec.spec import Spec
from migrate.stores.rocksdb.openings import keeping_open

RETRIES = "stateferry.batch.retries"
"""The logger that reports each failed attempt after which a task is retried."""
_LOG = logging.getLogger(RETRIES)
ATTEMPTS = 3
_MOST_AT_ONCE = 4096  # threads are only made as tasks come; a cluster's slots may grow while a run goes on
_POLL_SECONDS = 0.2
"""How soon a request to stop is noticed: a signal handler does not wake the thread that waits for a task."""
Finished = list[tuple[Task, TaskResult]]
"""Tasks that finished together."""


class Executor(Protocol):
    """Runs tasks, each in a call that returns when the task is done; several threads call it."""

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        ...

    def run(self, task: Task) -> TaskResult:
        """Run one task. Raises any error that ends a worker."""
        ...

    def cancel(self) -> None:
        """Give up the running tasks."""
        ...


class InProcessExecutor:
    """Runs one task at a time in this process, without Spark or a JVM."""

    slots = 1

    def __init__(self) -> None:
        self._cancelled = Event()

    def run(self, task: Task) -> TaskResult:
        """Run one task in the calling thread."""
        return run_task(task, self._check)

    def cancel(self) -> None:
        """Let the running task end at its next batch."""
        self._cancelled.set()

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise InterruptedMigrationError("abandoned", hint=RERUN)


def run_all(
    executor: Executor,
    tasks: Iterable[Task],
    *,
    on_start: Callable[[Task], None],
    name: str = "",
    deadline: float | None = None,
    stop: Stop | None = None,
) -> Iterator[Finished]:
    """Run every task, one more at a time than there are slots, so that no slot waits; yield those that end together.

    After a failure no task starts; the running ones are finished and yielded, then the failure is raised. After the
    `deadline` (monotonic seconds) or a request to stop no task starts either, and the iteration ends; a task that
    outlives the stop's grace period is abandoned with InterruptedMigrationError. `name`: the migration's, for the log.
    """
    stop = stop or Stop()
    left = iter(tasks)
    failures: list[BaseException] = []
    running: dict[Future[TaskResult], Task] = {}
    cancelled = Event()
    with keeping_open(), ThreadPoolExecutor(_MOST_AT_ONCE, "stateferry") as pool:
        try:
            while True:
                is_closed = bool(failures) or stop.is_requested or _is_past(deadline)
                for task in islice(left, 0 if is_closed else _room(executor, len(running))):
                    on_start(task)
                    running[pool.submit(_attempt, executor, task, cancelled, name)] = task
                if not running:
                    break
                ended = [(running.pop(future), future) for future in _wait(running, stop)]
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
        stop.check()  # Spark also gets the signal; tasks that it then fails have not failed
        raise failures[0]


def _wait(running: Iterable[Future[TaskResult]], stop: Stop) -> set[Future[TaskResult]]:
    """The tasks that have ended; none where none did for a short time."""
    done, _ = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
    if not done:
        stop.check_grace()
    return done


def _room(executor: Executor, running: int) -> int:
    width = 1 if executor.slots == 1 else executor.slots + 1
    return max(0, width - running)


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _attempt(executor: Executor, task: Task, cancelled: Event, name: str) -> TaskResult:
    """Retry a task whose worker dies; from the second attempt on it leaves a trace of the record that it converts."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            result = executor.run(task)
        except MigrationError:
            raise
        except Exception as error:
            if attempt == ATTEMPTS or cancelled.is_set():
                raise _worker_died(task, error) from error
            failed = one_line(f"{_subject(task)}: attempt {attempt} of {ATTEMPTS} failed: {_reason(error)}")
            _LOG.warning("%s: %s", name, failed)
            task = _with_breadcrumb(task)
            continue
        if isinstance(result, MigrationError):
            raise result
        _forget_breadcrumb(task)
        return result
    raise AssertionError("unreachable: the last attempt returns or raises")


def _with_breadcrumb(task: Task) -> Task:
    if not isinstance(task, RewriteTask) or task.conversion.function is None:
        return task
    chunk = task.chunk
    place = place_name(chunk.store_partition, chunk.database).replace("/", ".")
    name = f"{task.run_id}-{place}-{chunk.number}.breadcrumb"
    return replace(task, breadcrumb=str(Path(task.home) / "chunks" / name))


def _forget_breadcrumb(task: Task) -> None:
    if isinstance(task, RewriteTask) and task.breadcrumb is not None:
        Path(task.breadcrumb).unlink(missing_ok=True)


def _subject(task: Task) -> str:
    return str(task.chunk if isinstance(task, RewriteTask) else task)


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _worker_died(task: Task, error: Exception) -> MigrationError:
    reason, where = _reason(error), _subject(task)
    if isinstance(task, RewriteTask) and task.breadcrumb is not None:
        key = read_breadcrumb(Path(task.breadcrumb))
        _forget_breadcrumb(task)
        if key is not None:
            return ChunkFailedError(
                f"{where}: the worker died {ATTEMPTS} times, last on the key {show_key(key)}: {reason}",
                hint="try the function on that record; then run the command again to resume",
            )
    return ChunkFailedError(
        f"{where}: failed {ATTEMPTS} times: {reason}", hint="see the log above; then run the command again to resume"
    )


ExecutorOpener = Callable[[Spec], AbstractContextManager[Executor]]


def executor_opener(spec: Spec, master: str | None) -> ExecutorOpener:
    """The opener of the executor for `master`; None: this process. Raises SpecError for a function without a name."""
    check_reaches_executors(spec, master)
    return in_process if master is None else spark(master)


def check_reaches_executors(spec: Spec, master: str | None) -> None:
    """Raises SpecError where the spec's function cannot be sent to the executors of `master`."""
    if master is None:
        return
    claim("jobs")  # before the function is loaded, whose own modules may have that name
    if callable(spec.conversion.function):
        raise SpecError(
            f"a function that is given as an object does not reach Spark's executors ({master})",
            hint='name it, [conversion] function = "module:function", or leave `master` out to run in this process',
        )


def in_process(_: Spec) -> AbstractContextManager[Executor]:
    """An executor in this process, without Spark."""
    return nullcontext(InProcessExecutor())


def spark(master: str | None) -> ExecutorOpener:
    """The opener of an executor on Spark; without a master, on the one that spark-submit names. Raises ImportError."""
    claim("jobs")

    def open_spark(spec: Spec) -> AbstractContextManager[Executor]:
        jobs = importlib.import_module("jobs.executor")  # by name: this package does not depend on Spark
        opened: AbstractContextManager[Executor] = jobs.open_executor(spec, master)
        return opened

    return open_spark
