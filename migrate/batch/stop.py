"""Requests to stop a run: no new work starts, running work gets some seconds, a second signal ends it at once."""

from __future__ import annotations

import time

from migrate.errors import InterruptedMigrationError

GRACE_SECONDS = 10.0
_ECHO_SECONDS = 0.5
RERUN = "run the same command again to resume"


def never_stop() -> None:
    """The check of a task that cannot be stopped."""


class Stop:
    """Whether a run was asked to stop, and since when."""

    def __init__(self, grace_seconds: float = GRACE_SECONDS) -> None:
        self._grace_seconds = grace_seconds
        self._since: float | None = None

    def request(self) -> None:
        """Request the stop; further requests change nothing."""
        self._since = self._since or time.monotonic()

    @property
    def is_requested(self) -> bool:
        """Whether a stop was requested, so that no new work may start."""
        return self._since is not None

    @property
    def was_just_requested(self) -> bool:
        """Whether a second signal may be the first one's echo: the terminal and spark-submit both send it."""
        return self._since is not None and time.monotonic() - self._since < _ECHO_SECONDS

    def check(self) -> None:
        """Raises InterruptedMigrationError once a stop was requested."""
        if self.is_requested:
            raise InterruptedMigrationError("interrupted", hint=RERUN)

    def check_grace(self) -> None:
        """Raises InterruptedMigrationError once the grace period is over too: running work is then abandoned."""
        if self._since is not None and time.monotonic() - self._since >= self._grace_seconds:
            raise InterruptedMigrationError("interrupted; running work was abandoned", hint=RERUN)
