"""What the dry run says will happen is what a run does: the exit code, the words, the chunks, the counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import migrate
from migrate import plan
from migrate.dry_run.report import DryRunReport
from migrate.errors import MigrationError
from migrate.plan_model import load_plan
from migrate.report_model import RunReport
from migrate.spec import Spec
from migrate.stores.lock import one_run_at_a_time
from tests.bad_input.test_locks import OPEN_STORE, another_process
from tests.dry_run.folders import FOLDER_SCENES
from tests.dry_run.going_live import GOING_LIVE_SCENES
from tests.dry_run.scenes import SCENES, Arrange, raw, stopped_at
from tests.dry_run.segmented import SEGMENT_SCENES
from tests.dry_run.support import checks, failed, nothing_changes
from tests.support import small_disk
from tests.switching.support import in_place_spec, make_application

ALL_SCENES = [*SCENES, *SEGMENT_SCENES, *GOING_LIVE_SCENES, *FOLDER_SCENES]
SAYS_ITS_OWN = {"conversion.rejects", "conversion.keys"}
"""What a run meets record by record, and says of the first one."""


@pytest.mark.parametrize("full", [False, True], ids=["sample", "full"])
@pytest.mark.parametrize("arrange", ALL_SCENES, ids=[scene.__name__ for scene in ALL_SCENES])
def test_a_dry_run_ends_as_a_run_does(arrange: Arrange, tmp_path: Path, full: bool) -> None:
    scene = arrange(tmp_path)
    with scene.around:
        with nothing_changes(tmp_path):
            report = plan(scene.spec, full=full)
        done, error = really(scene.spec)

    assert (0 if error is None else int(error.exit_code)) == scene.code, error
    assert report.verdict.exit_code == scene.code, report.verdict
    assert report.verdict.go == (scene.code == 0)
    assert not report.is_estimate
    if error is not None:
        check_words(report, error)
    if done is not None and report.cost is not None and report.tried is not None:
        check_predictions(report, done, scene.spec)


def really(spec: Spec) -> tuple[RunReport | None, MigrationError | None]:
    try:
        return migrate.run(spec), None
    except MigrationError as error:
        return None, error


def check_words(report: DryRunReport, error: MigrationError) -> None:
    """The first check that failed for this reason says what the run said, and the verdict repeats it."""
    mine = [check for check in report.checks if check.outcome == "failed" and check.exit_code == error.exit_code]
    assert mine[0].fix == report.verdict.next_step
    assert mine[0].detail in report.verdict.sentence
    assert report.verdict.sentence.startswith("no go: ")
    if mine[0].name not in SAYS_ITS_OWN and error.exit_code == 6:
        assert (mine[0].detail, mine[0].fix) == (error.message, error.hint)


def check_predictions(report: DryRunReport, done: RunReport, spec: Spec) -> None:
    assert report.cost is not None
    assert report.tried is not None
    assert report.found is not None
    stored = load_plan(spec.home)
    assert stored is not None
    planned = [(chunk.store_partition, chunk.database, chunk.keys) for chunk in report.cost.chunks]
    if report.cost.chunks_done == 0:
        chunks = [(chunk.store_partition, chunk.database, chunk.keys) for chunk in stored.chunks]
        assert planned == chunks
        assert [chunk.estimated_bytes for chunk in report.cost.chunks] == [c.estimated_bytes for c in stored.chunks]
    if report.state != "damaged" and not (spec.home / "ledger-damaged").exists():
        assert report.cost.chunks_done == done.chunks_done_before
        assert len(planned) == done.totals.chunks - done.chunks_done_before
    assert done.totals.records_in == report.found.records
    assert (done.totals.rejected, done.totals.dropped) == (report.tried.rejected, report.tried.dropped)
    assert done.totals.expired == report.tried.expired == report.found.expired
    assert done.totals.shadowed == report.found.shadowed
    if report.cost.chunks_done == 0:
        assert done.totals.records_out == report.tried.converted
    if report.cost.chunks_done == 0 and done.totals.records_out:
        written = sum(path.stat().st_size for path in (spec.home / "chunks").rglob("*.sst"))
        written = written or sum(path.stat().st_size for store in done.new_stores for path in store.rglob("*.sst"))
        if written:
            assert 0.5 * written < report.cost.new_bytes < 2 * written + (1 << 16)
        assert report.cost.required_bytes >= 0


def test_beside_a_running_application_it_is_an_estimate_and_waits(tmp_path: Path) -> None:
    spec = raw(tmp_path)
    with another_process(OPEN_STORE, spec.source_path) as pid:
        with nothing_changes(tmp_path):
            report = plan(spec)
        _, error = really(spec)

    assert error is not None
    assert (report.verdict.exit_code, report.verdict.go, report.is_estimate) == (0, True, True)
    waiting = checks(report, "waiting")
    assert list(waiting) == ["source.stopped"]
    assert (waiting["source.stopped"].detail, waiting["source.stopped"].fix) == (error.message, error.hint)
    assert f"process {pid}" in waiting["source.stopped"].detail
    assert "once the application is stopped" in report.verdict.sentence
    assert report.verdict.next_step == "stop the application, stateferry run SPEC"


def test_without_a_snapshot_it_says_what_taking_one_and_running_would_do(tmp_path: Path) -> None:
    spec = in_place_spec(tmp_path, make_application(tmp_path), run={"source": "snapshot"})

    report = plan(spec)

    assert really(spec)[1] is not None
    assert report.verdict.exit_code == 0
    assert report.verdict.next_step.index("snapshot SPEC") < report.verdict.next_step.index("run SPEC")
    migrate.snapshot(spec)
    assert plan(spec).verdict.exit_code == 0
    migrate.run(spec)


def test_too_little_space_is_refused_by_both(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    with small_disk(tmp_path / "disk", "400k") as disk:
        spec = raw(disk)
        filler = disk / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(disk).free - 20_000))
        with nothing_changes(disk):
            report = plan(spec)
        _, error = really(spec)
        assert error is not None
        assert report.verdict.exit_code == error.exit_code == 6
        space = failed(report)["work_dir.space"]
        assert space.fix == error.hint
        assert space.detail.split(" has ")[0] == error.message.split(" has ")[0]
        assert report.cost is not None
        assert report.cost.free_bytes is not None
        assert report.cost.free_bytes < report.cost.required_bytes


def test_a_read_only_disk_is_refused_by_both(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    with small_disk(tmp_path / "disk", "16m") as disk:
        spec = raw(disk)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with nothing_changes(disk):
            report = plan(spec)
        _, error = really(spec)
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    assert error is not None
    assert (report.verdict.exit_code, int(error.exit_code)) == (6, 6)
    assert (failed(report)["work_dir.writable"].detail, failed(report)["work_dir.writable"].fix) == (
        error.message,
        error.hint,
    )
    assert report.tried is not None
    assert report.tried.converted == 4000


def test_a_work_dir_on_another_disk_is_refused_by_both_and_may_be_copied_to(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    with small_disk(tmp_path / "disk", "64m") as disk:
        spec = raw(tmp_path, work_dir=str(disk / "work"))
        report = plan(spec)
        _, error = really(spec)
        assert error is not None
        assert report.verdict.exit_code == error.exit_code == 6
        assert failed(report)["work_dir.links"].detail == error.message
        copied = raw(tmp_path, work_dir=str(disk / "work"), run={"snapshot": "copy"})
        report = plan(copied)
        assert report.verdict.exit_code == 0
        assert report.cost is not None
        assert report.cost.copied_bytes == sum(path.stat().st_size for path in copied.source_path.glob("*.sst"))
        assert report.cost.peak_bytes == report.cost.copied_bytes + report.cost.new_bytes
        migrate.run(copied)


def test_the_run_that_follows_is_not_kept_from_starting_by_a_dry_run(tmp_path: Path) -> None:
    """A dry run looks whether another run is at work; it must not hold what a run needs to start."""
    spec = stopped_at("plan.stored", raw(tmp_path))
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
from migrate.stores.run_lock import is_run_at_work
print("looking", flush=True)
while True:
    is_run_at_work(Path(sys.argv[1]))
"""
