"""Runs by `spark-submit`, or over processes without Spark, killed with all their processes at any instant."""

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kill.scenarios import Kind, Scenario
from tests.kill.victim import Order, Outcome
from tests.spark.job import ROOT, SITE_PACKAGES, job_environment
from tests.spark.processes import kill_session
from tests.support import make_store, numbered

_COMMAND = ("--master", "local[2]", "--conf", "spark.ui.enabled=false", str(ROOT / "jobs/migrate_job.py"))
_PATIENCE_SECONDS = 240.0
_RECORDS = numbered(24_000)

ON_SPARK = Scenario(
    Kind(
        name="raw store on Spark",
        directory="store",
        stores=(".",),
        # A few batches to a chunk: a kill between two of them leaves a half-written SST.
        spec="""
[source]
format = "rocksdb.raw"
path = "store"
[conversion]
function = "tests.kill.conversion:reverse_slowly"
[run]
chunk_size = "96 KiB"
[target]
format = "rocksdb.raw"
""",
        make=lambda base: make_store(base / "store", _RECORDS),
        records={".": {"default": {key: value[::-1] for key, value in _RECORDS.items()}}},
    ),
    ("run",),
    publishes=True,
)


class SparkSubmit:
    """Submits a job for each order to `run`."""

    def command(self, spec: str) -> list[str]:
        """Its words."""
        return [str(Path(sys.executable).with_name("spark-submit")), *_COMMAND, "--spec", spec, "--json"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Every job has ended with its order."""

    def fulfil(self, order: Order, *, log: Path) -> Outcome:
        """Killed after so many seconds, or left alone; `log` gets what it prints."""
        assert order.command == "run" and order.at is None
        environment = job_environment() | {"PYTHONPATH": f"{SITE_PACKAGES}:{ROOT}"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command(str(order.spec)),
                cwd=log.parent,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            code = process.wait(_PATIENCE_SECONDS if order.after is None else order.after)
        except subprocess.TimeoutExpired:
            return Outcome(killed=order.after is not None, code=-signal.SIGKILL, hung=order.after is None)
        finally:
            kill_session(process.pid)
            process.wait()
        return Outcome(killed=False, code=code)


class Jobs(SparkSubmit):
    """Runs over two processes without Spark."""

    def command(self, spec: str) -> list[str]:
        """Its words."""
        return [sys.executable, "-m", "migrate", "run", spec, "--jobs", "2", "--json"]
