"""Runs the Spark job as users do: `spark-submit`, uninstalled, from another directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobs.java import find_java_home

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / "tests/fixtures/kafka-streams-4.0.1/orders-app"
SITE_PACKAGES = sysconfig.get_path("purelib")
BASE_PYTHON = str(Path(sys.executable).resolve())


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


@pytest.fixture
def submit(tmp_path: Path) -> Callable[..., Job]:
    """`submit(spec, master, *arguments)` from an empty directory; `options` are the job's."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(spec: Path, master: str, *arguments: str, options: tuple[str, ...] = ()) -> Job:
        spark_submit = Path(sys.executable).with_name("spark-submit")
        job: list[str | Path] = [ROOT / "jobs/migrate_job.py", "--spec", spec, "--json", *options]
        command = [spark_submit, "--master", master, *arguments, *job]
        done = subprocess.run(
            command, cwd=elsewhere, env=job_environment(), capture_output=True, text=True, check=False, timeout=300
        )
        return Job(done.returncode, done.stdout, done.stdout + done.stderr)

    return run


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., Path]:
    """Writes a spec over a copy of the real state directory; `extra` is more TOML."""

    def write(extra: str = "", *, chunk_size: str = "64 KiB") -> Path:
        if not (tmp_path / "state").exists():
            shutil.copytree(STATE, tmp_path / "state/orders-app")
        file = tmp_path / "migration.toml"
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

    return write
