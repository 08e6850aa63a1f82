"""An executor that does as a test says."""

import threading
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

from migrate.batch.chunk.executor import InProcessExecutor, run_all
from migrate.batch.chunk.rewrite_chunk import RewriteTask
from migrate.batch.chunk.task import Task, TaskResult
from migrate.errors import MigrationError
from migrate.model.receipt import Receipt
from migrate.spec.conversion_ref import ConversionRef
from tests.shared.builders import chunk, receipt, rewrite_task
from tests.support import RAW

REF = ConversionRef(RAW, RAW)


class WorkerLostError(Exception):
    """What takes a worker down."""


class Scripted:
    """An executor that does as the test says; real threads, no work."""

    def __init__(self, do: Callable[[int, int], TaskResult], slots: int = 1, call_bytes: int = 0) -> None:
        self.slots = slots
        self.call_bytes = call_bytes
        self.calls: list[list[int]] = []
        self.attempts: dict[int, int] = {}
        self.tasks: list[RewriteTask] = []
        self.cancelled = False
        self._do = do
        self._lock = threading.Lock()

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        self.calls.append([task.chunk.number for task in tasks if isinstance(task, RewriteTask)])
        results: list[TaskResult] = []
        for task in tasks:
            results.append(self._one(task))
            if isinstance(results[-1], MigrationError):
                break
        return results

    def _one(self, task: Task) -> TaskResult:
        assert isinstance(task, RewriteTask)
        number = task.chunk.number
        with self._lock:
            self.tasks.append(task)
            self.attempts[number] = attempt = self.attempts.get(number, 0) + 1
        return self._do(number, attempt)

    def cancel(self) -> None:
        self.cancelled = True


def tasks_of(count: int, home: Path, ref: ConversionRef = REF) -> list[RewriteTask]:
    (home / "chunks").mkdir(exist_ok=True)
    return [rewrite_task(home, home / "none", chunk(number), ref) for number in range(count)]


def fine(number: int, _: int) -> TaskResult:
    return receipt(number=number)


def attempt_all(
    executor: Scripted | InProcessExecutor, tasks: list[RewriteTask], *, deadline: float = inf
) -> tuple[list[int], list[int], BaseException | None]:
    """(numbers started, numbers finished, failure)"""
    started: list[int] = []
    finished: list[int] = []

    def on_start(task: Task) -> None:
        assert isinstance(task, RewriteTask)
        started.append(task.chunk.number)

    try:
        for batch in run_all(executor, tasks, on_start=on_start, deadline=deadline):
            assert all(isinstance(result, Receipt) for _, result in batch)
            finished += [result.number for _, result in batch if isinstance(result, Receipt)]
    except MigrationError as error:
        return started, finished, error
    return started, finished, None
