"""The executor over processes of this machine, without Spark and Java: one for each slot, spoken to over a pipe.

They are new processes, never forked from a driver with threads. A process that dies costs the task that it had.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue

from migrate.batch.chunk.task import Task, TaskResult, run_tasks
from migrate.errors import ExitCode

_START = (
    "import gc, sys; gc.disable(); sys.path[:] = sys.argv[2:]; "
    "from migrate.batch.chunk.processes import work; work(int(sys.argv[1]))"
)


class WorkerDiedError(Exception):
    """A process ended while it had a task."""


@contextmanager
def open_processes(slots: int) -> Iterator[ProcessExecutor]:
    """An executor over as many processes, which end with the block, and with this process however it ends."""
    executor = ProcessExecutor(slots)
    try:
        yield executor
    finally:
        executor.cancel()


class ProcessExecutor:
    """Runs tasks in processes of its own, each of which starts with its first task."""

    call_bytes = 0  # a call costs less than a millisecond

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._workers = [_Worker() for _ in range(slots)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        """Run the tasks in the next idle process. Raises WorkerDiedError, or the error of a task."""
        worker = self._idle.get()
        try:
            return worker.run(tasks)
        finally:
            self._idle.put(worker)

    def cancel(self) -> None:
        """Kill the processes: what they were at is done again by the next run."""
        for worker in self._workers:
            worker.cancel()


class _Worker:
    """A process, and after its death another one, as their driver sees them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_cancelled = False

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        process = self._started()
        try:
            self._pipe.send(tasks)
            results, error = self._pipe.recv()
        except (EOFError, OSError) as lost:
            self._process = None
            process.kill()
            raise WorkerDiedError(f"its process ended: {_ending(process.wait())}") from lost
        if error is not None:
            raise error
        return list(results)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_cancelled:
                raise WorkerDiedError("the run has ended")
            if self._process is None:
                self._pipe, theirs = Pipe()
                with theirs:
                    self._process = subprocess.Popen(
                        [sys.executable, "-c", _START, str(theirs.fileno()), *sys.path],
                        stdin=subprocess.DEVNULL,
                        stdout=2,  # what the user's function prints is no part of a report
                        pass_fds=[theirs.fileno()],
                        process_group=0,  # a terminal's Ctrl-C is the driver's: it lets running tasks end
                    )
            return self._process

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            if (process := self._process) is not None:
                process.kill()
                process.wait()


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def work(number: int) -> None:
    """Run the tasks that come over the pipe with this file descriptor, until its other end is closed."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # a signal to all processes of a service is the driver's too
    pipe: Connection[object, Sequence[Task]] = Connection(number)
    calls: SimpleQueue[Sequence[Task]] = SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, calls), daemon=True).start()
    while True:
        tasks = calls.get()
        gc.enable()  # it took a tenth of the time of the imports, those of the first tasks too
        try:
            answer: tuple[object, Exception | None] = (run_tasks(tasks), None)
        except Exception as error:  # noqa: BLE001 - the driver decides on a further attempt
            answer = ((), error)
        try:
            pipe.send(answer)
        except OSError:
            os._exit(ExitCode.INTERRUPTED)
        except Exception:  # noqa: BLE001 - an error that cannot be pickled
            pipe.send(((), RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))


def _receive(pipe: Connection[object, Sequence[Task]], calls: SimpleQueue[Sequence[Task]]) -> None:
    """Receive calls also while one is at work, so that the end of the driver is noticed at once."""
    try:
        while True:
            calls.put(pipe.recv())
    finally:
        os._exit(ExitCode.INTERRUPTED)
