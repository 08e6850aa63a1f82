"""The job of `benchmarks.driver`: a run whose executor returns receipts that it did not work for."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.ledgers import make_receipt
from benchmarks.safety import EnoughError, make_spec
from migrate.batch.chunk.rewrite_chunk import RewriteTask
from migrate.batch.chunk.task import Task, TaskResult
from migrate.batch.context import Context
from migrate.batch.run import run_with
from migrate.model.events import Event
from migrate.model.receipt import Receipt

Facts = dict[str, Any]


class CannedExecutor:
    """Returns a receipt for each chunk at once, with an empty file in the place of its SST file."""

    def __init__(self, slots: int, call_bytes: int) -> None:
        self.slots = slots
        self.call_bytes = call_bytes

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        """The receipts."""
        return [_receipt(task) for task in tasks if isinstance(task, RewriteTask)]

    def cancel(self) -> None:
        """Nothing is at work."""


def _receipt(task: RewriteTask) -> Receipt:
    (mapping,) = task.mappings
    place = (Path(task.home), task.migration_id, task.run_id, task.chunk, mapping)
    return make_receipt(*place, records=50, content=b"")


class _Clock:
    """When the steps up to the last commit ended."""

    def __init__(self) -> None:
        self.ends: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self.seen: Counter[str] = Counter()
        self.chunks = 0

    def __call__(self, event: Event) -> None:
        self.seen[event.name] += 1
        if event.name == "run.begun":
            self.chunks = len(event.facts["plan"].chunks)
        if event.name in ("run.begun", "dead-letters.written"):
            self.ends[event.name], self.cpu[event.name] = time.perf_counter(), _cpu()
        if event.name == "dead-letters.written":
            raise EnoughError


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def canned_run(source: str, folder: str, chunk_size: int, slots: int, call_bytes: int) -> Facts:
    """A run up to its last committed chunk: planned and committed as always, and rewritten by nobody."""
    spec = make_spec(folder, {"path": source}, target={"path": "published"}, run={"chunk_size": chunk_size})
    clock = _Clock()
    begun, cpu = time.perf_counter(), _cpu()
    try:
        run_with(lambda _: nullcontext(CannedExecutor(slots, call_bytes)), Context(spec, clock))
    except EnoughError:
        planned, committed = clock.ends.values()
        planned_cpu, committed_cpu = clock.cpu.values()
        return {
            "chunks": clock.chunks,
            "commits": clock.seen["chunk.committed"],
            "plan": planned - begun,
            "rewrite": committed - planned,
            "plan_cpu": planned_cpu - cpu,
            "rewrite_cpu": committed_cpu - planned_cpu,
        }
    raise AssertionError("the run went on")


JOBS: dict[str, Callable[..., Facts]] = {"canned-run": canned_run}
