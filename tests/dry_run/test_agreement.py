"""`plan` and `run` agree beside an application and on full disks (tests/situations has other cases)."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import migrate
from migrate.batch.run_lock import one_run_at_a_time
from migrate.errors import MigrationError
from migrate.model.reports import RunReport
from migrate.spec.spec import Spec
from tests.batch.switch.support import StopAt, StoppedError, in_place_spec, make_application
from tests.dry_run.support import checks, failed, nothing_changes, planned
from tests.shared.locks import OPEN_STORE, another_process
from tests.support import make_store, numbered, raw_spec, small_disk


def raw(folder: Path, *, run: dict[str, Any] | None = None, **sections: Any) -> Spec:  # noqa: ANN401
    """A store of 4000 records in several chunks."""
    store = folder / "state"
    if not store.exists():
        make_store(store, numbered(4000))
    return raw_spec(folder, store, run={"chunk_size": 30_000, **(run or {})}, **sections)


def really(spec: Spec) -> tuple[RunReport | None, MigrationError | None]:
    try:
        return migrate.run(spec), None
    except MigrationError as error:
        return None, error


def test_beside_a_running_application_it_is_an_estimate_and_waits(tmp_path: Path) -> None:
    spec = raw(tmp_path)
    with another_process(OPEN_STORE, spec.source_path) as pid:
        with nothing_changes(tmp_path):
            report = planned(spec)
        _, error = really(spec)
    assert error is not None
    assert (report.verdict.exit_code, report.verdict.go, report.is_estimate) == (0, True, True)
    waiting = checks(report, "waiting")
    assert list(waiting) == ["source.stopped"]
    assert (waiting["source.stopped"].detail, waiting["source.stopped"].fix) == (error.message, error.hint)
    assert f"process {pid}" in waiting["source.stopped"].detail
    assert "once the application is stopped" in report.verdict.sentence
    assert report.verdict.next_step == "stop the application, stateferry run SPEC"


def test_without_a_snapshot_it_reports_what_taking_one_and_running_would_do(tmp_path: Path) -> None:
    spec = in_place_spec(tmp_path, make_application(tmp_path), run={"source": "snapshot"})
    report = planned(spec)
    assert really(spec)[1] is not None
    assert report.verdict.exit_code == 0
    assert report.verdict.next_step.index("snapshot SPEC") < report.verdict.next_step.index("run SPEC")
    migrate.snapshot(spec)
    assert planned(spec).verdict.exit_code == 0
    migrate.run(spec)


def test_a_read_only_disk_is_refused_by_both(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    with small_disk(tmp_path / "disk", "16m") as disk:
        spec = raw(disk)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with nothing_changes(disk):
            report = planned(spec)
        _, error = really(spec)
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    assert error is not None
    assert (report.verdict.exit_code, int(error.exit_code)) == (6, 6)
    assert (failed(report)["work_dir.writable"].detail, failed(report)["work_dir.writable"].fix) == (
        error.message,
        error.hint,
    )
    assert report.tried.converted == 4000


def test_a_work_dir_on_another_disk_is_refused_by_both_and_may_be_copied_to(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    with small_disk(tmp_path / "disk", "64m") as disk:
        spec = raw(tmp_path, work_dir=str(disk / "work"))
        report = planned(spec)
        _, error = really(spec)
        assert error is not None
        assert report.verdict.exit_code == error.exit_code == 6
        links = failed(report)["work_dir.links"]
        assert (links.detail, links.fix) == (error.message, error.hint)
        assert f"cannot hard-link {spec.source_path}" in error.message
        assert "work_dir on the file system of the state directory" in error.hint
        assert '"copy"' in error.hint
        copied = raw(tmp_path, work_dir=str(disk / "work"), run={"snapshot": "copy"})
        report = planned(copied)
        assert report.verdict.exit_code == 0
        assert report.cost.copied_bytes == sum(path.stat().st_size for path in copied.source_path.glob("*.sst"))
        assert report.cost.peak_bytes == report.cost.copied_bytes + report.cost.new_bytes
        migrate.run(copied)


def test_the_run_that_follows_is_not_kept_from_starting_by_a_dry_run(tmp_path: Path) -> None:
    """A dry run probes for a running migration; it must not hold the lock that a run needs to start."""
    spec = raw(tmp_path)
    with pytest.raises(StoppedError):
        migrate.run(spec, on_event=StopAt("plan.stored"))
    lock = spec.home / "run.lock"
    lock.touch()
    looks = subprocess.Popen(
        [sys.executable, "-c", LOOK_FOREVER, str(spec.home)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert looks.stdout is not None
    assert looks.stdout.readline() == "looking\n"
    refused = 0
    try:
        for _ in range(3000):
            try:
                with one_run_at_a_time(spec.home):
                    pass
            except MigrationError:
                refused += 1
    finally:
        looks.kill()
        looks.wait()
        looks.stdout.close()
    assert refused == 0


LOOK_FOREVER = """
import sys
from pathlib import Path
from migrate.batch.run_lock import pid_at_work
print("looking", flush=True)
while True:
    pid_at_work(Path(sys.argv[1]))
"""
