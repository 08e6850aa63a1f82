"""Hosts that Spark dislikes: a name that nothing resolves, a SPARK_HOME that is gone."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark import SparkContext

from jobs import session
from migrate.errors import RefusedError
from tests.support import make_store, spec_file

COMMAND = Path(sys.executable).with_name("stateferry")
NAME = "no-such-host-zz9"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    make_store(tmp_path / "old", {b"k%d" % number: b"v" for number in range(50)})
    return spec_file(tmp_path / "m.toml")


def _on_a_nameless_host(*arguments: object) -> subprocess.CompletedProcess[str]:
    if subprocess.run(["unshare", "-u", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this process may not name a host of its own")
    without = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_LOCAL_")}
    command = ["unshare", "-u", "sh", "-c", f'hostname {NAME}; exec "$@"', "_", str(COMMAND), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=without, timeout=300, check=False)


def test_a_local_master_needs_no_name_of_the_host(spec: Path) -> None:
    done = _on_a_nameless_host("run", spec, "--master", "local[1]")
    assert done.returncode == 0, done.stderr
    assert (spec.parent / "new/CURRENT").exists()


def test_a_master_that_needs_it_is_refused_with_the_name(spec: Path) -> None:
    done = _on_a_nameless_host("run", spec, "--master", "local-cluster[1,1,1024]")
    assert (done.returncode, "this is a bug" in done.stderr) == (6, False)
    assert f"nothing resolves the name of this host, {NAME}" in done.stderr
    assert "set SPARK_LOCAL_HOSTNAME or SPARK_LOCAL_IP" in done.stderr


def test_only_the_jvm_is_told_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loopback is chosen where the environment names no host."""
    seen = []
    for name in ("SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", None)

    def start() -> None:
        seen.append(os.environ.get("SPARK_LOCAL_HOSTNAME"))
        SparkContext._gateway = MagicMock()

    monkeypatch.setattr(SparkContext, "_ensure_initialized", start)
    for is_local in (True, False):
        with session.running_jvm(is_local=is_local):
            assert "SPARK_LOCAL_HOSTNAME" not in os.environ
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.1.2.3")
    with session.running_jvm(is_local=True):
        pass
    assert seen == ["localhost", None, None]


@pytest.mark.parametrize("verb", ["run", "doctor"])
def test_a_spark_home_that_is_gone_is_named(verb: str, spec: Path) -> None:
    done = subprocess.run(
        [COMMAND, verb, spec, "--master", "local[1]"],
        capture_output=True,
        text=True,
        env={**os.environ, "SPARK_HOME": "/opt/nothing"},
        timeout=300,
        check=False,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "this is a bug" in said) == (6, False)
    assert "SPARK_HOME is /opt/nothing, where bin/spark-submit is missing" in said
    assert "unset SPARK_HOME" in said


def test_an_error_on_a_host_with_a_name_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    with pytest.raises(ValueError, match="other"), session.host_name_explained():
        raise ValueError("other")
    monkeypatch.setattr(socket, "gethostname", lambda: f"{NAME}.invalid")
    with pytest.raises(RefusedError, match=NAME), session.host_name_explained():
        raise ValueError("other")
