"""A Spark session that runs exactly the driver's code on its executors, installed there or not."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.java import JavaNotFoundError, find_java_home
from migrate.errors import RefusedError
from migrate.module_roots import OUR_PACKAGES

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def spark_session(name: str, master: str | None, files: list[Path]) -> Iterator[SparkSession]:
    """A session with our packages and the user's `files` on every executor.

    It ends with the block, unless the caller had one running already, which is used as it is.

    `master=None` leaves it to spark-submit, and to `local[*]` where that says nothing. Raises RefusedError where there
    is no Java.
    """
    running = SparkSession.getActiveSession()
    session = running or _new_session(name, master)
    try:
        with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
            for file in (*_packages(Path(folder)), *files):
                session.sparkContext.addPyFile(str(file))
            yield session
    finally:
        if running is None:
            session.stop()


def _new_session(name: str, master: str | None) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _provide_java()
    builder = SparkSession.builder.appName(f"stateferry {name}")
    for key, value in _settings(master).items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)  # Spark's own would end running chunks at once
    return session


def _settings(master: str | None) -> dict[str, str]:
    """Under spark-submit the user's own settings hold; else a session that is quick to start.

    Quiet in any case: Spark's log would bury our progress.
    """
    quiet = {"spark.log.level": "ERROR"}
    if is_submitted():
        return quiet if master is None else {"spark.master": master, **quiet}
    quick = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    return {"spark.master": master or "local[*]", **quick, **quiet}


def is_submitted() -> bool:
    """Whether spark-submit started this process, and a JVM for it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _provide_java() -> None:
    if is_submitted():
        return
    try:
        os.environ["JAVA_HOME"] = str(find_java_home())
    except JavaNotFoundError as error:
        raise RefusedError(
            str(error), hint="or run in this process, without Spark: stateferry run SPEC --no-spark"
        ) from error


def _packages(folder: Path) -> Iterator[Path]:
    """One zip of our packages, made from where they were imported; none where they came in a zip already."""
    if ROOT.suffix in (".zip", ".whl") or not ROOT.is_dir():
        return
    archive = folder / "stateferry.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for package in OUR_PACKAGES:
            for file in sorted((ROOT / package).rglob("*.py")):
                out.write(file, file.relative_to(ROOT))
    yield archive
