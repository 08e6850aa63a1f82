"""A program in a process of its own that reads commands, a line each, and says what happens in lines of JSON."""

from __future__ import annotations

import json
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Condition, Thread
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.live.maven import ProgramError

Event = dict[str, Any]


class RunningProgram(ABC):
    """One running instance. A context manager, which kills what has not been stopped."""

    patience_seconds: ClassVar = 120.0
    """How long it may take to do anything."""

    def __init__(self, name: str) -> None:
        """`name`: what errors call it."""
        self._name = name
        self._events: list[Event] = []
        self._news = Condition()
        self._has_ended = False

    @abstractmethod
    def command(self) -> list[str]:
        """Which starts it."""

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            assert stream is not None
            stream.close()

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join()

    def stop(self) -> Event:
        """End it cleanly: it leaves its group. What it says at its end."""
        last = self.ask("stop", "stopped")
        self._process.wait(self.patience_seconds)
        return last

    def ask(self, command: str, answer: str) -> Event:
        """Give it a command; the event that answers it, which is not among those that it has sent."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        self.wait(lambda: bool(self.seen(answer)), f"does not answer {command!r}")
        if self.seen("failed"):
            raise self.error("has failed before it was asked")
        event = self.seen(answer)[0]
        with self._news:
            self._events.remove(event)
        return event

    def seen(self, name: str) -> list[Event]:
        """The events of this name that it has sent."""
        return [event for event in self._events if event["event"] == name]

    def wait(self, is_so: Callable[[], bool], otherwise: str) -> None:
        """Until it is so. Raises ProgramError where the program has failed or ended before."""
        deadline = monotonic() + self.patience_seconds
        with self._news:
            while not is_so():
                if self._has_ended or self.seen("failed") or monotonic() > deadline:
                    raise self.error(otherwise)
                self._news.wait(0.05)

    def error(self, what: str) -> ProgramError:
        """That it does something wrong, with what it has said and logged."""
        self._log.seek(0)
        return ProgramError(f"{self._name} {what}: {self._events[-5:]}\n{self._log.read()[-4000:]}")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._events.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()
