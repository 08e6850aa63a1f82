"""The executor over Spark: each call is a Spark job of one task, submitted by a thread of the driver."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pyspark import SparkContext

from jobs.probe import ProbeRequest
from jobs.session import is_local, spark_context
from jobs.sorting import Waves
from jobs.spark_checks import check_directory, check_packages, run_probes, spark_checks
from migrate.batch.chunk.executor import ExecutorPlugin
from migrate.batch.chunk.key_times_task import TimesTask
from migrate.batch.chunk.reread_changelog import RereadTask
from migrate.batch.chunk.rewrite_chunk import RewriteTask, SplitTask
from migrate.batch.chunk.sorted_range import SortTask
from migrate.batch.chunk.task import Task, TaskResult, run_tasks
from migrate.batch.chunk.write_changelog import ProduceTask
from migrate.batch.home import load_plan
from migrate.batch.preflight.check import Check
from migrate.spec.conversion import conversion_ref
from migrate.spec.spec import Spec
from migrate.spec.user_function import files_for_executors

_DOING: dict[type, str] = {
    **dict.fromkeys((RewriteTask, SplitTask), "rewrite"),
    **dict.fromkeys((RereadTask, TimesTask), "read"),
    ProduceTask: "write",
    SortTask: "sort",
}


class SparkExecutor:
    """Runs tasks on a Spark application's executors."""

    call_bytes = 8 << 20
    """Rewriting this much takes about 50 ms, an empty Spark task 25 ms: smaller tasks share one (docs/scale.md)."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._waves = Waves(context)
        self._group = f"stateferry-{uuid.uuid4().hex[:12]}"

    @property
    def slots(self) -> int:
        """The slots of the executors that have registered so far."""
        return self._context.defaultParallelism

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        """Run the tasks as a Spark job of one task. Raises Py4JJavaError if the worker dies."""
        first, others = tasks[0], len(tasks) - 1
        what = f"{_DOING.get(type(first), 'verify')} {first}"
        self._context.setJobGroup(self._group, f"{what} and {others} more" if others else what)
        if isinstance(first, SortTask):
            return [self._waves.run(each) for each in tasks if isinstance(each, SortTask)]
        return self._context.parallelize([tasks], 1).map(run_tasks).collect()[0]

    def cancel(self) -> None:
        """Cancel the running jobs, and no others of the application."""
        self._context.cancelJobGroup(self._group)

    def check(self, source: Path, work_dir: Path) -> None:
        """Raise RefusedError if an executor lacks a package or does not see a directory."""
        request = ProbeRequest(str(source), str(work_dir), probe=None, is_brief=True)
        slots = 1 if is_local(self._context.master) else self.slots
        for probe in run_probes(self._context, request, slots):
            check_packages(probe)
            check_directory(request.source, probe.host, probe.source)
            check_directory(request.work_dir, probe.host, probe.work_dir)


class Spark(ExecutorPlugin):
    """What `migrate` uses of this package."""

    @contextmanager
    def open(self, spec: Spec, master: str | None) -> Iterator[SparkExecutor]:
        """An executor over a new SparkContext, after the checks. Raises RefusedError."""
        plan, files = load_plan(spec.home), files_for_executors(conversion_ref(spec))
        is_sorting = plan is not None and plan.is_sorted
        with spark_context(spec.name, master, files, is_sorting=is_sorting) as context:
            executor = SparkExecutor(context)
            executor.check(spec.source_path, spec.home)
            yield executor

    def checks(self, spec: Spec, master: str) -> AbstractContextManager[tuple[Check, ...]]:
        return spark_checks(spec, master)
