"""The JVM of Spark's driver: the one of spark-submit, or one of ours, which is made to start quickly."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from py4j.java_gateway import JVMView
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home

from jobs.class_archive import ClassArchive
from jobs.java import Java, JavaNotFoundError, find_java
from jobs.spark_log import OF_JAVA, SUBMIT_OPTIONS, conf_folder, extended, quiet_start
from migrate.errors import MigrationError, RefusedError

FOR_SHORT_WORK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What takes long in a run is done by Python: a better compiler and a parallel collector cost more than they give."""

_LAUNCHER_OPTIONS = "SPARK_LAUNCHER_OPTS"
_HOTSPOT = "Server VM"
_TUNING = re.compile(r"-X|--properties-file")
"""Of options of a JVM: the user has chosen how it runs."""
_HOST_NAMES = ("SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP")
"""The variables by which Spark knows its host; else it has the host's name resolved."""
_ONE_WORD = re.compile(r"[\w./+-]+")
"""For the shell, which splits the launcher's options."""


@contextmanager
def running_jvm(*, is_local: bool) -> Iterator[tuple[JVMView, bool]]:
    """The JVM that runs already, or one of ours (True), which ends with the block. Raises RefusedError without Java.

    `is_local`: no other machine has to find it by a name. After an error ours goes on until this process ends: the
    error asks it for its message.
    """
    if is_submitted() or SparkContext._gateway is not None:
        SparkContext._ensure_initialized()
        assert SparkContext._jvm is not None
        yield SparkContext._jvm, False
        return
    _check_spark_home()
    java = java_for_spark()
    os.environ["JAVA_HOME"] = str(java.home)
    archive = _archive(java)
    with ExitStack() as settings:
        settings.enter_context(quiet_start())
        if archive is not None:
            settings.enter_context(extended(SUBMIT_OPTIONS, f"{FOR_SHORT_WORK} {archive.options()}"))
            settings.enter_context(extended(_LAUNCHER_OPTIONS, f"{FOR_SHORT_WORK} {_launcher_jar_option()}"))
        if is_local and not _names_host(os.environ):
            settings.enter_context(extended(_HOST_NAMES[0], "localhost"))
        settings.enter_context(host_name_explained())
        SparkContext._ensure_initialized()
    assert SparkContext._jvm is not None
    yield SparkContext._jvm, True
    _end_jvm()
    if archive is not None:
        archive.make_in_background()


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
        if isinstance(error, MigrationError) or _names_host(os.environ) or _is_resolved(socket.gethostname()):
            raise
        raise RefusedError(
            f"Spark does not start: nothing resolves the name of this host, {socket.gethostname()}",
            hint=f"add it to /etc/hosts, or set {' or '.join(_HOST_NAMES)} to what the executors reach it by",
        ) from error


def _names_host(environment: Mapping[str, str]) -> bool:
    return any(name in environment for name in _HOST_NAMES)


def _is_resolved(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


def _end_jvm() -> None:
    """End our JVM: a session that this process makes later gets one with options of its own."""
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # it ends by itself then


def _archive(java: Java) -> ClassArchive | None:
    """The archive of the JVM's classes; None where the JVM is another one, or the user has chosen its options."""
    if _HOTSPOT not in java.build or _is_tuned(os.environ):
        return None
    with suppress(OSError):
        return ClassArchive.of(java, Path(_find_spark_home()), conf_folder(os.environ))
    return None


def _launcher_jar_option() -> str:
    """The option with which Spark's launcher, a JVM of its own, opens one jar instead of two hundred."""
    jars = [str(jar) for jar in Path(_find_spark_home(), "jars").glob("spark-launcher_*.jar")]
    return f"-Xbootclasspath/a:{jars[0]}" if len(jars) == 1 and _ONE_WORD.fullmatch(jars[0]) else ""


def _is_tuned(environment: Mapping[str, str]) -> bool:
    """Whether the user has set options of the JVM: a second choice of a garbage collector would end it at once."""
    texts = [environment.get(name, "") for name in (*OF_JAVA, "_JAVA_OPTIONS", _LAUNCHER_OPTIONS)]
    for name in ("spark-defaults.conf", "spark-env.sh"):
        with suppress(OSError):
            texts.append((conf_folder(environment) / name).read_text())
    return any(_TUNING.search(text) for text in texts)


def java_for_spark() -> Java:
    """Return the Java for Spark. Raises RefusedError if no Java can start it."""
    try:
        return find_java(is_quiet=True)
    except JavaNotFoundError as error:
        raise RefusedError(
            str(error), hint="or run in this process, without Spark: stateferry run SPEC --no-spark"
        ) from error


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit started this process, and a JVM for it."""
    return "PYSPARK_GATEWAY_PORT" in environment
