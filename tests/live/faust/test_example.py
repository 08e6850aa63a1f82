"""The example of the docs, old to new, with a broker."""

import sys
from pathlib import Path
from subprocess import run

from tests.broker.broker import Broker

ROOT = Path(__file__).parents[3]


def test_the_totals_of_the_example_are_right(broker: Broker, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "examples.faust_totals"]
    options = ["--bootstrap", broker.bootstrap, "--folder", str(tmp_path / "state")]
    done = run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    old, dual, new, wrong = done.stdout.splitlines()
    assert old.startswith("old code: 10000 orders, ")
    assert "moved_by_converge=0" not in dual and "superseded=0" in dual
    assert new == "new code: 2000 orders, 2000 totals"
    assert wrong == "0 totals are wrong"
