"""Under spark-submit the JVM is the parent: it gets the signals, and would end at once and take this driver with it."""

from __future__ import annotations

import os

from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from jobs.session import is_submitted


class _ToThisProcess:
    """Calls from the JVM."""

    def handle(self, received: JavaObject) -> None:
        """The signal, to this process, whose handlers end the run in order."""
        os.kill(os.getpid(), received.getNumber())

    class Java:
        """What py4j makes of this class there."""

        implements = ("sun.misc.SignalHandler",)


def take_over_signals() -> None:
    """SIGINT and SIGTERM sent to the JVM come here, where a run ends in order and says its own exit code.

    A terminal sends SIGINT to both processes, so that it comes twice.
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
