"""The JVM of Spark's driver: the one of spark-submit, or one of ours, which is made to start quickly."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from py4j.java_gateway import JVMView
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home

from jobs.class_archive import ClassArchive
from jobs.java import Java, JavaNotFoundError, find_java
from jobs.spark_log import OF_JAVA, SUBMIT_OPTIONS, conf_folder, extended, quiet_start
from migrate.errors import RefusedError

FOR_SHORT_WORK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What takes long in a run is done by Python: a better compiler and a parallel collector cost more than they give."""

_LAUNCHER_OPTIONS = "SPARK_LAUNCHER_OPTS"
_HOTSPOT = "Server VM"
_TUNING = re.compile(r"-X|--properties-file")
"""Of options of a JVM: the user has chosen how it runs."""
_ONE_WORD = re.compile(r"[\w./+-]+")
"""For the shell, which splits the launcher's options."""


@contextmanager
def running_jvm() -> Iterator[tuple[JVMView, bool]]:
    """The JVM that runs already, or one of ours (True), which ends with the block. Raises RefusedError without Java.

    After an error ours goes on until this process ends: the error asks it for its message.
    """
    if is_submitted() or SparkContext._gateway is not None:
        SparkContext._ensure_initialized()
        assert SparkContext._jvm is not None
        yield SparkContext._jvm, False
        return
    java = java_for_spark()
    os.environ["JAVA_HOME"] = str(java.home)
    archive = _archive(java)
    with ExitStack() as settings:
        settings.enter_context(quiet_start())
        if archive is not None:
            settings.enter_context(extended(SUBMIT_OPTIONS, f"{FOR_SHORT_WORK} {archive.options()}"))
            settings.enter_context(extended(_LAUNCHER_OPTIONS, f"{FOR_SHORT_WORK} {_launcher_jar_option()}"))
        SparkContext._ensure_initialized()
    assert SparkContext._jvm is not None
    yield SparkContext._jvm, True
    _end_jvm()
    if archive is not None:
        archive.make_in_background()


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
