"""Executors: where the driver runs tasks, on Spark, in this process or in several of this machine."""

from __future__ import annotations

import importlib
import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from pathlib import Path
from threading import BoundedSemaphore, Event
from typing import Any, Protocol, TypeVar

from migrate.batch.chunk.processes import open_processes
from migrate.batch.chunk.rewrite_chunk import RewriteTask, read_breadcrumb
from migrate.batch.chunk.task import Task, TaskResult, run_tasks
from migrate.batch.stop import RERUN, Stop
from migrate.errors import ChunkFailedError, InterruptedMigrationError, MigrationError, RefusedError, SpecError
from migrate.model.display import one_line, plural
from migrate.model.key_range import show_key
from migrate.model.packages import claim
from migrate.model.store_partition import place_name
from migrate.spec.spec import Spec
from migrate.stores.rocksdb.openings import keeping_open

EXECUTORS = {"spark": "jobs.executor:Spark"}
"""The packages that bring an executor, which this one does not depend on: module and name of an ExecutorPlugin."""
RETRIES = "stateferry.batch.retries"
"""The logger that reports each failed attempt after which a task is retried."""
STARTS = "stateferry.batch.starts"
"""The logger that reports what may take long before the first task starts."""
_LOG = logging.getLogger(RETRIES)
ATTEMPTS = 3
_MOST_AT_ONCE = 4096  # threads are only made as tasks come; a cluster's slots may grow while a run goes on
_POLL_SECONDS = 0.2
"""How soon a request to stop is noticed: a signal handler does not wake the thread that waits for a task."""
_MOST_TASKS = 64
_PER_SLOT = 4
"""Bundles for each slot, at least, of the tasks that are known: otherwise the slots end at different times."""
_STEP = 2 * _MOST_TASKS
"""How many further tasks are read for each bundle, so that the first slots do not wait for the whole list."""
_HOST = r"(?:[^\s,/:\[\]]+|\[[0-9a-fA-F:.]+\]):\d+"
_MASTER = re.compile(
    r"local(?:\[(?:[1-9]\d*|\*)(?:\s*,\s*[1-9]\d*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    rf"|spark://{_HOST}(?:,{_HOST})*|k8s://[^\s/]\S*|yarn"
)
_MASTERS = "local[4], local[*], spark://host:7077, k8s://https://host:6443 or yarn"
Result = TypeVar("Result")
Finished = list[tuple[Task, TaskResult]]
"""Tasks that finished together."""


class Executor(Protocol):
    """Runs tasks in calls that return when the tasks are done; several threads call it."""

    @property
    def slots(self) -> int:
        """How many calls run at the same time."""

    @property
    def call_bytes(self) -> int:
        """How many bytes are worth a call: smaller tasks share one. 0: each task has a call of its own."""

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        """Run tasks, as `run_tasks` does: a result for each, in order; after an error there may be none.

        Raises any error that ends a worker.
        """

    def cancel(self) -> None:
        """Give up the running tasks."""


class ExecutorPlugin(Protocol):
    """What a package of EXECUTORS offers."""

    def open(self, spec: Spec, master: str | None) -> AbstractContextManager[Executor]:
        """An executor that ends with the block. Raises RefusedError."""

    def checks(self, spec: Spec, master: str) -> AbstractContextManager[Iterable[Any]]:
        """The checks (preflight) of what it needs, in order; what they start ends with the block. Raises SpecError."""


class InProcessExecutor:
    """Runs tasks in this process, without Spark or a JVM; several at a time only if they call no code of the user."""

    call_bytes = 0

    def __init__(self, slots: int = 1) -> None:
        self.slots = slots
        self._free = BoundedSemaphore(slots)
        self._cancelled = Event()

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        with self._free:  # there is one call more than slots
            self._check()
            return run_tasks(tasks, self._check)

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
    on_start: Callable[[Task], None] = lambda _: None,
    name: str = "",
    deadline: float = inf,
    stop: Stop | None = None,
) -> Iterator[Finished]:
    """Run every task, and yield those that end. There is one call more than slots, so that no slot waits.

    Yields an empty list if none ends for a short time, so that the caller can commit what waits.

    After a failure no call starts; the running ones are finished and yielded, then the failure is raised. After the
    `deadline` (monotonic seconds) or a request to stop no call starts either, and the iteration ends; one that
    outlives the stop's grace period is abandoned with InterruptedMigrationError. `name`: the migration's, for the log.
    """
    stop = stop or Stop()
    calls = _Calls(executor, Bundles(tasks, on_start), name)
    with keeping_open(), ThreadPoolExecutor(_MOST_AT_ONCE, "stateferry") as pool:
        try:
            while True:
                if not (calls.failures or stop.is_requested or time.monotonic() >= deadline):
                    calls.start(pool)
                if not calls.running:
                    break
                yield calls.ended(stop)
        except BaseException:
            calls.cancel()
            raise
    if calls.failures:
        stop.check()  # Spark also gets the signal; tasks that it then fails have not failed
        raise calls.failures[0]


