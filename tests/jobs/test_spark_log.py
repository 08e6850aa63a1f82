"""Spark's own log: errors alone, unless the user has configured it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from jobs.spark_log import quiet_start, set_level
from migrate.batch.log import SPARK_LOGGER

OPTIONS = "SPARK_SUBMIT_OPTS"
SPARKS = "jar:file:/jars/spark-common-utils-java_2.13-4.2.0.jar!/org/apache/spark/log4j2-defaults.properties"


def test_a_jvm_that_we_start_gets_our_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "-Da=b"):
        monkeypatch.delenv(OPTIONS, raising=False) if before is None else monkeypatch.setenv(OPTIONS, before)
        with quiet_start():
            *others, option = os.environ[OPTIONS].split()
            file = Path(option.removeprefix("-Dlog4j2.configurationFile=file:"))
            assert "rootLogger.level" in file.read_text()
            assert others == ([] if before is None else [before])
        assert os.environ.get(OPTIONS) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (OPTIONS, "-Dlog4j2.configurationFile=mine"),
        ("PYSPARK_SUBMIT_ARGS", "--driver-java-options -Dlog4j.configurationFile=mine pyspark-shell"),
        ("LOG4J_CONFIGURATION_FILE", "/etc/log4j2.xml"),
        ("SPARK_CONF_DIR", "conf"),
    ],
)
def test_a_user_who_has_configured_log4j_is_left_alone(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/log4j2.properties").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    before = os.environ.get(OPTIONS)
    with quiet_start():
        assert os.environ.get(OPTIONS) == before


@pytest.mark.parametrize(
    ("level", "location", "expected"),
    [
        (logging.NOTSET, SPARKS, "error"),
        (logging.WARNING, "/work/jobs/log4j2.properties", "warn"),
        (logging.INFO, None, "info"),
        (logging.INFO, "/etc/spark/conf/log4j2.properties", None),
    ],
)
def test_a_jvm_that_runs_already_is_set_to_the_loggers_level(
    level: int, location: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(SPARK_LOGGER), "level", level)
    jvm = MagicMock()
    context = jvm.org.apache.logging.log4j.LogManager.getContext.return_value
    context.getConfiguration.return_value.getConfigurationSource.return_value.getLocation.return_value = location
    monkeypatch.setattr("jobs.spark_log._IS_DEFAULT", "setDefault")

    set_level(jvm)

    given = [call.args for call in jvm.java.lang.System.setProperty.call_args_list]
    assert given == ([] if expected is None else [("stateferry.spark.log", expected)])
    assert context.setConfigLocation.called == (expected is not None)
