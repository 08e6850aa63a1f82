"""A whole run whose progress is timed, so that its last chunks can be compared with its first ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.safety import make_spec
from migrate import run
from migrate.model.events import Event

Facts = dict[str, Any]


class _Curve:
    """How far a phase was at which time, by the wall's clock and by this process's CPU."""

    def __init__(self) -> None:
        self._done: list[float] = []
        self._times: dict[str, list[float]] = {"wall": [], "cpu": []}

    def add(self, done: float) -> None:
        """So much is done now, in all."""
        self._done.append(done)
        self._times["wall"].append(time.perf_counter())
        self._times["cpu"].append(time.process_time())

    @property
    def is_begun(self) -> bool:
        """Whether the phase is at work."""
        return bool(self._done)

    def seconds_of(self, chunks: int, window: int) -> dict[str, dict[str, float]]:
        """Seconds a chunk by each clock: over all of them, and over the first and the last `window`."""
        found = {}
        for clock, times in self._times.items():
            first, last = self._at(times, window / chunks), self._at(times, 1 - window / chunks)
            found[clock] = {
                "all": (times[-1] - times[0]) / chunks,
                "first": (first - times[0]) / window,
                "last": (times[-1] - last) / window,
            }
        return found

    def _at(self, times: list[float], share: float) -> float:
        """When this share was done, between the two points around it."""
        wanted = share * self._done[-1]
        after = next(n for n, done in enumerate(self._done) if done >= wanted)
        before, done = self._done[after - 1], self._done[after]
        return times[after - 1] + (times[after] - times[after - 1]) * (wanted - before) / (done - before)


class _Watch:
    def __init__(self) -> None:
        self.chunks = 0
        self.rewrite, self.verify = _Curve(), _Curve()

    def __call__(self, event: Event) -> None:
        if event.name == "chunk.started" and not self.rewrite.is_begun:
            self.rewrite.add(0)
        elif event.name == "chunk.finished":
            self.chunks += len(event.facts["receipts"])
            self.rewrite.add(self.chunks)
        elif event.name == "dead-letters.written":
            self.rewrite.add(self.chunks)
        elif event.name == "verify.started":
            self.verify.add(0)
        elif event.name == "verify.progressed":
            self.verify.add(event.facts["records"])


def watched_run(source: str, folder: str, master: str | None, settings: dict[str, Any], window: int) -> Facts:
    """From the spec, with `settings` for its section `[run]`, to the published store."""
    spec = make_spec(folder, {"path": source}, target={"path": "published"}, run=settings)
    watch = _Watch()
    report = run(spec, master=master, on_event=watch)
    return {
        "chunks": watch.chunks,
        "phases": report.seconds,
        "rewrite": watch.rewrite.seconds_of(watch.chunks, window),
        "verify": watch.verify.seconds_of(watch.chunks, window),
    }


JOBS: dict[str, Callable[..., Facts]] = {"watched-run": watched_run}
