"""A Spark session that runs exactly the driver's code on its executors, installed there or not."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from jobs.java import JavaNotFoundError, find_java_home
from migrate.errors import RefusedError
from migrate.spec.function.roots import OUR_PACKAGES

ROOT = Path(__file__).resolve().parent.parent
_LOCAL = re.compile(r"local(\[.*\])?")
_LOOPBACK = "127.0.0.1"
_ADDRESSES = ("spark.driver.bindAddress", "spark.driver.host", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
"""By these a user says where to listen."""


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
    SparkContext._ensure_initialized()
    builder = SparkSession.builder.appName(f"stateferry {name}")
    for key, value in settings(SparkConf().getAll(), master, os.environ).items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)  # Spark's own would end running chunks at once
    return session


def settings(given: Iterable[tuple[str, str]], master: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """What is set beyond what was `given` to spark-submit, in spark-defaults.conf or in PYSPARK_SUBMIT_ARGS.

    Quiet in any case: Spark's log would bury our progress. A local master needs no network: it listens on the loopback
    interface alone, and serves no pages.
    """
    known = dict(given)
    chosen = {"spark.master": master or known.get("spark.master") or "local[*]", "spark.log.level": "ERROR"}
    is_local = _LOCAL.fullmatch(chosen["spark.master"]) is not None
    if not is_submitted(environment):
        chosen["spark.ui.showConsoleProgress"] = "false"  # which Spark's own shell sets, if nobody asked for it
    if "spark.ui.enabled" not in known and (is_local or not is_submitted(environment)):
        chosen["spark.ui.enabled"] = "false"
    if is_local and not any(name in known or name in environment for name in _ADDRESSES):
        chosen |= {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}
    return chosen


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit started this process, and a JVM for it."""
    return "PYSPARK_GATEWAY_PORT" in environment


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
