"""The example of a streaming query whose state moves, as it is started by hand."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_total_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.spark_totals", "--folder", str(tmp_path / "totals")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "old keys  400 after batch 1" in done.stdout
    assert "old keys  0 after batch 3" in done.stdout
    assert "new code: 500 totals, 0 of them wrong" in done.stdout
