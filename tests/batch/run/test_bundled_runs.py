"""Runs whose small chunks share calls of the executor: a worker that dies with some of them costs time only."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from migrate.batch.chunk.executor import InProcessExecutor
from migrate.batch.chunk.rewrite_chunk import RewriteTask
from migrate.batch.chunk.task import Task, TaskResult
from migrate.batch.context import Context
from migrate.batch.ledger.standing import read_standing
from migrate.batch.run import run_with
from migrate.model.ledger_row import Step
from migrate.spec.spec import Spec
from tests.support import make_store, numbered, raw_spec, read_family


class _KilledError(BaseException):
    """The end of the driver."""


class _DyingWorker(InProcessExecutor):
    """Its worker dies in the second bundle of chunks, after some of them were finished."""

    call_bytes = 8 << 20

    def __init__(self, *, driver_dies: bool = False) -> None:
        super().__init__()
        self.calls: list[int] = []
        self._driver_dies = driver_dies

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        if isinstance(tasks[0], RewriteTask):
            self.calls.append(len(tasks))
        if len(self.calls) == 2:
            super().run(tasks[:3])
            raise _KilledError if self._driver_dies else RuntimeError("the worker was killed")
        return super().run(tasks)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    store = make_store(tmp_path / "old", numbered(4000))
    return raw_spec(tmp_path, store, run={"chunk_size": "4 KiB"})


def _assert_right(spec: Spec, chunks: int) -> None:
    standing = read_standing(spec.home)
    assert len([row for row in standing.rows if row.step is Step.CHUNK]) == len(standing.receipts) == chunks
    assert standing.pending == []
    assert spec.target_path is not None
    assert read_family(spec.target_path) == numbered(4000)


def test_what_a_dead_worker_had_finished_is_made_again_and_counts_once(spec: Spec) -> None:
    executor = _DyingWorker()
    report = run_with(lambda _: nullcontext(executor), Context(spec))
    lost = executor.calls[1]
    assert lost > 3
    assert executor.calls[2 : 2 + lost] == [1] * lost
    assert report.totals.chunks == report.chunks_planned
    _assert_right(spec, report.chunks_planned)


def test_what_a_dead_worker_had_finished_is_kept_by_the_next_run(spec: Spec) -> None:
    executor = _DyingWorker(driver_dies=True)
    with pytest.raises(_KilledError):
        run_with(lambda _: nullcontext(executor), Context(spec))
    report = run_with(lambda _: nullcontext(InProcessExecutor()), Context(spec))
    assert report.chunks_done_before == executor.calls[0] + 3
    _assert_right(spec, report.chunks_planned)
