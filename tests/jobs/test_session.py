"""What a Spark session is set to, beside what its user set: no network for a local master, and a log of errors."""

import compileall
import logging
import os
import zipfile
from pathlib import Path
from unittest.mock import MagicMock
from zipimport import zipimporter

import pytest
from pyspark import SparkContext

from jobs import packing, session
from jobs.session import environment_of, set_level, settings, submit_options
from migrate.batch.log import SPARK_LOGGER

HERE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
SUBMITTED = {"PYSPARK_GATEWAY_PORT": "1"}
OPTIONS = "SPARK_SUBMIT_OPTS"
OURS = Path(session.__file__).with_name("log4j2.properties")
SPARKS = "jar:file:/jars/spark-common-utils-java_2.13-4.2.0.jar!/org/apache/spark/log4j2-defaults.properties"


@pytest.mark.parametrize("environment", [{}, SUBMITTED])
@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[4,2]"])
def test_a_local_master_listens_on_the_loopback_and_serves_no_pages(environment: dict[str, str], master: str) -> None:
    for found in (settings([], master, environment), settings([("spark.master", master)], None, environment)):
        assert found.items() >= {**HERE, "spark.master": master, "spark.ui.enabled": "false"}.items()


def test_without_a_master_it_is_a_local_one() -> None:
    assert settings([], None, {}).items() >= {**HERE, "spark.master": "local[*]"}.items()


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "k8s://https://host"])
def test_a_cluster_is_left_as_it_was_submitted(master: str) -> None:
    assert settings([("spark.master", master)], None, SUBMITTED) == {"spark.master": master}


def test_yarn_is_given_up_soon_unless_its_user_says_when() -> None:
    wait = "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms"
    assert settings([("spark.master", "yarn")], None, SUBMITTED)[wait] == "20000"
    assert wait not in settings([(wait, "900000")], "yarn", {})


@pytest.mark.parametrize("name", ["spark.driver.host", "spark.driver.bindAddress", "SPARK_LOCAL_IP"])
def test_an_address_that_the_user_names_holds(name: str) -> None:
    given, environment = ([(name, "10.1.2.3")], {}) if name.startswith("spark.") else ([], {name: "10.1.2.3"})
    assert settings(given, "local[2]", environment).keys().isdisjoint(HERE)


@pytest.mark.parametrize("environment", [{}, SUBMITTED])
def test_pages_that_the_user_asks_for_are_served(environment: dict[str, str]) -> None:
    assert "spark.ui.enabled" not in settings([("spark.ui.enabled", "true")], "local[2]", environment)


def test_workers_get_compiled_modules_unless_the_source_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ours"
    package.mkdir()
    for name in ("same", "changed"):
        (package / f"{name}.py").write_text("1")
    compileall.compile_dir(package, quiet=2)
    (package / "changed.py").write_text("1 + 1")
    monkeypatch.setattr(packing, "PLACE", tmp_path)
    monkeypatch.setattr(packing, "OUR_PACKAGES", ("ours",))
    modules = zipimporter(f"{packing.packed(tmp_path)}/ours")
    for name, is_compiled in (("same", True), ("changed", False)):
        code = modules.get_code(name)
        assert (code.co_filename == str(package / f"{name}.py")) == is_compiled
        assert Path(code.co_filename).name == f"{name}.py"


@pytest.mark.parametrize("given", [{}, {OPTIONS: "-Da=b"}])
def test_a_jvm_that_we_start_gets_our_configuration(given: dict[str, str]) -> None:
    assert submit_options(given, OURS).split() == [
        "-XX:TieredStopAtLevel=1",
        *given.values(),
        f"-Dlog4j2.configurationFile=file://{OURS}",
    ]


def test_our_configuration_can_be_read_while_a_jvm_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where our packages were imported from a zip."""
    with zipfile.ZipFile(tmp_path / "ours.zip", "w") as archive:
        archive.write(OURS, "jobs/log4j2.properties")
    seen = []

    def start() -> MagicMock:
        file = os.environ[OPTIONS].partition("-Dlog4j2.configurationFile=file:")[2]
        seen.append(Path(file).read_text(encoding="utf-8"))
        return MagicMock()

    for name in (OPTIONS, "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(session, "find_java_home", lambda: tmp_path)
    monkeypatch.setattr(session, "gateway", start)
    monkeypatch.setattr(session, "files", lambda package: zipfile.Path(tmp_path / "ours.zip") / package)
    with session.running_jvm(is_local=True):
        pass
    assert seen == [OURS.read_text(encoding="utf-8")]


def test_only_a_process_that_is_started_in_the_block_has_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "before")
    monkeypatch.delenv("B", raising=False)
    with environment_of({"A": "1", "B": "2"}):
        assert (os.environ["A"], os.environ["B"]) == ("1", "2")
    assert (os.environ["A"], "B" in os.environ) == ("before", False)


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
    given = value if name == OPTIONS else ""
    assert submit_options({name: value}, OURS) == f"-XX:TieredStopAtLevel=1 {given}"


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
    monkeypatch.setattr("jobs.session._IS_DEFAULT", "setDefault")
    set_level(jvm)
    given = [call.args for call in jvm.java.lang.System.setProperty.call_args_list]
    assert given == ([] if expected is None else [("stateferry.spark.log", expected)])
    assert context.setConfigLocation.called == (expected is not None)


def test_a_jvm_that_sorts_has_its_best_compiler() -> None:
    assert submit_options({}, OURS, is_sorting=True).split() == [f"-Dlog4j2.configurationFile={OURS.as_uri()}"]
