"""`make demo`, README's first command: it is killed half-way, resumes, publishes, and says how fast the engines are."""

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from examples.demo.engines import show_engines
from migrate.engine.engines import ENGINES
from tests.support import FIXTURE, UNKNOWN_TIMESTAMP, read_families

ROOT = Path(__file__).parents[2]
PACKAGES = ("formats", "migrate", "jobs", "examples")
IGNORED = shutil.ignore_patterns("__pycache__")
NOT_OURS = re.compile(r"\b(WARNING|WARN|INFO|log4j profile|log level|NOTE)\b")
"""In what Java, log4j and Spark print when they start."""
OF_JAVA = "WARNING: Using incubator modules: jdk.incubator.vector"
STORES = [f"0_{task}/rocksdb/{store}" for task in range(3) for store in ("orders", "refunds")]


def test_it_says_how_fast_each_engine_is(tmp_path: Path) -> None:
    said = io.StringIO()
    show_engines(Console(file=said, width=120), tmp_path / "engines")
    rates = r", [\d,]{6,} records/s; full verification [\d,]{6,} records/s"
    native, portable = said.getvalue().splitlines()[1:]
    assert re.fullmatch(f"  engine: {ENGINES[0].name}{rates}", native)
    assert re.fullmatch(rf'  engine: portable \(\[run\] engine = "portable"\){rates}', portable)


def test_the_demo_survives_its_own_kill(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name in (*PACKAGES, FIXTURE.relative_to(ROOT)):
        shutil.copytree(ROOT / name, copy / name, ignore=IGNORED)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    (copy / ".venv").symlink_to(sys.prefix)
    demo = "stty cols 120; exec make demo --old-file=.venv/.stamp"  # what is installed is not installed again
    on_a_terminal = f"import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(['sh', '-c', '{demo}'])))"
    done = subprocess.run(
        [sys.executable, "-c", on_a_terminal],
        stdin=subprocess.DEVNULL,
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    killed = re.search(r"killed \(SIGKILL\), with (\d+) of (\d+) chunks done; the same command again", done.stdout)
    assert killed is not None, done.stdout
    assert 0 < int(killed[1]) < int(killed[2])
    assert "the first records of 0_0/rocksdb/orders, before and after" in done.stdout
    assert re.search(r"engine: \w+, [\d,]+ records/s", done.stdout)
    assert "━━" in done.stdout, "a progress bar"
    shown = [line.strip() for line in done.stdout.splitlines()]
    assert [line for line in shown if NOT_OURS.search(line) and line != OF_JAVA] == []
    for path in STORES:
        old = read_families(copy / "build/demo/state/orders-app" / path)["default"]
        new = read_families(copy / "build/demo/state-v2/orders-app" / path)["keyValueWithTimestamp"]
        assert new == {key: UNKNOWN_TIMESTAMP + value for key, value in old.items()}
