"""Tasks that share a call: a worker that dies, an error and a stop in the middle of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from migrate.batch.chunk.executor import ATTEMPTS, run_all
from migrate.batch.chunk.task import Task, TaskResult
from migrate.batch.stop import Stop
from migrate.errors import ChunkFailedError, RejectedError
from tests.batch.chunk.scripted import Scripted, WorkerLostError, attempt_all, fine, tasks_of
from tests.shared.builders import receipt

BUNDLED = 1 << 20


def test_a_worker_that_dies_with_a_bundle_costs_its_tasks_a_call_each(tmp_path: Path) -> None:
    def work(number: int, attempt: int) -> TaskResult:
        if (number, attempt) == (3, 1):
            raise WorkerLostError("killed")
        return receipt(number=number)

    executor = Scripted(work, call_bytes=BUNDLED)
    started, finished, failure = attempt_all(executor, tasks_of(20, tmp_path))
    assert executor.calls[:6] == [[0, 1, 2, 3, 4], [0], [1], [2], [3], [4]]
    assert failure is None
    assert started == finished == list(range(20))


def test_a_task_that_kills_each_worker_is_found_in_its_bundle(tmp_path: Path) -> None:
    def work(number: int, _: int) -> TaskResult:
        if number == 3:
            raise WorkerLostError("killed")
        return receipt(number=number)

    executor = Scripted(work, call_bytes=BUNDLED)
    _, finished, failure = attempt_all(executor, tasks_of(20, tmp_path))
    assert isinstance(failure, ChunkFailedError)
    assert "db chunk 3" in failure.message
    assert f"failed {ATTEMPTS} times" in failure.message
    assert executor.calls == [[0, 1, 2, 3, 4], [0], [1], [2], *[[3]] * ATTEMPTS]
    assert finished == [0, 1, 2]


def test_what_a_bundle_has_finished_before_an_error_counts(tmp_path: Path) -> None:
    error = RejectedError("bad")
    executor = Scripted(lambda number, _: error if number == 3 else receipt(number=number), call_bytes=BUNDLED)
    _, finished, failure = attempt_all(executor, tasks_of(20, tmp_path))
    assert failure is error
    assert finished == [0, 1, 2]
    assert executor.calls == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize(("dies", "finished"), [(False, 5), (True, 0)])
def test_a_stop_lets_a_bundle_end_and_runs_nothing_of_a_lost_one(dies: bool, finished: int, tmp_path: Path) -> None:
    stop = Stop()

    def work(number: int, _: int) -> TaskResult:
        stop.request()
        if dies and number == 3:
            raise WorkerLostError
        return receipt(number=number)

    executor = Scripted(work, call_bytes=BUNDLED)
    done = list(run_all(executor, tasks_of(20, tmp_path), stop=stop))
    assert sum(map(len, done)) == finished
    assert executor.calls == [[0, 1, 2, 3, 4]]


def test_an_executor_that_forgets_a_task_is_found_out(tmp_path: Path) -> None:
    class Forgetful(Scripted):
        def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
            return super().run(tasks)[:-1]

    for call_bytes in (0, BUNDLED):
        with pytest.raises((ValueError, ChunkFailedError)):
            list(run_all(Forgetful(fine, 1, call_bytes), tasks_of(20, tmp_path)))
