"""The executor over Spark: one Spark job of one task for each chunk, submitted from the driver's threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext

from jobs import worker
from jobs.ask import ask_slots, check_packages, check_seen
from jobs.probe import Question
from jobs.session import spark_session
from migrate.batch.chunk.rewrite import RewriteTask
from migrate.batch.chunk.task import Task, TaskResult
from migrate.spec.conversion import conversion_ref
from migrate.spec.function.fingerprint import files_for_executors
from migrate.spec.spec import Spec


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

    def check(self, source: Path, work_dir: Path) -> None:
        """Raises RefusedError where an executor lacks a package or does not see a directory."""
        question = Question(str(source), str(work_dir), probe=None, is_brief=True)
        for probe in ask_slots(self._context, question, self.slots):
            check_packages(probe)
            check_seen(question.source, probe.host, probe.source)
            check_seen(question.work_dir, probe.host, probe.work_dir)


@contextmanager
def open_executor(spec: Spec, master: str | None) -> Iterator[SparkExecutor]:
    """A Spark session for this migration, checked. Raises RefusedError."""
    with spark_session(spec.name, master, files_for_executors(conversion_ref(spec))) as session:
        executor = SparkExecutor(session.sparkContext)
        executor.check(spec.source_path, spec.home)
        yield executor
