"""Running a task in a worker: one function for all kinds of tasks, on Spark and in process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from migrate.batch.chunk.compare_stores import ComparePartsTask, CountTask, VerifyTask, compare_several, run_verify_task
from migrate.batch.chunk.key_times_task import TimesTask, make_times
from migrate.batch.chunk.reread_changelog import RereadTask, reread
from migrate.batch.chunk.rewrite_chunk import RewriteTask, SplitTask, rewrite_chunk, split_chunk
from migrate.batch.chunk.sorted_range import SortTask, refuse_to_sort
from migrate.batch.chunk.tail import TailTask, read_tail
from migrate.batch.chunk.write_changelog import ProduceTask, produce
from migrate.batch.stop import never_stop
from migrate.engine.sums import Summed
from migrate.errors import MigrationError, explain_system_error
from migrate.model.changelogs import Produced, Tail, Times
from migrate.model.comparison import Reread, Verified
from migrate.model.exports import ExportedRange
from migrate.model.receipt import Receipt
from migrate.model.restored import RestoredStore
from migrate.spec.fingerprint import tracking_imports


class PlainTask(ABC):
    """A task that brings its work, such as one of a room above this one, and loads no code of the user."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that it reads, about."""

    @abstractmethod
    def work(self, check: Callable[[], None]) -> ExportedRange | RestoredStore | Summed:
        """Do the work; `check` is called with each batch, and may raise."""


Task = (
    RewriteTask | VerifyTask | ComparePartsTask | ProduceTask | RereadTask | TimesTask | TailTask | SortTask | PlainTask
)
_Parts = tuple[Receipt, ...] | tuple[Verified, ...]
"""Of the parts of one task."""
TaskResult = (
    Receipt
    | Verified
    | _Parts
    | Produced
    | Reread
    | Times
    | Tail
    | ExportedRange
    | RestoredStore
    | Summed
    | MigrationError
)
"""A MigrationError is one that a further attempt would meet again."""
_WORK: dict[type[Task], Callable[..., TaskResult]] = {
    RewriteTask: rewrite_chunk,
    SplitTask: split_chunk,
    ComparePartsTask: compare_several,
    ProduceTask: produce,
    RereadTask: reread,
    TimesTask: make_times,
    TailTask: read_tail,
    SortTask: refuse_to_sort,
}
"""Other tasks are of a verification."""


def run_tasks(tasks: Sequence[Task], check: Callable[[], None] = never_stop) -> list[TaskResult]:
    """Run tasks one after the other in this thread, until one ends in an expected error, which is its result.

    Any other error is raised, and worth a retry. `check` is called with each batch, and may raise to abandon the tasks.
    """
    results: list[TaskResult] = []
    for task in tasks:
        results.append(_run(task, check))
        if isinstance(results[-1], MigrationError):
            break
    return results


def _run(task: Task, check: Callable[[], None]) -> TaskResult:
    try:
        if isinstance(task, PlainTask):
            return task.work(check)
        work = _WORK.get(type(task), run_verify_task)
        if isinstance(task, ProduceTask | RereadTask | TimesTask | SortTask | CountTask):  # none loads the user's code
            return work(task, check)
        with tracking_imports(task.conversion):
            return work(task, check)
    except Exception as failure:
        error = failure if isinstance(failure, MigrationError) else explain_system_error(failure)
        if error is None:
            raise
        return error
