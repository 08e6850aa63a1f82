"""The loop around a query: wait while a store is being moved, and resolve it again once it was replaced."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from migrate.errors import StateStoreMigratedError, StoreNotReadyError

T = TypeVar("T")
_FIRST_SECONDS = 0.01
_MOST_SECONDS = 1.0


def with_retries(call: Callable[[], T], *, on_migrated: Callable[[], object], timeout: float = 30.0) -> T:
    """What `call` returns, tried again while the store is being moved or after it was replaced.

    Args:
        call: the query, such as `lambda: view.get(key)`.
        on_migrated: resolves the store again, for the next call: after StateStoreMigratedError, at once.
        timeout: seconds; until then a StoreNotReadyError, of either function, is followed by a wait: 10 ms at first,
            then twice as long each time, up to a second, and a random part of that.

    Raises:
        StoreNotReadyError: the store was still being moved at the timeout.
        StateStoreMigratedError: it was replaced, and the timeout is over.
    """
    deadline = time.monotonic() + timeout
    pause, resolves, was_replaced = _FIRST_SECONDS, False, False
    while True:
        try:
            if resolves:
                on_migrated()
                resolves = False
            return call()
        except (StateStoreMigratedError, StoreNotReadyError) as error:
            is_replaced = isinstance(error, StateStoreMigratedError)
            resolves |= is_replaced
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            if is_replaced and not was_replaced:
                was_replaced = True
                continue
            time.sleep(min(left, pause * random.uniform(0.5, 1)))
            pause = min(_MOST_SECONDS, 2 * pause)
