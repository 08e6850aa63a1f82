"""A SparkContext whose executors run exactly the driver's code, even if another version is installed there."""

from __future__ import annotations

import logging
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
from importlib.util import cache_from_source
from pathlib import Path

from py4j.java_gateway import JVMView
from pyspark import SparkConf, SparkContext, SparkFiles

from jobs.jvm import is_submitted, running_jvm
from jobs.spark_log import set_level
from migrate.batch.chunk.executor import STARTS, check_master
from migrate.errors import RefusedError
from migrate.model.packages import OUR_PACKAGES, PLACE

_LOCAL = re.compile(r"local(\[.*\])?")
_LOOPBACK = "127.0.0.1"
_YARN_ANSWERS_SOON = {
    "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "20000",
    "spark.hadoop.yarn.resourcemanager.connect.retry-interval.ms": "10000",
    "spark.hadoop.ipc.client.connect.max.retries.on.timeouts": "1",
}
_OF_NO_MASTER = "spark-application-"
"""So begins the id of an application to which a standalone master gave none: Spark stops it soon, without an error."""
_CAUSE = "Caused by: "
_ADDRESSES = ("spark.driver.bindAddress", "spark.driver.host", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
"""The settings and variables by which a user chooses where Spark listens."""


@contextmanager
def spark_context(name: str, master: str | None, files: list[Path]) -> Iterator[SparkContext]:
    """A context with our packages and the user's `files` on every executor, without a SQL session.

    It ends with the block. A context that was already active is used as it is, and stays.

    With `master=None` spark-submit chooses the master, otherwise `local[*]` is used. Raises RefusedError if there is no
    Java, or if the master does not answer; as `check_master`.
    """
    running = SparkContext._active_spark_context
    if running is not None:
        with _with_code(running, files):
            yield running
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with running_jvm(is_local=is_local(master)) as (jvm, is_ours):
        context = _new_context(jvm, name, master)
        try:
            with _with_code(context, files):
                yield context
        except BaseException:
            context.stop()  # tasks that were given up end with it
            raise
        if is_ours and is_local(context.master):
            _leave(context)
        else:
            context.stop()


@contextmanager
def _with_code(context: SparkContext, files: list[Path]) -> Iterator[None]:
    """Workers that are started in the block import our packages and `files`, and not from their working directory."""
    environment = context.environment
    before = environment.get("PYTHONSAFEPATH", "")
    environment["PYTHONSAFEPATH"] = "1"
    try:
        for file in (*files, _packages()):  # the last one comes first on a worker's path
            context.addPyFile(str(file))
        yield
    finally:
        environment["PYTHONSAFEPATH"] = before  # an empty one has no effect


def _leave(context: SparkContext) -> None:
    """Let an idle context end with its JVM, which nobody has to wait for."""
    accumulators = context._accumulatorServer
    context._jsc = SparkContext._active_spark_context = None
    threading.Thread(target=accumulators.shutdown, daemon=True).start()  # takes half a second


def _new_context(jvm: JVMView, name: str, master: str | None) -> SparkContext:
    set_level(jvm)
    given = SparkConf()
    conf = SparkConf().setAppName(f"stateferry {name}")
    for key, value in settings(given.getAll(), master, os.environ).items():
        conf.set(key, value)
    on_interrupt = signal.getsignal(signal.SIGINT)
    context = _started(conf, name)
    if not given.contains("spark.log.level"):
        set_level(jvm)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)  # Spark's handler would end running chunks at once
    return context


def _started(conf: SparkConf, name: str) -> SparkContext:
    chosen = conf.get("spark.master", "")
    check_master(chosen)  # it may come from Spark's own configuration
    waiting = "" if is_local(chosen) else ", waiting for executors"
    logging.getLogger(STARTS).info("%s: starting Spark on %s%s", name, chosen, waiting)
    try:
        context = SparkContext(conf=conf)
    except Exception as error:  # Spark and py4j raise errors of many classes
        raise _no_application(chosen, _first_message(error)) from error
    if chosen.startswith("spark://") and str(context.applicationId).startswith(_OF_NO_MASTER):
        context.stop()
        raise _no_application(chosen, "the master does not answer")
    return context


def _no_application(master: str, reason: str) -> RefusedError:
    return RefusedError(
        f"no Spark application starts on {master}: {reason}",
        hint="check --master, and that the master is running; Spark's log above has more",
    )


def _first_message(error: BaseException) -> str:
    """The first line of Spark's message that is not part of a stack trace, and its cause where it lacks that."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    messages = [line for line in lines if not line.startswith(("at ", "An error occurred while calling"))]
    first = (messages or lines or [type(error).__name__])[0].removeprefix(": ")
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return first if not causes or causes[-1] in first else f"{first} ({causes[-1]})"


def settings(given: Iterable[tuple[str, str]], master: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to add to those `given` to spark-submit, in spark-defaults.conf or in PYSPARK_SUBMIT_ARGS.

    A local master listens only on the loopback interface, and serves no pages. YARN is given up within a minute or so,
    instead of a quarter of an hour.
    """
    known = dict(given)
    chosen = {"spark.master": master or known.get("spark.master") or "local[*]"}
    is_here = is_local(chosen["spark.master"])
    if not is_submitted(environment):
        chosen["spark.ui.showConsoleProgress"] = "false"  # Spark's shell sets it by itself
    if "spark.ui.enabled" not in known and (is_here or not is_submitted(environment)):
        chosen["spark.ui.enabled"] = "false"
    if chosen["spark.master"] == "yarn":
        chosen |= {key: value for key, value in _YARN_ANSWERS_SOON.items() if key not in known}
    if is_here and not any(name in known or name in environment for name in _ADDRESSES):
        chosen |= {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}
    return chosen


def is_local(master: str | None) -> bool:
    """Whether everything runs on this machine, in the driver's JVM and its Python workers."""
    return _LOCAL.fullmatch(master or "") is not None


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
                compiled = Path(cache_from_source(str(file)))
                if compiled.is_file():  # Python uses it if it is its own and of this source
                    out.write(compiled, file.relative_to(PLACE).with_suffix(".pyc"))
    return archive
