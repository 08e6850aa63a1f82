"""Starts, watches and ends the real application, sends it inputs, and compares what it holds with a model."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from queue import Empty, Queue
from random import Random
from threading import Thread
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from tests.live.faust.program import Settings

Inputs = Sequence[tuple[str, int | None]]
"""Keys and values; None: the key is deleted."""
Rows = Mapping[str, object]
_PATIENCE_SECONDS = 90.0


class Worker:
    """One running instance. A context manager, which kills what has not been stopped."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._events: Queue[dict[str, Any]] = Queue()

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.live.faust.program", self.settings.text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        try:
            self.restored: int = self._next("recovered")["restored"]
            """Records that it has restored from its changelog: a recovery that does not end fails here."""
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            assert stream is not None
            stream.close()

    def wait_holds(self, expected: Rows) -> Self:
        """Wait until it has processed every input, and holds this. Raises AssertionError."""
        deadline = monotonic() + _PATIENCE_SECONDS
        while (found := self.holds()) != expected and monotonic() < deadline:
            sleep(0.1)
        differing = {key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
        assert not differing, [(key, found.get(key), expected.get(key)) for key in sorted(differing)[:5]]
        return self

    def wait_converged(self) -> Self:
        """Wait until the adapter says so. Raises AssertionError."""
        deadline = monotonic() + _PATIENCE_SECONDS
        while not self._dumped()["is_converged"]:
            assert monotonic() < deadline, self._described("does not converge")
            sleep(0.1)
        return self

    def stop(self) -> None:
        """End it cleanly: it leaves its group."""
        self._order("stop")
        self._next("stopped")
        self._process.wait(_PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join()

    def holds(self) -> Rows:
        """What it holds of its partitions."""
        content: Rows = self._dumped()["content"]
        return content

    def _dumped(self) -> dict[str, Any]:
        self._order("dump")
        return self._next("dumped")

    def _order(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put(json.loads(line))
        self._events.put({"event": "ended"})

    def _next(self, name: str) -> dict[str, Any]:
        try:
            while (event := self._events.get(timeout=_PATIENCE_SECONDS))["event"] != name:
                if event["event"] in ("failed", "ended"):
                    raise AssertionError(self._described(f"{event}"))
        except Empty:
            raise AssertionError(self._described(f"has not {name} in time")) from None
        return event

    def _described(self, what: str) -> str:
        self._log.seek(0)
        return f"{self.settings.name}: {what}\n{self._log.read()[-4000:]}"


def assert_finds(settings: Settings, expected: Rows, *, restores: bool) -> None:
    """It starts, restores records or none, and holds this."""
    with Worker(settings) as worker:
        worker.wait_holds(expected)
        assert (worker.restored > 0) is restores, f"restored {worker.restored}"
        worker.stop()


def some_inputs(keys: int, count: int, seed: int = 1) -> Inputs:
    """Values for so many keys, some of which are deleted."""
    rng = Random(seed)
    every = [(f"k{number}", rng.randint(0, 999)) for number in range(keys)]
    more = [(f"k{rng.randrange(keys)}", None if rng.random() < 0.2 else rng.randint(0, 999)) for _ in range(count)]
    return [*every, *more]


def rows_after(inputs: Inputs, *, is_new: bool = False) -> Rows:
    """What the table holds then."""
    last = dict(inputs)
    return {key: {"sum": value} if is_new else value for key, value in last.items() if value is not None}


def send(settings: Settings, inputs: Inputs) -> None:
    """Produce them in order, to the partitions that Faust's own producer would choose."""
    producer = Producer({"bootstrap.servers": settings.bootstrap, "partitioner": "murmur2_random", "log_level": 3})
    for key, value in inputs:
        producer.produce(settings.input, key=key, value="delete" if value is None else str(value))
    assert producer.flush(60) == 0
