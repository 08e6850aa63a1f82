"""`stateferry sweep`: a marker into a query's own source for each key that still has its old state variable.

The query handles it like any row of that key, and `converge()` of the handle moves the value.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from formats.function import describe_error
from jobs.query_checkpoint import QueryCheckpoint
from jobs.session import spark_context
from migrate.batch.changelog.broker_access import connection_by_options
from migrate.errors import RefusedError, SpecError
from migrate.kafka.connection import Connection
from migrate.kafka.writer import produce
from migrate.library_messages import beginning
from migrate.model.reports import SweepReport
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.mistakes import FUNCTION
from migrate.spec.user_function import load_function

Marker = Callable[[Row], Any]
_READING = (
    "see that the query is stopped, and that its checkpoint was not copied: a copy refers to the first place; the "
    "settings of its Spark are needed here, too (format of checkpoints, file systems and their jars), by "
    "SPARK_CONF_DIR or PYSPARK_SUBMIT_ARGS, and no older version"
)
_WATCH_SECONDS = 2.0
"""How long the checkpoint is watched, at least: nothing else tells that a query is running."""


def sweep(
    checkpoint: str,
    *,
    variable: str,
    marker: str,
    to: str,
    limit: int,
    operator: int | None = None,
    master: str | None = None,
    bootstrap: str | None = None,
    config: str | None = None,
) -> SweepReport:
    """Write markers for up to `limit` keys.

    Raises:
        SpecError: The marker function cannot be used, or gives what is no marker.
        RefusedError: There is no such variable or source, or the query is running.
        BrokerError: The topic cannot be written.
    """
    function = _load(marker)
    with spark_context(f"sweep {variable}", master, []) as context, _explained("read the checkpoint", _READING):
        spark = SparkSession(context)
        _ = spark.streams.active  # PySpark 4.1 reads no state before that
        before, began = QueryCheckpoint(spark, checkpoint), time.monotonic()
        directory = before.source(to)
        operator = before.operator(variable, operator)
        keys = before.old_keys(variable, operator).select("key").distinct()
        left = keys.count()
        # In another order each time: else keys that the processor has to leave would be in the way of all others.
        rows = keys.orderBy(F.rand()).limit(limit).collect()
        records = [_record(function, row["key"], is_line=directory is not None) for row in rows]
        unread = before.unread(directory) if directory is not None else None
        time.sleep(max(0.0, began + _WATCH_SECONDS - time.monotonic()))
        if QueryCheckpoint(spark, checkpoint).position != before.position:
            raise RefusedError(
                "the query is running: its checkpoint changed while the keys were listed",
                hint="stop it, and run the same command again; nothing was written",
            )
        if records and directory is not None:
            with _explained(f"write to {to}", "see that files can be written there, then run the same command again"):
                directory.write(spark, [value for _, value in records])
        elif records:
            produce(_connection(bootstrap, config), to, records)
        begun, committed = before.position
        return SweepReport(
            checkpoint=checkpoint,
            variable=variable,
            batch=committed,
            unfinished=begun if begun > committed else None,
            old_keys=left,
            is_newest=not left and before.is_newest(variable, operator),
            written=len(records),
            unread=unread,
            to=to,
            watermark_ms=before.watermark_ms or None,
        )


def _load(reference: str) -> Marker:
    """The function of a module in the working directory, or on Python's path. Raises SpecError."""
    if re.fullmatch(FUNCTION, reference) is None:
        raise SpecError(f"--marker {reference!r} names no function", hint="give --marker module:function")
    ref = ConversionRef("", "", function=reference, search_path=(str(Path.cwd()),))
    return load_function(ref, "--marker", "run this in the folder of the module, or name that in PYTHONPATH")


def _record(marker: Marker, key: Row, *, is_line: bool) -> tuple[bytes | None, bytes]:
    """Kafka's key, which the marker of a topic may have, and the value. Raises SpecError."""
    try:
        made = marker(key)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # `sys.exit()` would say that no key is left
        raise SpecError(f"the marker of {key} fails: {describe_error(error)}", hint="fix the function") from error
    parts = made if isinstance(made, tuple) and len(made) == 2 and not is_line else (None, made)
    record_key, value = (part.encode() if isinstance(part, str) else part for part in parts)
    if not isinstance(value, bytes) or not value or not isinstance(record_key, bytes | None):
        raise SpecError(
            f"the marker of {key} is {made!r}: not a text, nor bytes",
            hint="give a row of the query's source, never null: that would delete in a compacted topic",
        )
    if is_line and re.search(rb"[\r\n]", value):
        raise SpecError(f"the marker of {key} has several lines", hint="a line of the file is one row")
    return record_key, value


def _connection(bootstrap: str | None, config: str | None) -> Connection:
    if bootstrap is None:
        raise SpecError("no broker is named for the topic", hint="give --bootstrap host:port")
    return connection_by_options(bootstrap, config)


@contextmanager
def _explained(doing: str, hint: str) -> Iterator[None]:
    """Raises RefusedError for what Spark cannot do: "read the checkpoint"."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise RefusedError(f"Spark cannot {doing}: {beginning(str(error))}", hint=hint) from error
