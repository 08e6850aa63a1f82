"""Spark starts from an archive of its classes, and without one, and a user sees no difference."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from pathlib import Path

from tests.spark.conftest import ROOT, job_environment

SUM = """
from pathlib import Path
from pyspark import SparkContext
from jobs.session import spark_context
with spark_context("sum", "local[1]", []) as context:
    pid = context._jvm.java.lang.ProcessHandle.current().pid()
    is_used = "/stateferry/spark-" in Path(f"/proc/{pid}/maps").read_text()
    print(sum(context.parallelize(range(10), 1).map(abs).collect()), is_used)
print(SparkContext._gateway, SparkContext._active_spark_context)
"""


def said_by_spark(cache: Path) -> str:
    environment = job_environment() | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    environment |= {"PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", SUM]
    done = subprocess.run(command, env=environment, cwd=cache, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_first_start_leaves_an_archive_and_a_torn_one_is_not_used(tmp_path: Path) -> None:
    cache = tmp_path / "it's a cache"
    cache.mkdir()
    without, with_archive = (f"45 {is_used}\nNone None\n" for is_used in (False, True))
    assert said_by_spark(cache) == without
    deadline = time.monotonic() + 300
    while not (made := list(cache.glob("stateferry/*.jsa"))) and time.monotonic() < deadline:
        time.sleep(0.2)
    (archive,) = made
    assert said_by_spark(cache) == with_archive

    content = archive.read_bytes()
    archive.unlink()
    archive.write_bytes(content[: len(content) // 2])
    (lock,) = cache.glob("stateferry/*.lock")
    with lock.open("w") as held:  # none is made again
        fcntl.flock(held, fcntl.LOCK_EX)
        assert said_by_spark(cache) == without
