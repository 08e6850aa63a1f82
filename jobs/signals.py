"""Signals under spark-submit, whose JVM gets them first and would end at once, together with this driver."""

from __future__ import annotations

import os

from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from jobs.jvm import is_submitted


class _ToThisProcess:
    """A signal handler that the JVM calls."""

    def handle(self, received: JavaObject) -> None:
        """Send the signal to this process, whose handlers stop the run."""
        os.kill(os.getpid(), received.getNumber())

    class Java:
        """The Java interface of this class, for py4j."""

        implements = ("sun.misc.SignalHandler",)


def take_over_signals() -> None:
    """Pass SIGINT and SIGTERM from the JVM to this process, where a run stops cleanly with its own exit code.

    A terminal sends SIGINT to both processes, so that it arrives twice.
    """
    if not is_submitted():
        return
    SparkContext._ensure_initialized()
    gateway = SparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    misc = gateway.jvm.sun.misc
    for name in ("INT", "TERM"):
        misc.Signal.handle(misc.Signal(name), _ToThisProcess())
