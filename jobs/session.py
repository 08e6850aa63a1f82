"""A Spark session that runs exactly the driver's code on its executors, installed there or not."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.java import JavaNotFoundError, find_java_home
from migrate.errors import RefusedError

PACKAGES = ("formats", "migrate", "jobs")
ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def spark_session(name: str, master: str | None, files: list[Path]) -> Iterator[SparkSession]:
    """A session with our packages and the user's `files` on every executor; it ends with the block.

    `master=None` leaves it to spark-submit, and to `local[*]` where that says nothing. Raises RefusedError where there
    is no Java.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _provide_java()
    builder = SparkSession.builder.appName(f"stateferry {name}")
    for key, value in _settings(master).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
            for file in (*_packages(Path(folder)), *files):
                session.sparkContext.addPyFile(str(file))
            yield session
    finally:
        session.stop()


def _settings(master: str | None) -> dict[str, str]:
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    submitted = os.environ.get("PYSPARK_GATEWAY_PORT") is not None  # spark-submit has a JVM running for us
    if master is not None:
        settings["spark.master"] = master
    elif not submitted:
        settings["spark.master"] = "local[*]"
    return settings


def _provide_java() -> None:
    if os.environ.get("PYSPARK_GATEWAY_PORT") is not None:
        return
    try:
        os.environ["JAVA_HOME"] = str(find_java_home())
    except JavaNotFoundError as error:
        raise RefusedError(
            str(error), hint="or run in this process, without Spark: stateferry run SPEC --no-spark"
        ) from error


def _packages(folder: Path) -> Iterator[Path]:
    """One zip of our packages, made from where they were imported; none where they came in a zip already."""
    if ROOT.suffix in (".zip", ".whl") or not ROOT.is_dir():
        return
    archive = folder / "stateferry.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for package in PACKAGES:
            for file in sorted((ROOT / package).rglob("*.py")):
                out.write(file, file.relative_to(ROOT))
    yield archive
