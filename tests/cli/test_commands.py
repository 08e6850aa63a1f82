"""The commands as a user meets them: help, text, JSON, exit codes, progress."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from migrate.cli.main import main
from tests.cli.test_options import on_terminal
from tests.shared.commands import PLAIN, stateferry
from tests.support import KEY_VALUE, TIMESTAMPED, spec_file

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / "tests/fixtures/kafka-streams-4.0.1/orders-app"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    shutil.copytree(STATE, tmp_path / "state/orders-app")
    source = {"format": KEY_VALUE, "path": "state/orders-app", "store": "orders"}
    target = {"format": TIMESTAMPED, "path": "new/orders-app"}
    return spec_file(
        tmp_path / "migration.toml", name="orders", source=source, target=target, run={"chunk_size": "64 KiB"}
    )


def test_run_status_verify_and_inspect_tell_one_story(spec: Path) -> None:
    before = json.loads(stateferry("status", spec, "--json").stdout)
    assert before["state"] == "not started"
    ran = stateferry("run", spec, "--no-spark", "--json", "--quiet")
    assert (ran.returncode, ran.stderr) == (0, "")
    report = json.loads(ran.stdout)
    assert report["totals"]["records_in"] == report["totals"]["records_out"] == 6000
    assert report["verification"] == report["verification"] | {"mode": "full", "records": 6000, "missing": 0}
    status = json.loads(stateferry("status", spec, "--json").stdout)
    assert (status["state"], status["chunks_left"], status["share_done"]) == ("published", 0, 1.0)
    assert status["totals"] == report["totals"]
    for mode in ("full", "digest"):
        checked = stateferry("verify", spec, "--no-spark", "--mode", mode, "--json", "--quiet")
        assert checked.returncode == 0, checked.stderr
        assert json.loads(checked.stdout)["verification"]["records"] == 6000
    inspected = stateferry("inspect", report["published"], "--digest", "--json")
    families = {
        (database["path"], family["name"]): family["records"]
        for database in json.loads(inspected.stdout)["databases"]
        for family in database["families"]
    }
    assert families["0_0/rocksdb/orders", "keyValueWithTimestamp"] == 2022
    assert families["0_0/rocksdb/orders", "default"] == 0
    assert families["0_0/rocksdb/refunds", "default"] == 185


def test_text_names_what_matters(spec: Path) -> None:
    ran = stateferry("run", spec, "--no-spark")
    assert ran.returncode == 0
    for fact in (
        "chunks",
        "6,000 read, 6,000 written",
        "full: 6,000 records equal",
        "new/orders-app",
        "changelog",
        "next",
    ):
        assert fact in ran.stdout
    for sentence in ("snapshot taken", "chunks to rewrite", "rewrite 100%", "records", "left", "verifying (full)"):
        assert sentence in ran.stderr
    again = stateferry("run", spec, "--no-spark")
    assert again.returncode == 0
    assert "already migrated" in again.stdout
    assert "published" in stateferry("status", spec).stdout
    assert "keyValueWithTimestamp" in stateferry("inspect", spec.parent / "new/orders-app").stdout


def test_a_terminal_gets_bars(spec: Path) -> None:
    shown = on_terminal("run", spec, "--no-spark")
    assert "rewrite" in shown
    assert "100%" in shown


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_help_with_an_example(name: str) -> None:
    command = main.commands[name]
    assert isinstance(command, click.Command)
    assert command.help is not None
    assert f"stateferry {name}" in command.help
    assert all(not isinstance(option, click.Option) or option.help for option in command.params)


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "migrate", "formats"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=PLAIN)
    assert done.returncode == 0, done.stderr
    assert done.stdout == stateferry("formats").stdout
