"""SIGINT and SIGTERM: the first asks the run to stop, the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from migrate.batch.stop import GRACE_SECONDS, RERUN, Stop
from migrate.errors import ExitCode

_ASKED = f"\nstateferry: asked to stop: running chunks get {GRACE_SECONDS:.0f} s; once more ends it at once\n"
_FINISHING = "\nstateferry: asked to stop: this takes a moment and is finished first; once more ends it at once\n"
_AT_ONCE = f"\nstateferry: interrupted\n  next: {RERUN}\n"


@contextmanager
def stopping_on_signals(stop: Stop, patience: float | None = 2 * GRACE_SECONDS) -> Iterator[None]:
    """SIGINT and SIGTERM ask for a stop; a second one ends this process. Elsewhere than in the main thread: nothing.

    Nothing that is under way needs an orderly end: whatever is not finished is redone, so that a step which does not
    notice for `patience` seconds is ended like by a second signal. None: what was begun is finished first.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stop.was_just_requested:
            return
        if stop.is_requested:
            _end()
        stop.request()
        if patience is not None:
            watchdog.start()
        _say(_ASKED if patience is not None else _FINISHING)

    watchdog = threading.Timer(patience or 0.0, _end)
    watchdog.daemon = True
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        watchdog.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(sentence: str) -> None:
    with suppress(OSError):  # whoever read this may be gone: a terminal tells all of a pipeline to stop
        os.write(2, sentence.encode())


def _end() -> None:
    _say(_AT_ONCE)
    os._exit(ExitCode.INTERRUPTED)
