"""The function of the runs on Spark."""

import time
from dataclasses import replace

from pyspark import TaskContext

from formats import StateRecord


def reverse_slowly(record: StateRecord) -> StateRecord:
    """Slow in a chunk, and neither in the plan's sample nor in the verification."""
    if record.key.endswith(b"00") and _is_doing("rewrite"):
        time.sleep(0.08)
    return replace(record, value=record.value[::-1])


def turn_slowly(record: StateRecord) -> StateRecord:
    """Keys in another order; slow where they are sorted."""
    if record.key.endswith(b"00") and _is_doing("sort"):
        time.sleep(0.02)
    return replace(record, key=record.key[::-1])


def _is_doing(what: str) -> bool:
    context = TaskContext.get()
    return context is not None and (context.getLocalProperty("spark.job.description") or "").startswith(what)
