"""A Spark session whose executors run exactly the driver's code, even if another version is installed there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.sql import SparkSession

from jobs.java import JavaNotFoundError, find_java_home
from jobs.spark_log import quiet_start, set_level
from migrate.errors import RefusedError
from migrate.packages import OUR_PACKAGES, PLACE

_LOCAL = re.compile(r"local(\[.*\])?")
_LOOPBACK = "127.0.0.1"
_ADDRESSES = ("spark.driver.bindAddress", "spark.driver.host", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
"""The settings and variables by which a user chooses where Spark listens."""


@contextmanager
def spark_session(name: str, master: str | None, files: list[Path]) -> Iterator[SparkSession]:
    """A session with our packages and the user's `files` on every executor.

    It ends with the block. A session that was already active is used as it is, and stays.

    With `master=None` spark-submit chooses the master, otherwise `local[*]` is used. Raises RefusedError if there is no
    Java.
    """
    running = SparkSession.getActiveSession()
    session = running or _new_session(name, master)
    try:
        with _without_working_directory(session):
            for file in (*files, _packages()):  # the last one comes first on a worker's path
                session.sparkContext.addPyFile(str(file))
            yield session
    finally:
        if running is None:
            session.stop()


@contextmanager
def _without_working_directory(session: SparkSession) -> Iterator[None]:
    """Workers that are started in the context do not import from their working directory."""
    environment = session.sparkContext.environment
    before = environment.get("PYTHONSAFEPATH", "")
    environment["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        environment["PYTHONSAFEPATH"] = before  # an empty one has no effect


def _new_session(name: str, master: str | None) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not is_submitted():
        os.environ["JAVA_HOME"] = java_home()
    with quiet_start():
        SparkContext._ensure_initialized()
    assert SparkContext._jvm is not None
    set_level(SparkContext._jvm)
    builder = SparkSession.builder.appName(f"stateferry {name}")
    for key, value in settings(SparkConf().getAll(), master, os.environ).items():
        builder = builder.config(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    if session.conf.get("spark.log.level", None) is None:
        set_level(SparkContext._jvm)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)  # Spark's handler would end running chunks at once
    return session


def settings(given: Iterable[tuple[str, str]], master: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to add to those `given` to spark-submit, in spark-defaults.conf or in PYSPARK_SUBMIT_ARGS.

    A local master listens only on the loopback interface, and serves no pages.
    """
    known = dict(given)
    chosen = {"spark.master": master or known.get("spark.master") or "local[*]"}
    is_local = _LOCAL.fullmatch(chosen["spark.master"]) is not None
    if not is_submitted(environment):
        chosen["spark.ui.showConsoleProgress"] = "false"  # Spark's shell sets it by itself
    if "spark.ui.enabled" not in known and (is_local or not is_submitted(environment)):
        chosen["spark.ui.enabled"] = "false"
    if is_local and not any(name in known or name in environment for name in _ADDRESSES):
        chosen |= {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}
    return chosen


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit started this process, and a JVM for it."""
    return "PYSPARK_GATEWAY_PORT" in environment


def java_home() -> str:
    """Return the JAVA_HOME for Spark. Raises RefusedError if no Java can start it."""
    try:
        return str(find_java_home(is_quiet=True))
    except JavaNotFoundError as error:
        raise RefusedError(
            str(error), hint="or run in this process, without Spark: stateferry run SPEC --no-spark"
        ) from error


def _packages() -> Path:
    """A zip of our packages: a copy, where they were imported from one, since that one may come late on the path.

    It is among Spark's own files, until Spark removes them: executors that start late fetch it.
    """
    folder = Path(tempfile.mkdtemp(prefix="stateferry-", dir=SparkFiles.getRootDirectory()))
    archive = folder / f"{folder.name}.zip"  # another name in each run: a session takes a name from one place only
    if not PLACE.is_dir():
        return Path(shutil.copyfile(PLACE, archive))
    with zipfile.ZipFile(archive, "w") as out:
        for package in OUR_PACKAGES:
            for file in sorted((PLACE / package).rglob("*.py")):
                out.write(file, file.relative_to(PLACE))
    return archive
