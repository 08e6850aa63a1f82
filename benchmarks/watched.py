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
    """How far a phase was at which time."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._cpu: list[float] = []

    def add(self, done: float) -> None:
        """So much is done now, in all."""
        self._points.append((time.perf_counter(), done))
        self._cpu.append(time.process_time())

    @property
    def is_begun(self) -> bool:
        """Whether the phase is at work."""
        return bool(self._points)

    def seconds_of(self, chunks: int, window: int) -> dict[str, float]:
        """Seconds a chunk, over all of them and over the first and the last `window`; and of this process's CPU."""
        first, last = self._at(window / chunks), self._at(1 - window / chunks)
        begun, ended = self._points[0][0], self._points[-1][0]
        return {
            "all": (ended - begun) / chunks,
            "first": (first - begun) / window,
            "last": (ended - last) / window,
            "cpu": (self._cpu[-1] - self._cpu[0]) / chunks,
        }

    def _at(self, share: float) -> float:
        """When this share was done, between the two points around it."""
        wanted = share * self._points[-1][1]
        after = next(n for n, (_, done) in enumerate(self._points) if done >= wanted)
        if after == 0:
            return self._points[0][0]
        (begun, before), (ended, done) = self._points[after - 1], self._points[after]
        return begun + (ended - begun) * (wanted - before) / (done - before)


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
