"""Spark's own log: errors alone, unless the user has configured log4j or asks for more, so that progress is seen."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError
from pyspark.find_spark_home import _find_spark_home

from migrate.batch.log import SPARK_LOGGER

_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warn"}
SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with options of the JVM that Spark starts."""
OF_JAVA = (
    SUBMIT_OPTIONS,
    "PYSPARK_SUBMIT_ARGS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LOG4J_CONFIGURATION_FILE",
)
_LOGGING = "org.apache.spark.internal.Logging"
_IS_DEFAULT = f"{_LOGGING.replace('.', '$')}$$defaultSparkLog4jConfig_$eq"
_DEFAULTS = ("org/apache/spark/log4j2-", "jobs/log4j2.properties")
"""In the location of Spark's own configuration, and in that of ours."""


@contextmanager
def quiet_start() -> Iterator[None]:
    """A JVM that is started in the context gets our configuration of log4j where the user has none."""
    if _is_configured(os.environ):
        yield
        return
    configuration = as_file(files("jobs") / "log4j2.properties")
    with configuration as file, extended(SUBMIT_OPTIONS, f"-Dlog4j2.configurationFile={file.as_uri()}"):
        yield


@contextmanager
def extended(name: str, words: str) -> Iterator[None]:
    """A variable of the environment has more words in the context."""
    before = os.environ.get(name)
    os.environ[name] = f"{before or ''} {words}".strip()
    try:
        yield
    finally:
        os.environ.pop(name)
        os.environ |= {} if before is None else {name: before}


def _is_configured(environment: Mapping[str, str]) -> bool:
    """Whether the user has configured log4j for a JVM that Spark starts."""
    named = any("log4j" in environment.get(name, "").lower() for name in OF_JAVA)
    return named or any(conf_folder(environment).glob("log4j2.*"))


def conf_folder(environment: Mapping[str, str]) -> Path:
    """The folder of Spark's configuration files."""
    return Path(environment.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf"))


def set_level(jvm: JVMView) -> None:
    """Configure the log of a JVM that runs already, unless the user did."""
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
