"""Which requests are answered at all, and how much their answers may hold in memory: before anything else is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from starlette.types import ASGIApp

from migrate.serve.http_messages import Limits, Metrics, Problem, Receive, Scope, Send, refusal

T = TypeVar("T")
_ONCE = (b"host", b"authorization")
_PROBES = "/health"


class Memory:
    """The bytes of all answers that are made or being sent; asked on the event loop alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0

    @contextmanager
    def holding(self, size: int = 0) -> Iterator[Callable[[int], None]]:
        """While an answer of this size is held; gives what takes another size. Both raise Problem if it is too much."""
        own = 0

        def hold(size: int) -> None:
            nonlocal own
            if self.held - own + size > self._limit:
                raise self._too_much(size)
            self.held += size - own
            own = size

        try:
            hold(size)
            yield hold
        finally:
            self.held -= own

    def _too_much(self, size: int) -> Problem:
        mib = self._limit >> 20
        if size > self._limit:
            return Problem(503, f"the answer is larger than {mib} MiB, which is the limit", hint="read it in Python")
        what = f"the answers that are being sent would hold more than {mib} MiB, which is the limit"
        return Problem(503, what, hint="retry with backoff")


class LargeReads:
    """Reads of values that are large: in a thread, one at a time."""

    def __init__(self, limits: Limits, memory: Memory) -> None:
        self.size = limits.large_bytes
        """What is larger than this is large."""
        self._seconds = limits.answer_seconds
        self._memory = memory
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stateferry-large")

    async def read(self, size: int, read: Callable[[], T]) -> T:
        """What `read` returns; its value, of this size, is held from now on. Raises Problem, TimeoutError."""
        with self._memory.holding(size):
            async with asyncio.timeout(self._seconds):
                return await asyncio.get_running_loop().run_in_executor(self._pool, read)

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass
class Admission:
    """Middleware: refuses requests whose head is ambiguous, and those beyond the limit of requests at one time."""

    app: ASGIApp
    limits: Limits
    metrics: Metrics
    _count: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; probes are answered at any time."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        problem = self._problem(scope)
        if problem is not None:
            self.metrics.answered("refused", problem.status, 0.0)
            await refusal(problem)(scope, receive, send)
            return
        self._count += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._count -= 1

    def _problem(self, scope: Scope) -> Problem | None:
        names = [name for name, _ in scope["headers"]]
        if b"transfer-encoding" in names:  # first of all refusals, for it alone closes the connection
            return Problem(411, "the request has a body without a stated length", hint="send none: nothing is written")
        if not scope["raw_path"].startswith(b"/"):
            return Problem(400, "the request's target is not a path", hint="a path begins with /")
        for name in _ONCE:
            if names.count(name) > 1:
                return Problem(
                    400, f"the request has {names.count(name)} {name.decode().title()} headers", hint="send one"
                )
        if self._count >= self.limits.requests and scope["path"] != _PROBES:
            return Problem(
                503, f"{self._count} requests are being answered, which is the limit", hint="retry with backoff"
            )
        return None
