"""Being asked to stop: nothing new starts, what runs gets some seconds, and a second signal ends it at once."""

from __future__ import annotations

import time

from migrate.errors import InterruptedMigrationError

GRACE_SECONDS = 10.0
_ECHO_SECONDS = 0.5
RERUN = "run the same command again to resume"


def never_stop() -> None:
    """The check of a task that nobody abandons."""


class Stop:
    """Whether a run was asked to stop, and for how long it has been."""

    def __init__(self, grace_seconds: float = GRACE_SECONDS) -> None:
        self._grace_seconds = grace_seconds
        self._since: float | None = None

    def request(self) -> None:
        """Ask; asking again changes nothing."""
        self._since = self._since or time.monotonic()

    @property
    def is_requested(self) -> bool:
        """Nothing new may start."""
        return self._since is not None

    @property
    def was_just_requested(self) -> bool:
        """The same signal, told twice: by the terminal and by spark-submit."""
        return self._since is not None and time.monotonic() - self._since < _ECHO_SECONDS

    def check(self) -> None:
        """Raises InterruptedMigrationError once asked."""
        if self.is_requested:
            raise InterruptedMigrationError("interrupted", hint=RERUN)

    def check_grace(self) -> None:
        """Raises InterruptedMigrationError once the grace is over too: what still runs is to be abandoned."""
        if self._since is not None and time.monotonic() - self._since >= self._grace_seconds:
            raise InterruptedMigrationError("interrupted; what was running was abandoned", hint=RERUN)
