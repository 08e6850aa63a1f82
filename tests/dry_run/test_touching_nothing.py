"""A dry run leaves everything as it was, whatever it finds, however it ends."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import migrate
from migrate import plan
from migrate.dry_run.dry_run_report import DryRunReport
from migrate.model.events import Event
from migrate.spec.spec import Spec
from tests.batch.switch.support import StoppedError, go_on, in_place_spec, make_application
from tests.dry_run.support import everything, nothing_changes
from tests.support import make_store, numbered, raw_spec

REPOSITORY = Path(__file__).parents[2]


def look(base: Path, spec: Spec) -> DryRunReport:
    """Twice, once at everything: nothing may have changed."""
    with nothing_changes(base):
        plan(spec, full=True)
        return plan(spec, sample=50)


def test_a_snapshot_that_waits_for_its_run(tmp_path: Path) -> None:
    application = make_application(tmp_path)
    spec = in_place_spec(tmp_path, application, run={"source": "snapshot"})
    look(tmp_path, spec)
    migrate.snapshot(spec)
    look(tmp_path, spec)
    go_on(application)
    assert look(tmp_path, spec).verdict.exit_code == 0


def test_a_listener_that_raises(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", numbered(3000)))
    seen = []

    def stop(event: Event) -> None:
        seen.append(event.name)
        if event.name == "dry-run.progressed":
            raise StoppedError

    with nothing_changes(tmp_path), pytest.raises(StoppedError):
        plan(spec, full=True, on_event=stop)
    assert seen == ["dry-run.started", "dry-run.progressed"]


PROGRAM = """
import signal, sys
from migrate import load_spec, plan
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
plan(load_spec(sys.argv[1]), full=True)
"""
FUNCTION = """
import time
def convert(record):
    print("converting", flush=True)
    time.sleep(600)
    return record
"""


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    """In the middle of a function that takes forever, while a store is open."""
    place = tmp_path / "place"
    make_store(place / "state", numbered(100))
    (place / "conversion.py").write_text(FUNCTION)
    spec = place / "spec.toml"
    spec.write_text(
        'name = "x"\nwork_dir = "work"\n[source]\nformat = "rocksdb.raw"\npath = "state"\n'
        '[target]\nformat = "rocksdb.raw"\npath = "new"\n[conversion]\nfunction = "conversion:convert"\n'
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = everything(place)
    with subprocess.Popen(
        [sys.executable, "-B", "-c", PROGRAM, spec],
        cwd=REPOSITORY,
        env={"TMPDIR": str(temporary), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "converting\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) != 0
        finally:
            process.kill()
    assert list(temporary.iterdir()) == []
    assert everything(place) == before
