"""Starts, watches and ends the real application, sends it inputs, and compares what it holds with a model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from random import Random
from time import monotonic, sleep
from typing import Self

from confluent_kafka import Producer

from tests.live.faust.program import Settings
from tests.live.running import Event, RunningProgram

Inputs = Sequence[tuple[str, int | None]]
"""Keys and values; None: the key is deleted."""
Rows = Mapping[str, object]


class Worker(RunningProgram):
    """One running instance, which has recovered."""

    patience_seconds = 90.0

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.name)
        self.settings = settings

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.live.faust.program", self.settings.text()]

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.wait(lambda: bool(self.seen("recovered")), "does not recover")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    @property
    def restored(self) -> int:
        """Records that it has restored from its changelog."""
        return int(self.seen("recovered")[0]["restored"])

    def wait_holds(self, expected: Rows) -> Self:
        """Wait until it has processed every input, and holds this. Raises AssertionError."""
        deadline = monotonic() + self.patience_seconds
        while (found := self.holds()) != expected and monotonic() < deadline:
            sleep(0.1)
        differing = {key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
        assert not differing, [(key, found.get(key), expected.get(key)) for key in sorted(differing)[:5]]
        return self

    def wait_converged(self) -> Self:
        """Wait until the adapter says so."""
        deadline = monotonic() + self.patience_seconds
        while not self._dumped()["is_converged"]:
            if monotonic() > deadline:
                raise self.error("does not converge")
            sleep(0.1)
        return self

    def holds(self) -> Rows:
        """What it holds of its partitions."""
        content: Rows = self._dumped()["content"]
        return content

    def _dumped(self) -> Event:
        return self.ask("dump", "dumped")


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
