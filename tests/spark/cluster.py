"""A standalone master with workers, each bound to an address of the loopback interface."""

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.spark.job import job_environment

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin/spark-class"
_PATIENCE = 60


@contextmanager
def standalone_cluster(
    folder: Path, hosts: Sequence[str] = ("127.0.0.1",), *, cores: int = 2, prefix: Sequence[str] = ()
) -> Iterator[str]:
    """The master's URL, once every worker is registered; logs and the workers' folders go to `folder`.

    `prefix`: a command that starts the last worker's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as processes:
        log = folder / "master.log"
        processes.enter_context(_daemon("master.Master", ["--host", "127.0.0.1"], log))
        url = _wait_for(log, r"(spark://127\.0\.0\.1:\d+)")
        logs = [folder / f"worker-{host}.log" for host in hosts]
        for host, log in zip(hosts, logs, strict=True):
            limits = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(folder / f"work-{host}")]
            before = prefix if host == hosts[-1] else ()
            processes.enter_context(_daemon("worker.Worker", ["--host", host, *limits, url], log, host, before))
        for log in logs:
            _wait_for(log, "(Successfully registered)")
        yield url


@contextmanager
def _daemon(
    kind: str, arguments: list[str], log: Path, host: str = "127.0.0.1", prefix: Sequence[str] = ()
) -> Iterator[None]:
    ports = ["--port", "0", "--webui-port", "0"]
    command = [*prefix, str(_SPARK_CLASS), f"org.apache.spark.deploy.{kind}", *ports, *arguments]
    environment = job_environment() | {"SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": host}
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=_PATIENCE)


def _wait_for(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if log.exists() and (found := re.search(pattern, log.read_text(errors="replace"))):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{pattern} is not in {log}: {log.read_text(errors='replace')}")
