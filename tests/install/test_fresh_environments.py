"""The wheel in a fresh virtual environment, to which the tests of this module add one extra after the other.

They install the extras as the messages say, by the name of what is already there.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from jobs.java import find_java_home
from tests.install.test_missing_packages import ROOT, STATE, check_base, walk
from tests.install.walk import SPEC

MOST_BYTES = 200 * 10**6
"""Of the base install, pip included."""
OTHER_PYSPARK = "4.1"
"""The oldest release of the range; the other tests run on the newest, and `make test-delta` on the one between."""


def call(*command: str | Path, **environment: str) -> str:
    unset = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK_", "SPARK_"))}
    variables = unset | {"SPARK_LOCAL_IP": "127.0.0.1"} | environment
    done = subprocess.run(command, cwd="/", env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("formats", "jobs", "migrate"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, copy)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of the one environment."""
    folder = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", folder)
    return folder / "bin"


@pytest.fixture(scope="module")
def base(fresh: Path, wheel: Path) -> None:
    install(fresh, str(wheel))


def install(fresh: Path, *requirements: str) -> None:
    call(fresh / "pip", "install", "--quiet", *requirements)
    call(fresh / "pip", "check")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    shutil.copytree(STATE, tmp_path / "state/orders-app")
    (tmp_path / "migration.toml").write_text(SPEC)
    return tmp_path / "migration.toml"


def check_report(printed: str) -> None:
    report: dict[str, Any] = json.loads(printed)
    assert report["state"] == "published"
    assert report["verification"]["mode"] == "full"
    assert report["totals"]["records_out"] > 1000


@pytest.mark.usefixtures("base")
def test_the_base_is_small_and_says_what_is_missing(fresh: Path, tmp_path: Path) -> None:
    assert sum(file.stat().st_size for file in fresh.parent.rglob("*") if file.is_file()) < MOST_BYTES
    check_base(walk(tmp_path, python=fresh / "python"))


@pytest.mark.usefixtures("base")
@pytest.mark.parametrize("how", [["--no-spark"], ["--jobs", "2"]], ids=" ".join)
def test_batch_runs_without_spark(how: list[str], fresh: Path, spec: Path) -> None:
    install(fresh, "stateferry[batch]")
    check_report(call(fresh / "stateferry", "run", spec, *how, "--json"))
    call(fresh / "stateferry", "report", spec, "--html", spec.with_name("report.html"))


@pytest.mark.usefixtures("base")
def test_batch_runs_on_a_spark_that_is_there(fresh: Path, wheel: Path, spec: Path) -> None:
    """As on a cluster: its own spark-submit and PySpark, a Python with our packages but without PySpark, and a zip."""
    install(fresh, "stateferry[batch]")
    script, packages = spec.with_name("job.py"), spec.with_name("stateferry.zip")
    shutil.copy(ROOT / "jobs/migrate_job.py", script)
    shutil.copy(wheel, packages)
    home = Path(str(pyspark.__file__)).parent
    job = call(
        *(home / "bin/spark-submit", "--master", "local[2]", "--py-files", packages, script, "--spec", spec, "--json"),
        JAVA_HOME=str(find_java_home()),
        SPARK_HOME=str(home),
        PYSPARK_PYTHON=str(fresh / "python"),
    )
    check_report(job)


@pytest.mark.usefixtures("base")
def test_spark_runs_on_the_other_pyspark(fresh: Path, spec: Path) -> None:
    install(fresh, "stateferry[spark]", f"pyspark=={OTHER_PYSPARK}.*")
    assert not pyspark.__version__.startswith(OTHER_PYSPARK)
    report = call(
        *(fresh / "stateferry", "run", spec, "--master", "local[2]", "--json"), JAVA_HOME=str(find_java_home())
    )
    check_report(report)