def collected(executor: Executor, tasks: Iterable[Task], kind: type[Result], *, name: str, stop: Stop) -> list[Result]:
    """The results of this kind, once every task has ended. Raises InterruptedMigrationError after a request to stop."""
    found: list[Result] = []
    for finished in run_all(executor, tasks, name=name, stop=stop):
        found += [each for _, each in finished if isinstance(each, kind)]
    stop.check()
    return found


class Bundles:
    """The tasks that have not started. Small ones share a call of the executor: each call has a fixed cost."""

    def __init__(self, tasks: Iterable[Task], on_start: Callable[[Task], None]) -> None:
        """`on_start` is called with each task when it is first taken."""
        self._tasks = iter(tasks)
        self._on_start = on_start
        self._ahead: deque[Task] = deque()
        self._bytes = 0
        self._single: deque[Task] = deque()

    def split(self, bundle: Sequence[Task]) -> None:
        """Let each task of a bundle whose worker died be taken again, by itself, before any other."""
        self._single += bundle

    def take(self, most: int, slots: int, call_bytes: int) -> Iterator[Sequence[Task]]:
        """Up to `most` bundles. Each has `call_bytes` at most, or is a single task."""
        for _ in range(most):
            if self._single:
                yield [self._single.popleft()]
            elif bundle := self._next(call_bytes, _PER_SLOT * max(1, slots)):
                for task in bundle:
                    self._on_start(task)
                yield bundle
            else:
                return

    def _next(self, call_bytes: int, shares: int) -> list[Task]:
        self._look_ahead(call_bytes * shares, _MOST_TASKS * shares)
        size = min(call_bytes, self._bytes // shares)
        count = min(_MOST_TASKS, len(self._ahead) // shares)
        bundle: list[Task] = []
        while self._ahead and (not bundle or (len(bundle) < count and self._ahead[0].size <= size)):
            task = self._ahead.popleft()
            self._bytes -= task.size
            size -= task.size
            bundle.append(task)
        return bundle

    def _look_ahead(self, enough_bytes: int, enough: int) -> None:
        is_enough = self._bytes >= enough_bytes
        wanted = 1 - len(self._ahead) if is_enough else min(_STEP, enough - len(self._ahead))
        for task in islice(self._tasks, max(0, wanted)):
            self._ahead.append(task)
            self._bytes += task.size


class _Calls:
    """The calls that are running, and the failures of those that have ended."""

    def __init__(self, executor: Executor, bundles: Bundles, name: str) -> None:
        self.running: dict[Future[Sequence[TaskResult] | None], Sequence[Task]] = {}
        self.failures: list[BaseException] = []
        self._executor = executor
        self._bundles = bundles
        self._name = name
        self._cancelled = Event()

    def start(self, pool: ThreadPoolExecutor) -> None:
        slots = self._executor.slots
        room = (1 if slots == 1 else slots + 1) - len(self.running)
        for bundle in self._bundles.take(room, slots, self._executor.call_bytes):
            self.running[pool.submit(self._call, bundle)] = bundle

    def ended(self, stop: Stop) -> Finished:
        """The tasks that have ended without an error; none where no call ended for a short time."""
        done, _ = wait(self.running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        if not done:
            stop.check_grace()
        return [pair for future in done for pair in self._finished(self.running.pop(future), future)]

    def cancel(self) -> None:
        self._cancelled.set()
        self._executor.cancel()
        for future in self.running:
            future.cancel()

    def _finished(self, bundle: Sequence[Task], future: Future[Sequence[TaskResult] | None]) -> Finished:
        if (error := future.exception()) is not None:
            self.failures.append(error)
            return []
        results = future.result()
        if results is None:
            self._bundles.split(bundle)
            return []
        errors = [result for result in results if isinstance(result, MigrationError)]
        self.failures += errors
        pairs = zip(bundle, results, strict=not errors)
        return [(task, result) for task, result in pairs if not isinstance(result, MigrationError)]

    def _call(self, bundle: Sequence[Task]) -> Sequence[TaskResult] | None:
        """The results; None: the worker died, and any of these tasks may be the reason."""
        if len(bundle) == 1:
            return [_attempt(self._executor, bundle[0], self._cancelled, self._name)]
        try:
            return self._executor.run(bundle)
        except MigrationError:
            raise
        except Exception as error:
            if self._cancelled.is_set():
                raise
            lost = f"{bundle[0]} and {len(bundle) - 1} more, which now run one by one: {_reason(error)}"
            _LOG.warning("%s: %s", self._name, one_line(lost))
            return None


def _attempt(executor: Executor, task: Task, cancelled: Event, name: str) -> TaskResult:
    """Retry a task whose worker dies; from the second attempt on it leaves a trace of the record that it converts."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            (result,) = executor.run([task])
        except MigrationError:
            raise
        except Exception as error:
            if attempt == ATTEMPTS or cancelled.is_set():
                raise _worker_died(task, error) from error
            failed = one_line(f"{task}: attempt {attempt} of {ATTEMPTS} failed: {_reason(error)}")
            _LOG.warning("%s: %s", name, failed)
            task = _with_breadcrumb(task)
            continue
        if not isinstance(result, MigrationError):
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


def _reason(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _worker_died(task: Task, error: Exception) -> MigrationError:
    reason = _reason(error)
    if isinstance(task, RewriteTask) and task.breadcrumb is not None:
        key = read_breadcrumb(Path(task.breadcrumb))
        _forget_breadcrumb(task)
        if key is not None:
            return ChunkFailedError(
                f"{task}: the worker died {ATTEMPTS} times, last on the key {show_key(key)}: {reason}",
                hint="try the function on that record; then run the command again to resume",
            )
    return ChunkFailedError(
        f"{task}: failed {ATTEMPTS} times: {reason}", hint="see the log above; then run the command again to resume"
    )


ExecutorOpener = Callable[[Spec], AbstractContextManager[Executor]]


def executor_opener(spec: Spec, master: str | None, jobs: int = 1) -> ExecutorOpener:
    """The opener of the executor for `master`; None: as many processes here. Raises as `check_master`.

    Raises SpecError also for both, for no process, and for a function that cannot be sent to where the tasks run.
    """
    if master is not None and jobs != 1:
        raise SpecError(f"{jobs} jobs are processes without Spark, and the master {master} is one of Spark's")
    opener = here(jobs) if master is None else spark(master)
    if opener is not in_process and callable(spec.conversion.function):
        where = "the processes of `jobs`" if master is None else f"Spark's executors ({master})"
        raise SpecError(
            f"a function that is given as an object does not reach {where}",
            hint='name it, [conversion] function = "module:function", or leave `master` and `jobs` out to run in this '
            "process",
        )
    return opener


def check_master(master: str) -> None:
    """Raises SpecError for what no master is called, RefusedError for YARN where nothing says where it is."""
    if _MASTER.fullmatch(master) is None:
        raise SpecError(f"{master!r} is no Spark master", hint=f"for example {_MASTERS}")
    if master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        raise RefusedError(
            "the Spark master yarn needs Hadoop's configuration, which says where YARN is",
            hint="set HADOOP_CONF_DIR or YARN_CONF_DIR to the directory of yarn-site.xml",
        )


@dataclass(frozen=True, slots=True)
class Here:
    """The opener of an executor over several processes of this machine, or threads of this process."""

    jobs: int
    in_threads: bool = False

    def __call__(self, _: Spec) -> AbstractContextManager[Executor]:
        return nullcontext(InProcessExecutor(self.jobs)) if self.in_threads else open_processes(self.jobs)

    @property
    def workers(self) -> str:
        return plural(self.jobs, "thread") if self.in_threads else plural(self.jobs, "process", "processes")


def here(jobs: int) -> ExecutorOpener:
    """The opener of an executor without Spark: in this process, or over several of this machine.

    Raises SpecError for no process.
    """
    if jobs < 1:
        raise SpecError(f"no work gets done by {jobs} processes", hint="let `jobs` be 1 or more")
    return in_process if jobs == 1 else Here(jobs)


def is_on_spark(opener: ExecutorOpener) -> bool:
    """Whether the executor is not one of this machine's processes alone."""
    return not (opener is in_process or isinstance(opener, Here))


def in_process(_: Spec) -> AbstractContextManager[Executor]:
    """An executor in this process, without Spark."""
    return nullcontext(InProcessExecutor())


def spark(master: str | None) -> ExecutorOpener:
    """The opener of an executor on Spark; without a master, on the one that spark-submit names. Raises ImportError.

    Raises as `check_master`.
    """
    if master is not None:
        check_master(master)
    claim(EXECUTORS["spark"].partition(".")[0])  # before the function is loaded, whose own modules may have that name
    return lambda spec: plugged("spark").open(spec, master)


def plugged(name: str) -> ExecutorPlugin:
    """The plugin of EXECUTORS. Raises ImportError."""
    module, _, plugin = EXECUTORS[name].partition(":")
    found: ExecutorPlugin = getattr(importlib.import_module(module), plugin)()
    return found
