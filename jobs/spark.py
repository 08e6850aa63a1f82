"""The executor over Spark: one Spark job of one task for each chunk, submitted from the driver's threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext

from jobs import worker
from jobs.session import spark_session
from migrate.errors import RefusedError
from migrate.function_code import files_for_executors
from migrate.functions import conversion_ref
from migrate.rewriting import RewriteTask
from migrate.spec import Spec
from migrate.tasks import Task, TaskResult


class SparkExecutor:
    """Runs tasks on a Spark application's executors."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def slots(self) -> int:
        """As many as the executors have now: on a cluster they come one by one."""
        return self._context.defaultParallelism

    def run(self, task: Task) -> TaskResult:
        """A job of its own. Raises Py4JJavaError where the worker dies."""
        subject = task.chunk if isinstance(task, RewriteTask) else task
        self._context.setJobDescription(f"{'rewrite' if isinstance(task, RewriteTask) else 'verify'} {subject}")
        return self._context.parallelize([task], 1).map(worker.run).collect()[0]

    def cancel(self) -> None:
        """Give up every running job."""
        self._context.cancelAllJobs()

    def check(self, paths: tuple[str, ...]) -> None:
        """Raises RefusedError where an executor lacks a package or does not see a path."""
        looks = self._context.parallelize([paths] * self.slots, self.slots).map(worker.look_around).collect()
        for ground in looks:
            if ground.missing:
                raise RefusedError(
                    f"the executors' Python on {ground.host} lacks {', '.join(ground.missing)}",
                    hint="install stateferry's dependencies there: native wheels cannot be shipped with a job "
                    "(docs/operations.md, On a cluster)",
                )
            if ground.unseen:
                raise RefusedError(
                    f"the executor on {ground.host} does not see {ground.unseen[0]}",
                    hint="state directory and work_dir must be on volumes that all executors share; else run one job "
                    "on each host with --master 'local[*]'",
                )


@contextmanager
def open_executor(spec: Spec, master: str | None) -> Iterator[SparkExecutor]:
    """A Spark session for this migration, checked. Raises RefusedError."""
    with spark_session(spec.name, master, files_for_executors(conversion_ref(spec))) as session:
        executor = SparkExecutor(session.sparkContext)
        executor.check((str(spec.source_path), str(spec.home)))
        yield executor
