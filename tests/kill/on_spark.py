"""Runs by `spark-submit`, or over processes without Spark, killed with all their processes at any instant."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kill.scenarios import Kind, Scenario
from tests.kill.victim import Order, Outcome
from tests.spark.job import ROOT, SITE_PACKAGES, job_environment
from tests.spark.processes import kill_session
from tests.support import make_store, numbered

_COMMAND = ("--conf", "spark.ui.enabled=false", str(ROOT / "jobs/migrate_job.py"))
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

    master = "local[2]"
    patience = _PATIENCE_SECONDS

    def command(self, spec: str) -> list[str]:
        """Its words."""
        submit = str(Path(sys.executable).with_name("spark-submit"))
        return [submit, "--master", self.master, *_COMMAND, "--spec", spec, "--json"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Every job has ended with its order."""

    def fulfil(self, order: Order, *, log: Path) -> Outcome:
        """Killed after so many seconds, or left alone; `log` gets what it prints."""
        with self.started(order, log) as process:
            try:
                code = process.wait(self.patience if order.after is None else order.after)
            except subprocess.TimeoutExpired:
                return Outcome(killed=order.after is not None, code=-signal.SIGKILL, hung=order.after is None)
        return Outcome(killed=False, code=code)

    @contextmanager
    def started(self, order: Order, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """The job's process, which is killed with all of its own at the end of the block."""
        assert order.command == "run" and order.at is None
        environment = job_environment() | {"PYTHONPATH": f"{SITE_PACKAGES}:{ROOT}"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command(order.spec),
                cwd=log.parent,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill_session(process.pid)
            process.wait()


class Jobs(SparkSubmit):
    """Runs over two processes without Spark."""

    def command(self, spec: str) -> list[str]:
        """Its words."""
        return [sys.executable, "-m", "migrate", "run", spec, "--jobs", "2", "--json"]
