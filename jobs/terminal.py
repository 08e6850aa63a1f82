"""Standard error under spark-submit, which reads what a script prints through a pipe, and prints it itself."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from pyspark import SparkContext

from jobs.jvm import is_submitted

_CONSOLE_MAY_BE_A_FILE = 22
"""From this Java on, there is a console without a terminal too."""


def write_to_terminal() -> None:
    """Connect standard error with the terminal that spark-submit prints to, if it does, for bars instead of a log."""
    if not is_submitted():
        return
    SparkContext._ensure_initialized()
    gateway = SparkContext._gateway
    assert gateway is not None
    java = gateway.jvm.java.lang.System
    console = java.console()
    version = int(java.getProperty("java.specification.version").partition(".")[0])
    if console is None or (version >= _CONSOLE_MAY_BE_A_FILE and not console.isTerminal()):
        return
    with suppress(OSError):  # a process in a session of its own has no terminal
        terminal = os.open("/dev/tty", os.O_WRONLY)
        os.dup2(terminal, sys.stderr.fileno())
        os.close(terminal)
