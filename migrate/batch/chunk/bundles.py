"""Bundles: small tasks share one call of the executor, since each call has a fixed cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from migrate.batch.chunk.task import Task

_MOST_TASKS = 64
_PER_SLOT = 4
"""Bundles for each slot, at least, of the tasks that are known: otherwise the slots end at different times."""
_STEP = 2 * _MOST_TASKS
"""How many further tasks are read for each bundle, so that the first slots do not wait for the whole list."""


class Bundles:
    """The tasks that have not started."""

    def __init__(self, tasks: Iterable[Task], on_start: Callable[[Task], None]) -> None:
        """`on_start` is called with each task when it is first taken."""
        self._tasks = iter(tasks)
        self._on_start = on_start
        self._ahead: deque[Task] = deque()
        self._bytes = 0
        self._single: deque[Task] = deque()

    def split(self, bundle: Sequence[Task]) -> None:
        """Let each task of a bundle whose worker died be taken again, by itself, before any other."""
        self._single += bundle

    def take(self, most: int, slots: int, call_bytes: int) -> Iterator[Sequence[Task]]:
        """Up to `most` bundles. Each has `call_bytes` at most, or is a single task."""
        for _ in range(most):
            if self._single:
                yield [self._single.popleft()]
            elif bundle := self._next(call_bytes, _PER_SLOT * max(1, slots)):
                for task in bundle:
                    self._on_start(task)
                yield bundle
            else:
                return

    def _next(self, call_bytes: int, shares: int) -> list[Task]:
        self._look_ahead(call_bytes * shares, _MOST_TASKS * shares)
        size = min(call_bytes, self._bytes // shares)
        count = min(_MOST_TASKS, len(self._ahead) // shares)
        bundle: list[Task] = []
        while self._ahead and (not bundle or (len(bundle) < count and self._ahead[0].size <= size)):
            task = self._ahead.popleft()
            self._bytes -= task.size
            size -= task.size
            bundle.append(task)
        return bundle

    def _look_ahead(self, enough_bytes: int, enough: int) -> None:
        is_enough = self._bytes >= enough_bytes
        wanted = 1 - len(self._ahead) if is_enough else min(_STEP, enough - len(self._ahead))
        for task in islice(self._tasks, max(0, wanted)):
            self._ahead.append(task)
            self._bytes += task.size
