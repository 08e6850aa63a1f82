"""The example of the docs, old to new, with a broker."""

import sys
from pathlib import Path
from subprocess import run

from tests.broker.broker import Broker

ROOT = Path(__file__).parents[3]


def test_its_totals_are_right(broker: Broker, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "examples.quix_totals"]
    options = ["--bootstrap", broker.bootstrap, "--folder", str(tmp_path / "state")]
    done = run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    old, dual, new = done.stdout.splitlines()
    assert old.startswith("old code: ")
    assert "moved_by_converge=0" not in dual and "superseded=0" in dual
    assert new == "new code: 2000 totals, 0 of them wrong"
