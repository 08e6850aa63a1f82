"""Commands on Spark as users run them: `spark-submit`, uninstalled, from another directory, or the command line."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.java import find_java_home

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / "tests/fixtures/kafka-streams-4.0.1/orders-app"
SITE_PACKAGES = sysconfig.get_path("purelib")
BOTH = os.pathsep.join([str(ROOT), SITE_PACKAGES])
"""A PYTHONPATH with our packages and those that ours need."""
BASE_PYTHON = str(Path(sys.executable).resolve())
CLI = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); from migrate.cli import main; main()"]
SPARK_SUBMIT = str(Path(sys.executable).with_name("spark-submit"))
SCRIPT = str(ROOT / "jobs/migrate_job.py")


@dataclass(frozen=True)
class Job:
    """What a job did; spark-submit sends a script's standard error to its standard output."""

    exit_code: int
    output: str
    errors: str
    """Both."""

    @property
    def report(self) -> dict[str, Any]:
        return dict(json.loads(self.output))

    @property
    def message(self) -> str:
        """What it says went wrong, and what to do: in the document too, which is all there is under spark-submit."""
        error = self.report["error"]
        assert error["exit_code"] == self.exit_code
        return f"{error['message']}\n  next: {error['next']}"


def job_environment() -> dict[str, str]:
    """Dependencies by PYTHONPATH and the base Python: the editable install of this project is not on the path."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return environment | {
        "JAVA_HOME": str(find_java_home()),
        "PYTHONPATH": SITE_PACKAGES,
        "PYSPARK_PYTHON": BASE_PYTHON,
        "PYSPARK_DRIVER_PYTHON": BASE_PYTHON,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def completed(command: Sequence[str | Path], folder: Path, **environment: str) -> Job:
    """What a command did in that folder."""
    settings = job_environment() | environment
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=300)
    return Job(done.returncode, done.stdout, done.stdout + done.stderr)


def write_spec(folder: Path, extra: str = "", *, chunk_size: str = "64 KiB") -> Path:
    """A spec over a copy of the real state directory; `extra` is more TOML."""
    if not (folder / "state").exists():
        shutil.copytree(STATE, folder / "state/orders-app")
    file = folder / "migration.toml"
    file.write_text(
        f"""
        name = "orders"
        work_dir = "work"
        [source]
        format = "kafka-streams.key-value"
        path = "state/orders-app"
        stores = ["orders", "refunds"]
        [target]
        format = "kafka-streams.timestamped-key-value"
        path = "new/orders-app"
        [run]
        chunk_size = "{chunk_size}"
        {extra}
        """
    )
    return file


def bare_python(folder: Path) -> Path:
    """A Python that finds PySpark and nothing else."""
    site, python = folder / "bare-site", folder / "bare-python"
    site.mkdir()
    for name in ("pyspark", "py4j"):
        (site / name).symlink_to(Path(SITE_PACKAGES) / name)
    python.write_text(f'#!/bin/sh\nunset PYTHONPATH\nPYTHONPATH="{site}" exec {BASE_PYTHON} -s "$@"\n')
    python.chmod(0o755)
    return python
