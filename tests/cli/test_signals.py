"""SIGINT and SIGTERM, sent to the real command: what runs is finished, a second signal ends it, a rerun resumes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from migrate.model.ledger_row import Step
from migrate.spec.spec import load_spec
from tests.shared.following import COMMAND, RECORDS, held_run, make_migration
from tests.support import read_family, read_ledger


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return make_migration(tmp_path)


def _chunk_rows(spec: Path) -> int:
    return sum(row.step is Step.CHUNK for row in read_ledger(load_spec(spec).home))


def _finish(spec: Path) -> None:
    (spec.parent / "hold").unlink(missing_ok=True)
    done = subprocess.run([*COMMAND, "run", str(spec), "--no-spark"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert read_family(spec.parent / "new") == RECORDS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_runs_is_finished_and_nothing_new_begins(number: signal.Signals, spec: Path) -> None:
    with held_run(spec) as run:
        before = _chunk_rows(spec)
        run.send_signal(number)
        assert run.stderr is not None
        assert any("stop requested" in line for line in run.stderr)
        (spec.parent / "hold").unlink()
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 5
    assert "chunks left" in errors
    assert "run the same command again to resume" in errors
    assert _chunk_rows(spec) == before + 1
    _finish(spec)


def test_a_second_signal_ends_it_at_once(spec: Path) -> None:
    with held_run(spec) as run:
        before = _chunk_rows(spec)
        run.send_signal(signal.SIGTERM)
        assert run.stderr is not None
        assert any("stop requested" in line for line in run.stderr)
        while run.poll() is None:  # one that comes within half a second counts as the first one's echo
            run.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        errors = run.stderr.read()
    assert run.returncode == 5
    assert "run the same command again to resume" in errors
    assert _chunk_rows(spec) == before
    _finish(spec)
    home = load_spec(spec).home
    named = {row.facts["attempt"] for row in read_ledger(home) if row.step is Step.CHUNK}
    left = {file.name.partition(".")[0] for file in (home / "chunks").rglob("*") if file.is_file()}
    assert left <= named, "unfinished files of the killed run are removed"


def test_a_killed_cut_over_command_is_not_stopped_half_way_by_a_signal(tmp_path: Path) -> None:
    """It takes a second and is finished: a signal during it changes nothing but that it is noticed."""
    script = (
        "import os, signal\n"
        "from migrate.batch.stop import Stop\n"
        "from migrate.cli.command import stopping_on_signals\n"
        "with stopping_on_signals(Stop(), patience=None):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('went on')\n"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "went on\nTrue\n")
