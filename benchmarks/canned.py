"""The job of `benchmarks.driver`: a run whose executor returns receipts that it did not work for."""

from __future__ import annotations

import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.safety import EnoughError, make_spec
from migrate.batch.chunk.rewrite import RewriteTask, chunk_directory
from migrate.batch.chunk.task import Task, TaskResult
from migrate.batch.run import run_with
from migrate.model.events import Event
from migrate.model.receipt import Receipt, Scanned, Written, attempt_name

Facts = dict[str, Any]
_DIGEST = "-".join(["0123456789abcdef"] * 3)


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
    chunk, home = task.chunk, Path(task.home)
    attempt = attempt_name(task.run_id, chunk.number)
    folder = chunk_directory(home, chunk.store_partition, chunk.database)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{attempt}.0.sst"
    file.touch()
    (mapping,) = task.mappings
    written = Written(
        family=mapping.target,
        file=str(file.relative_to(home)),
        file_size=0,
        records=50,
        size=chunk.estimated_bytes,
        digest=_DIGEST,
        first_key=chunk.keys.start or b"k",
        last_key=chunk.keys.end or b"l",
    )
    return Receipt(
        migration_id=task.migration_id,
        run_id=task.run_id,
        attempt=attempt,
        store_partition=chunk.store_partition,
        database=chunk.database,
        number=chunk.number,
        keys=chunk.keys,
        scanned=(Scanned(family=mapping.source, records=50, size=chunk.estimated_bytes, digest=_DIGEST),),
        written=(written,),
        dropped=0,
        rejected=0,
        rejects_file=None,
        seconds=0.001,
        engine="canned",
        host=socket.gethostname(),
        revision=task.revision,
    )


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
        run_with(lambda _: nullcontext(CannedExecutor(slots, call_bytes)), spec, on_event=clock)
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
