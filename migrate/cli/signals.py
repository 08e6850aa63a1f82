"""SIGINT and SIGTERM: the first asks the run to stop, the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from migrate.batch.stop import GRACE_SECONDS, RERUN, Stop
from migrate.cli.options import current_output
from migrate.errors import ExitCode

_STOPPING = f"\nstateferry: stop requested: running chunks get {GRACE_SECONDS:.0f} s; interrupt again to end at once\n"
_FINISHING = "\nstateferry: stop requested: this short step is finished first; interrupt again to end at once\n"
_AT_ONCE = f"\nstateferry: interrupted\n  next: {RERUN}\n"


@contextmanager
def stopping_on_signals(stop: Stop, patience: float | None = 2 * GRACE_SECONDS) -> Iterator[None]:
    """Let SIGINT and SIGTERM request a stop, and a second one end this process. Only the main thread can do so.

    Unfinished work is redone by the next run, so that a step which does not stop within `patience` seconds is ended as
    by a second signal; with None the step is always finished.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    stopping, at_once = map(_line, (_FINISHING if patience is None else _STOPPING, _AT_ONCE))

    def end() -> None:
        _write(at_once)
        os._exit(ExitCode.INTERRUPTED)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stop.was_just_requested:
            return
        if stop.is_requested:
            end()
        stop.request()
        if patience is not None:
            watchdog.start()
        _write(stopping)

    watchdog = threading.Timer(patience or 0.0, end)
    watchdog.daemon = True
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        watchdog.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(text: str) -> None:
    with suppress(OSError):  # the reader may be gone: a terminal sends the signal to all of a pipeline
        os.write(2, text.encode())


def _line(text: str) -> str:
    """The text, or a line of a log of JSON objects."""
    output = current_output()
    return f"{output.log_line('warning', 'stateferry', ' '.join(text.split()))}\n" if output.json_log else text
