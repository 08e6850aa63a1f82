"""Running tasks: attempts, failures, deadlines, and nothing finished is ever thrown away."""

import pickle
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from formats import StateRecord
from migrate.batch.chunk import executor as executor_module
from migrate.batch.chunk.executor import ATTEMPTS, InProcessExecutor, run_all
from migrate.batch.chunk.task import Task, TaskResult
from migrate.batch.stop import Stop
from migrate.errors import (
    ChunkFailedError,
    ConversionError,
    CorruptionError,
    ExitCode,
    InterruptedMigrationError,
    MigrationError,
    RefusedError,
    RejectedError,
    StoreLockedError,
)
from migrate.model.receipt import Receipt
from migrate.spec.conversion_ref import ConversionRef
from tests.batch.chunk.scripted import Scripted, WorkerLostError, attempt_all, fine, tasks_of
from tests.shared.builders import chunk, receipt, rewrite_task
from tests.support import RAW, make_store, numbered


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_every_task_is_run_once(slots: int, tmp_path: Path) -> None:
    executor = Scripted(fine, slots)
    started, finished, failure = attempt_all(executor, tasks_of(20, tmp_path))
    assert started == list(range(20))
    assert sorted(finished) == list(range(20))
    assert failure is None
    assert set(executor.attempts.values()) == {1}


def test_no_more_runs_at_once_than_there_are_slots_and_one(tmp_path: Path) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def work(number: int, _: int) -> TaskResult:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return receipt(number=number)

    attempt_all(Scripted(work, 3), tasks_of(20, tmp_path))
    assert 2 <= most <= 4


def test_a_worker_that_dies_once_is_tried_again(tmp_path: Path) -> None:
    def work(number: int, attempt: int) -> TaskResult:
        if number == 1 and attempt == 1:
            raise WorkerLostError
        return receipt(number=number)

    executor = Scripted(work)
    _, finished, failure = attempt_all(executor, tasks_of(3, tmp_path))
    assert (sorted(finished), failure) == ([0, 1, 2], None)
    assert executor.attempts == {0: 1, 1: 2, 2: 1}


def test_a_worker_that_always_dies_fails_its_chunk_by_name(tmp_path: Path) -> None:
    def work(number: int, _: int) -> TaskResult:
        if number == 1:
            raise WorkerLostError("out of memory\nand a long trace")
        return receipt(number=number)

    executor = Scripted(work)
    _, finished, failure = attempt_all(executor, tasks_of(10, tmp_path))
    assert isinstance(failure, ChunkFailedError)
    assert failure.exit_code is ExitCode.FAILED
    assert "db chunk 1 [first, end)" in failure.message
    assert "out of memory" in failure.message
    assert "long trace" not in failure.message
    assert executor.attempts[1] == ATTEMPTS
    assert 0 in finished
    assert len(executor.attempts) < 5


