"""A dry run leaves everything as it was, whatever it finds, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import migrate
from migrate import plan
from migrate.dry_run.dry_run_report import DryRunReport
from migrate.model.events import Event
from migrate.spec.spec import Spec
from tests.batch.switch.support import StopAt, StoppedError, go_on, in_place_spec, make_application
from tests.dry_run.support import everything, nothing_changes
from tests.support import KEY_VALUE, flip_byte, kafka_spec, make_store, numbered, raw_spec

REPOSITORY = Path(__file__).parents[2]


def look(base: Path, spec: Spec) -> DryRunReport:
    """Twice, once at everything: nothing may have changed."""
    with nothing_changes(base):
        plan(spec, full=True)
        return plan(spec, sample=50)


def test_an_application_that_was_never_migrated(tmp_path: Path) -> None:
    application = make_application(tmp_path)
    spec = kafka_spec(tmp_path, application)

    assert look(tmp_path, spec).state == "not started"
    assert not spec.home.exists()
    assert not spec.home.parent.exists()


@pytest.mark.parametrize(
    "event", ["snapshot.taken", "plan.stored", "chunk.committed", "assemble.committed", "verify.committed"]
)
def test_a_migration_that_stopped_on_its_way(tmp_path: Path, event: str) -> None:
    spec = in_place_spec(tmp_path, make_application(tmp_path))
    with pytest.raises(StoppedError):
        migrate.run(spec, on_event=StopAt(event))

    report = look(tmp_path, spec)

    assert report.verdict.exit_code == 0
    migrate.run(spec)


STAGES: list[tuple[str, Callable[[Spec], object]]] = [
    ("verified", migrate.run),
    ("cut over", migrate.cutover),
    ("rolled back", migrate.rollback),
    ("cut over", migrate.cutover),
    ("finalized", migrate.finalize),
]


def test_every_stage_of_a_migration(tmp_path: Path) -> None:
    spec = in_place_spec(tmp_path, make_application(tmp_path))
    for state, step in STAGES:
        step(spec)
        report = look(tmp_path, spec)
        assert report.state == state
        assert report.verdict.exit_code == 0


def test_a_cutover_that_stopped_half_way(tmp_path: Path) -> None:
    spec = in_place_spec(tmp_path, make_application(tmp_path))
    migrate.run(spec)
    with pytest.raises(StoppedError):
        migrate.cutover(spec, on_event=StopAt("cutover.intended"))

    assert look(tmp_path, spec).verdict.exit_code == 6


def test_a_snapshot_that_waits_for_its_run(tmp_path: Path) -> None:
    application = make_application(tmp_path)
    spec = in_place_spec(tmp_path, application, run={"source": "snapshot"})
    look(tmp_path, spec)
    migrate.snapshot(spec)
    look(tmp_path, spec)
    go_on(application)
    assert look(tmp_path, spec).verdict.exit_code == 0


def test_what_cannot_be_migrated(tmp_path: Path) -> None:
    store = make_store(tmp_path / "state", numbered(20_000))
    spec = raw_spec(tmp_path, store)
    sst = next(store.glob("*.sst"))
    flip_byte(sst, sst.stat().st_size // 2)
    assert look(tmp_path, spec).verdict.exit_code == 3

    sst.write_bytes(sst.read_bytes()[:1000])
    assert look(tmp_path, spec).verdict.exit_code == 6

    (store / "CURRENT").unlink()
    assert look(tmp_path, spec).verdict.exit_code == 6
    assert look(tmp_path, raw_spec(tmp_path, tmp_path / "nowhere")).verdict.exit_code == 6
    assert (
        look(tmp_path, raw_spec(tmp_path, tmp_path, source={"format": KEY_VALUE, "store": "x"})).verdict.exit_code == 6
    )


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


def test_the_folder_for_temporary_files_may_be_anywhere_but_is_the_only_one_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", numbered(3000)))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    plan(spec, full=True)

    assert list(temporary.iterdir()) == []
