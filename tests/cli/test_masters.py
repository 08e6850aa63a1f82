"""Spark masters that cannot be used are refused before a JVM starts: none could, as there is no Java."""

from pathlib import Path

import pytest

from migrate import RefusedError, SpecError, load_spec, run
from migrate.batch.chunk.executor import check_master
from tests.shared.commands import stateferry
from tests.support import raises

VERBS = ("run", "replay", "verify", "catch-up", "doctor")
MALFORMED = (
    *("", "local[2", "local[x]", "local[0]", "local[]", "local[2] ", "locale", "local-cluster[2,1]", "LOCAL[*]"),
    *("spark:/x", "spark://", "spark://host", "spark://host:x", "spark://:7077", "spark://host:7077,", "sprak://a:1"),
    *("k8s//", "k8s://", "k8s:///x", "yarn-client", "yarn://host", "http://host:8080", "sc://host"),
)
WELL_FORMED = (
    *("local", "local[1]", "local[16]", "local[*]", "local[4,2]", "local[ *,3]".replace(" ", ""), "local[4, 2]"),
    *("local-cluster[2,1,1024]", "local-cluster[ 2, 1, 1024 ]", "spark://host:7077", "spark://10.0.0.1:7077"),
    *("spark://a:7077,b:7077", "spark://[::1]:7077", "k8s://https://host:6443", "k8s://host", "k8s://http://h:1/x"),
)


@pytest.fixture(autouse=True)
def _no_java_and_no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")


@pytest.mark.parametrize("master", WELL_FORMED)
def test_what_spark_takes_is_taken(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", MALFORMED)
def test_what_spark_does_not_take_is_a_usage_error(master: str, spec: Path) -> None:
    with pytest.raises(SpecError, match="is no Spark master"):
        run(load_spec(spec), master=master)
    assert not (spec.parent / "work").exists()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_takes_one_says_so(verb: str, spec: Path) -> None:
    done = stateferry(verb, spec, "--master", "local[2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "stateferry: 'local[2' is no Spark master\n  next: for example local[4], " in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_yarn_needs_a_configuration(verb: str, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = stateferry(verb, spec, "--master", "yarn")
    assert (done.returncode, done.stdout) == (6, "")
    assert "next: set HADOOP_CONF_DIR or YARN_CONF_DIR" in done.stderr
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        with monkeypatch.context() as context:
            context.setenv(name, "/etc/hadoop/conf")
            check_master("yarn")
    raises(RefusedError, "", check_master, "yarn")
