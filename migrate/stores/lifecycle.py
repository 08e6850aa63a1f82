"""The states of an open store: those of Kafka Streams (KIP-696), where an error of the storage is final.

CREATED ──► RUNNING ──► PENDING_SHUTDOWN ──► NOT_RUNNING
    │          │               │
    └──────────┴───────────────┴──► PENDING_ERROR ──► ERROR
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import StrEnum

from migrate.errors import IllegalTransitionError

_LOG = logging.getLogger(__name__)


class State(StrEnum):
    """The states of a store."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


_NEXT = {
    State.CREATED: {State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.RUNNING: {State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.PENDING_SHUTDOWN: {State.NOT_RUNNING, State.PENDING_ERROR},
    State.PENDING_ERROR: {State.ERROR},
    State.NOT_RUNNING: set(),
    State.ERROR: set(),
}
FAILED = (State.PENDING_ERROR, State.ERROR)

Listener = Callable[[State, State], None]
"""Called with the previous and the new state, in the thread that made the transition."""


class Lifecycle:
    """The state of one store, and the listeners to its transitions."""

    def __init__(self, what: str, listener: Listener | None = None) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._listeners = [] if listener is None else [listener]
        self.state = State.CREATED

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every transition from now on."""
        self._listeners.append(listener)

    def move_to(self, state: State) -> None:
        """Change the state. Raises IllegalTransitionError, and keeps it, where the new one cannot follow."""
        with self._lock:
            before = self.state
            if state not in _NEXT[before]:
                raise IllegalTransitionError(f"{self._what} is {before}: it cannot become {state}")
            self.state = state
        for listener in self._listeners:
            try:
                listener(before, state)
            except Exception:  # noqa: BLE001 - an error of a listener is not the store's
                _LOG.exception("a listener of %s failed at %s -> %s", self._what, before, state)
