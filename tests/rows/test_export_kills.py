"""A short form of `python -m tests.rows.export_kills`, and what a signal that can be caught does."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from migrate import export, load_spec
from tests.rows.export_kills import Campaign
from tests.rows.exported import rows
from tests.support import make_store, numbered, spec_file

IN_CI, LONG = 6, 40


@pytest.mark.parametrize("kills, jobs, engine", [(IN_CI, 1, "auto"), (LONG, 2, "auto"), (LONG, 2, "portable")])
def test_exports_survive_whatever_kills_them(tmp_path: Path, kills: int, jobs: int, engine: str) -> None:
    campaign = Campaign(tmp_path, kills, seed=kills, jobs=jobs, engine=engine)
    campaign.run()
    assert campaign.killed >= kills
    assert kills < LONG or campaign.kept > 0  # a few kills may all come before the first range is finished


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_export_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    records = numbered(300_000, value_size=100)
    make_store(tmp_path / "old", records)
    file, table = spec_file(tmp_path / "migration.toml", run={"chunk_size": "64 KiB"}), tmp_path / "table"
    command = [sys.executable, "-m", "migrate", "export", str(file), "--to", str(table), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len([*table.rglob("*.parquet")]) < 3:
        time.sleep(0.001)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, "run the same command again to resume" in errors) == (5, True), errors
    assert rows(table) == []
    assert export(load_spec(file), table).kept_ranges > 0
    assert {row["key"]: row["value"] for row in rows(table)} == records
