"""Under spark-submit, whose JVM gets the signals first, and prints what a script writes to standard error."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from py4j.java_gateway import JavaObject, JVMView
from pyspark.java_gateway import ensure_callback_server_started

from jobs.session import gateway, is_submitted

_CONSOLE_MAY_BE_A_FILE = 22
"""From this Java on, there is a console without a terminal too."""


class _ToThisProcess:
    """A signal handler that the JVM calls."""

    def handle(self, received: JavaObject) -> None:
        """Send the signal to this process, whose handlers stop the run."""
        os.kill(os.getpid(), received.getNumber())

    class Java:
        """The Java interface of this class, for py4j."""

        implements = ("sun.misc.SignalHandler",)


def take_over() -> None:
    """Let signals and the terminal be this process's own, if spark-submit started it."""
    if not is_submitted():
        return
    ensure_callback_server_started(gateway())  # type: ignore[no-untyped-call]
    _take_over_signals(gateway().jvm)
    _write_to_terminal(gateway().jvm)


def _take_over_signals(jvm: JVMView) -> None:
    """Pass SIGINT and SIGTERM from the JVM, which would end at once, to this process, where a run stops cleanly.

    A terminal sends SIGINT to both processes, so that it arrives twice.
    """
    signals = jvm.sun.misc.Signal
    for name in ("INT", "TERM"):
        signals.handle(signals(name), _ToThisProcess())


def _write_to_terminal(jvm: JVMView) -> None:
    """Connect standard error with the terminal that spark-submit prints to, if it does, for bars instead of a log."""
    java = jvm.java.lang.System
    console = java.console()
    version = int(java.getProperty("java.specification.version").partition(".")[0])
    if console is None or (version >= _CONSOLE_MAY_BE_A_FILE and not console.isTerminal()):
        return
    with suppress(OSError):  # a process in a session of its own has no terminal
        terminal = os.open("/dev/tty", os.O_WRONLY)
        os.dup2(terminal, sys.stderr.fileno())
        os.close(terminal)