@pytest.mark.parametrize(
    "error",
    [
        RejectedError("what", hint="next"),
        CorruptionError("what", place=Path("/a/file")),
        RefusedError("what", hint="next"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_returned_failure_is_not_tried_again(error: MigrationError, tmp_path: Path) -> None:
    executor = Scripted(lambda *_: error)
    _, finished, failure = attempt_all(executor, tasks_of(1, tmp_path))
    assert finished == []
    assert failure is error
    assert executor.attempts == {0: 1}


@pytest.mark.parametrize(
    "error",
    [
        CorruptionError("what", hint="next", place=Path("/a/file")),
        StoreLockedError("held", pid=7, hint="stop it"),
        ConversionError("bad", key=b"k", reason="too short"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_from_an_executor_as_it_was(error: MigrationError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (copy.args, copy.__dict__, str(copy), copy.exit_code) == (
        error.args,
        error.__dict__,
        str(error),
        error.exit_code,
    )


def test_an_error_of_ours_is_not_tried_again(tmp_path: Path) -> None:
    def work(*_: int) -> TaskResult:
        raise RefusedError("the session is gone")

    executor = Scripted(work)
    assert isinstance(attempt_all(executor, tasks_of(5, tmp_path))[2], RefusedError)
    assert max(executor.attempts.values()) == 1


def test_what_runs_beside_a_failure_is_finished_and_handed_over_first(tmp_path: Path) -> None:
    failed = threading.Event()

    def work(number: int, _: int) -> TaskResult:
        if number == 0:
            failed.set()
            return RejectedError("bad")
        assert failed.wait(10)
        time.sleep(0.1)
        return receipt(number=number)

    executor = Scripted(work, 3)
    started, finished, failure = attempt_all(executor, tasks_of(20, tmp_path))
    assert isinstance(failure, RejectedError)
    assert started == [0, 1, 2, 3]
    assert sorted(finished) == [1, 2, 3]
    assert not executor.cancelled


def test_nothing_starts_past_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    monkeypatch.setattr(executor_module, "time", SimpleNamespace(monotonic=lambda: 0.05 * len(done)))

    def work(number: int, _: int) -> TaskResult:
        done.append(number)
        return receipt(number=number)

    started, finished, failure = attempt_all(Scripted(work), tasks_of(100, tmp_path), deadline=0.2)
    assert failure is None
    assert 1 <= len(finished) == len(started) < 20


def test_a_deadline_in_the_past_runs_nothing(tmp_path: Path) -> None:
    assert attempt_all(Scripted(fine), tasks_of(3, tmp_path), deadline=time.monotonic() - 1) == ([], [], None)


def test_an_exception_of_the_caller_cancels_what_runs(tmp_path: Path) -> None:
    executor = Scripted(fine)

    def on_start(_: Task) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_all(executor, tasks_of(3, tmp_path), on_start=on_start))
    assert executor.cancelled


def test_while_no_task_ends_the_caller_gets_a_turn(tmp_path: Path) -> None:
    gone_on = threading.Event()

    def work(number: int, _: int) -> TaskResult:
        assert gone_on.wait(10)
        return receipt(number=number)

    turns = run_all(Scripted(work), tasks_of(1, tmp_path))
    assert next(turns) == []
    gone_on.set()
    assert sum(map(len, turns)) == 1


# Breadcrumbs


def test_a_function_that_takes_the_worker_down_is_traced_to_its_record(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", numbered(100))
    executor = _Fatal()
    task = rewrite_task(tmp_path, path, chunk(), ConversionRef(RAW, RAW, function=executor.convert))
    (tmp_path / "chunks").mkdir()
    with pytest.raises(ChunkFailedError, match=f'died {ATTEMPTS} times, last on the key "key-00000042"'):
        list(run_all(executor, [task]))
    assert not list((tmp_path / "chunks").glob("*.breadcrumb"))


class _Fatal(InProcessExecutor):
    """A function whose record 42 is the end of the worker."""

    class DiedError(KeyboardInterrupt):
        """Not an error that a conversion can catch."""

    def convert(self, record: StateRecord) -> StateRecord:
        if record.key == b"key-00000042":
            raise self.DiedError
        return record

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        try:
            return super().run(tasks)
        except self.DiedError:
            raise WorkerLostError("signal 11") from None


def test_chunks_without_a_function_leave_no_breadcrumbs(tmp_path: Path) -> None:
    executor = Scripted(lambda number, attempt: fine(number, attempt) if attempt > 1 else _die())
    attempt_all(executor, tasks_of(1, tmp_path))
    assert [task.breadcrumb for task in executor.tasks] == [None, None]


def _die() -> TaskResult:
    raise WorkerLostError


def test_slots_that_are_lost_on_the_way_only_make_it_slower(tmp_path: Path) -> None:
    def lose_executors(number: int, _: int) -> TaskResult:
        executor.slots = 1
        time.sleep(0.05 * number)  # one after the other, so that more are running than there are slots
        return receipt(number=number)

    executor = Scripted(lose_executors, slots=4)
    _, finished, failure = attempt_all(executor, tasks_of(8, tmp_path))
    assert failure is None
    assert sorted(finished) == list(range(8))


def test_a_stop_lets_running_tasks_end_and_starts_no_more(tmp_path: Path) -> None:
    stop = Stop()

    def do(number: int, _: int) -> TaskResult:
        if number == 1:
            stop.request()
        return receipt(number=number)

    executor = Scripted(do)
    finished = [result for batch in run_all(executor, tasks_of(5, tmp_path), stop=stop) for _, result in batch]
    assert [result.number for result in finished if isinstance(result, Receipt)] == [0, 1]
    assert not executor.cancelled


def test_a_task_that_outlives_the_grace_is_abandoned_at_its_next_batch(tmp_path: Path) -> None:
    """In this process: the function would go on for minutes."""
    source = make_store(tmp_path / "old", numbered(40_000))
    stop = Stop(grace_seconds=0.0)

    def slow(record: StateRecord) -> StateRecord:
        stop.request()
        time.sleep(0.0005)
        return record

    task = rewrite_task(tmp_path, source, chunk(0), ConversionRef(RAW, RAW, function=slow))
    with pytest.raises(InterruptedMigrationError, match="abandoned"):
        list(run_all(InProcessExecutor(), [task], stop=stop))
    assert [file for file in (tmp_path / "chunks").rglob("*") if file.is_file()] == []


def test_a_stop_that_was_not_requested_changes_nothing(tmp_path: Path) -> None:
    stop = Stop(grace_seconds=0.0)
    stop.check()
    stop.check_grace()
    executor = Scripted(fine, slots=2)
    assert sum(len(batch) for batch in run_all(executor, tasks_of(4, tmp_path), stop=stop)) == 4
