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


class Retries:
    """When to ask again: at once when a store was first found to be replaced, else after a wait.

    That is 10 ms at first, then twice as long each time, up to a second, and a random part of it.
    """

    def __init__(self, timeout: float) -> None:
        self._deadline = time.monotonic() + timeout
        self._pause, self._was_replaced = _FIRST_SECONDS, False

    def pause_after(self, error: Exception) -> float:
        """The seconds until the next try. Raises the error where the time is over."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise error
        if isinstance(error, StateStoreMigratedError) and not self._was_replaced:
            self._was_replaced = True
            return 0.0
        pause = min(left, self._pause * random.uniform(0.5, 1))
        self._pause = min(_MOST_SECONDS, 2 * self._pause)
        return pause


def with_retries(call: Callable[[], T], *, on_migrated: Callable[[], object], timeout: float = 30.0) -> T:
    """What `call` returns, tried again while the store is being moved or after it was replaced.

    Args:
        call: the query, such as `lambda: view.get(key)`.
        on_migrated: resolves the store again, for the next call: after StateStoreMigratedError, at once.
        timeout: seconds; until then a StoreNotReadyError, of either function, is followed by a wait.

    Raises:
        StoreNotReadyError: the store was still being moved at the timeout.
        StateStoreMigratedError: it was replaced, and the timeout is over.
    """
    retries, is_replaced = Retries(timeout), False
    while True:
        try:
            if is_replaced:
                on_migrated()
                is_replaced = False
            return call()
        except (StateStoreMigratedError, StoreNotReadyError) as error:
            is_replaced |= isinstance(error, StateStoreMigratedError)
            if pause := retries.pause_after(error):
                time.sleep(pause)
