"""A SparkContext whose executors run exactly the driver's code, even if another version is installed there.

What PySpark offers only by private names is used here alone.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.java_gateway import JavaGateway, JVMView
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.find_spark_home import _find_spark_home

from jobs.java import find_java_home
from jobs.packing import packed
from migrate.batch.chunk.executor import STARTS, check_master
from migrate.batch.log import SPARK_LOGGER
from migrate.errors import MigrationError, RefusedError
from migrate.library_messages import beginning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(\[.*\])?")
_LOOPBACK = "127.0.0.1"
_YARN_ANSWERS_SOON = {
    "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "20000",
    "spark.hadoop.yarn.resourcemanager.connect.retry-interval.ms": "10000",
    "spark.hadoop.ipc.client.connect.max.retries.on.timeouts": "1",
}
_OF_NO_MASTER = "spark-application-"
"""So begins the id of an application to which a standalone master gave none: Spark stops it soon, without an error."""
_HOST_NAMES = ("SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP")
"""The variables by which Spark knows its host; else it has the host's name resolved."""
_ADDRESSES = ("spark.driver.bindAddress", "spark.driver.host", *_HOST_NAMES)
"""The settings and variables by which a user chooses where Spark listens."""
_SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with options of the JVM that Spark starts."""
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""What takes long in a run that does not sort is done by Python: a better compiler costs more than it gives."""
_OF_JAVA = (_SUBMIT_OPTIONS, "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "LOG4J_CONFIGURATION_FILE")
_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warn"}
_LOGGING = "org.apache.spark.internal.Logging"
_IS_DEFAULT = f"{_LOGGING.replace('.', '$')}$$defaultSparkLog4jConfig_$eq"
_DEFAULTS = ("org/apache/spark/log4j2-", "jobs/log4j2.properties")
"""In the location of Spark's own configuration of log4j, and in that of ours."""


@contextmanager
def spark_context(
    name: str, master: str | None, files: list[Path], *, is_sorting: bool = False
) -> Iterator[SparkContext]:
    """A context with our packages and the user's `files` on every executor, without a SQL session.

    It ends with the block. A context that was already active is used as it is, and stays. `is_sorting`: what takes long
    is done by the JVM, and not by Python.

    With `master=None` spark-submit chooses the master, otherwise `local[*]` is used. Raises RefusedError if there is no
    Java, or if the master does not answer; as `check_master`.
    """
    running = SparkContext._active_spark_context  # `getOrCreate` would make one
    if running is not None:
        with _with_code(running, files):
            yield running
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with running_jvm(is_local=is_local(master), is_sorting=is_sorting) as jvm:
        context = _new_context(jvm, name, master)
        try:
            with _with_code(context, files):
                yield context
        finally:
            context.stop()  # tasks that were given up end with it


def own_session(context: SparkContext, settings: Mapping[str, str]) -> SparkSession:
    """A SQL session with settings and data sources of its own, which this thread's queries find."""
    from pyspark.sql import SparkSession  # loads much, which few runs need

    session = SparkSession(context).newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    gateway().jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
    return session


@contextmanager
def running_jvm(*, is_local: bool, is_sorting: bool = False) -> Iterator[JVMView]:
    """The JVM that runs already, or one of ours, which ends with the block: a later session has options of its own.

    `is_local`: no other machine has to find it by a name. `is_sorting`: it does what takes long. After an error ours
    goes on until this process ends: the error asks it for its message. Raises RefusedError without Java.
    """
    if is_submitted() or SparkContext._gateway is not None:  # else a JVM would be started by looking for one
        yield gateway().jvm
        return
    _check_spark_home()
    os.environ["JAVA_HOME"] = str(find_java_home())
    variables = {}
    if is_local and os.environ.keys().isdisjoint(_HOST_NAMES):
        variables[_HOST_NAMES[0]] = "localhost"
    with as_file(files("jobs") / "log4j2.properties") as file:  # of a zip it is a copy, for the block alone
        variables[_SUBMIT_OPTIONS] = submit_options(os.environ, file, is_sorting=is_sorting)
        with environment_of(variables), host_name_explained():
            ours = gateway()
    yield ours.jvm
    SparkContext._gateway = SparkContext._jvm = None  # else a later context would ask the JVM that has ended
    ours.shutdown()
    ours.proc.stdin.close()  # it ends by itself then


def gateway() -> JavaGateway:
    """The connection with the JVM, which is started where none runs."""
    SparkContext._ensure_initialized()  # the log, signals and the terminal need a JVM that has no context yet
    assert SparkContext._gateway is not None
    return SparkContext._gateway


def write_whole(context: SparkContext, folder: str, name: str, content: bytes) -> None:
    """Write a file that appears as a whole, wherever Spark can write. Raises RefusedError."""
    path = gateway().jvm.org.apache.hadoop.fs.Path
    hidden, file = path(folder, f".{name}"), path(folder, name)
    files = file.getFileSystem(context._jsc.hadoopConfiguration())
    with closing(files.create(hidden, False)) as out:
        out.write(content)
    if not files.rename(hidden, file):
        raise RefusedError(f"{folder}/.{name} cannot be renamed", hint="see that the directory can be written")


def file_names(context: SparkContext, folder: str, pattern: str) -> list[str]:
    """Those of the directory that match; it may be missing."""
    hadoop = gateway().jvm.org.apache.hadoop.fs
    path = hadoop.Path(folder)
    files = path.getFileSystem(context._jsc.hadoopConfiguration())
    found = files.listStatus(path, hadoop.GlobFilter(pattern)) if files.exists(path) else []
    return [each.getPath().getName() for each in found]


@contextmanager
def environment_of(variables: Mapping[str, str]) -> Iterator[None]:
    """The environment of a process that is started in the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ |= {} if value is None else {name: value}


def submit_options(environment: Mapping[str, str], log4j: Path, *, is_sorting: bool = False) -> str:
    """The options of our JVM. Those of the user come after ours: the last one of a kind holds.

    `log4j`: our configuration, for users without one.
    """
    options = [*([] if is_sorting else [_QUICK_START]), environment.get(_SUBMIT_OPTIONS, "")]
    conf = Path(environment.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))
    if not any("log4j" in environment.get(name, "").lower() for name in _OF_JAVA) and not any(conf.glob("log4j2.*")):
        options.append(f"-Dlog4j2.configurationFile={log4j.as_uri()}")
    return " ".join(options)


def set_level(jvm: JVMView) -> None:
    """Configure the log of a JVM that runs already, unless the user did: errors alone, or what the user asks for."""
    manager = jvm.org.apache.logging.log4j.LogManager
    location = manager.getContext(False).getConfiguration().getConfigurationSource().getLocation()
    if location is not None and not any(each in location for each in _DEFAULTS):
        return
    level = _LEVELS.get(logging.getLogger(SPARK_LOGGER).level, "error")
    jvm.java.lang.System.setProperty("stateferry.spark.log", level)
    with as_file(files("jobs") / "log4j2.properties") as file:
        for is_current in (True, False):  # Spark looks at one of log4j's contexts, and logs to the other
            manager.getContext(is_current).setConfigLocation(jvm.java.net.URI(file.as_uri()))
    with suppress(Py4JError):  # without it, Spark's first line would bring back its own configuration
        getattr(getattr(jvm, f"{_LOGGING}$").__getattr__("MODULE$"), _IS_DEFAULT)(False)


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit started this process, and a JVM for it."""
    return "PYSPARK_GATEWAY_PORT" in environment


def _check_spark_home() -> None:
    home = os.environ.get("SPARK_HOME")
    if home and not Path(home, "bin", "spark-submit").is_file():
        raise RefusedError(
            f"SPARK_HOME is {home}, where bin/spark-submit is missing",
            hint="unset SPARK_HOME, so that the installed PySpark is used, or let it name a Spark distribution",
        )


@contextmanager
def host_name_explained() -> Iterator[None]:
    """Raises RefusedError where Spark does not start, and nothing resolves the name of this host."""
    try:
        yield
    except Exception as error:
        is_named = not os.environ.keys().isdisjoint(_HOST_NAMES) or _is_resolved(socket.gethostname())
        if isinstance(error, MigrationError) or is_named:
            raise
        raise RefusedError(
            f"Spark does not start: nothing resolves the name of this host, {socket.gethostname()}",
            hint=f"add it to /etc/hosts, or set {' or '.join(_HOST_NAMES)} to what the executors reach it by",
        ) from error


def _is_resolved(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


@contextmanager
def _with_code(context: SparkContext, files: list[Path]) -> Iterator[None]:
    """Workers that are started in the block import our packages and `files`, and not from their working directory."""
    environment = context.environment
    before = environment.get("PYTHONSAFEPATH", "")
    environment["PYTHONSAFEPATH"] = "1"
    try:
        for file in (
            *files,
            packed(Path(SparkFiles.getRootDirectory())),
        ):  # the last one comes first on a worker's path
            context.addPyFile(str(file))
        yield
    finally:
        environment["PYTHONSAFEPATH"] = before  # an empty one has no effect


def _new_context(jvm: JVMView, name: str, master: str | None) -> SparkContext:
    set_level(jvm)
    conf = SparkConf().setAppName(f"stateferry {name}")
    conf.setAll([*settings(conf.getAll(), master, os.environ).items()])
    on_interrupt = signal.getsignal(signal.SIGINT)
    context = _started(conf, name)
    if not conf.contains("spark.log.level"):
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
        raise _no_application(chosen, beginning(str(error)) or type(error).__name__) from error
    if chosen.startswith("spark://") and str(context.applicationId).startswith(_OF_NO_MASTER):
        context.stop()
        raise _no_application(chosen, "the master does not answer")
    return context


def _no_application(master: str, reason: str) -> RefusedError:
    return RefusedError(
        f"no Spark application starts on {master}: {reason}",
        hint="check --master, and that the master is running; Spark's log above has more",
    )


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
