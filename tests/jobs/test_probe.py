"""The probe of an executor, run in this process, and the checks of its results."""

import sys
import time
import zipfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.probe import (
    PROBE_PREFIX,
    ProbeRequest,
    ProbeResult,
    SharedProbe,
    code_digest,
    entries_of,
    free_memory,
    probe_here,
    versions,
)
from jobs.spark_checks import DriverView, SparkChecks, explain_failure, find_unshared, probe_file
from migrate.errors import RefusedError
from migrate.model.packages import OUR_PACKAGES
from tests.support import make_store, numbered, raw_spec, tree_state

ROOT = Path(__file__).parents[2]


Probed = tuple[DriverView, ProbeResult]


@pytest.fixture
def probed(tmp_path: Path) -> Probed:
    """What the driver sees, and the probe of an executor that sees the same."""
    old = make_store(tmp_path / "old", numbered(5))
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    with probe_file(work_dir, old) as name:
        request = ProbeRequest(str(old), str(work_dir), name)
        result = probe_here(request)
        unshared = tuple(find_unshared(work_dir, name, [result]))
    entries = entries_of(str(old)) or frozenset(), entries_of(str(work_dir)) or frozenset()
    return DriverView(request, *entries, result.time, result.time, unshared), result


def checks_of(tmp_path: Path, probed: Probed, **changes: object) -> SparkChecks:
    """The checks after the probes of two executors, the second one with `changes`."""
    checks = SparkChecks(raw_spec(tmp_path, tmp_path / "old"), "local[1]", [], ExitStack())
    checks.driver, result = probed
    checks.probes = (result, replace(result, **changes))  # type: ignore[arg-type]
    return checks


def test_checks_pass_and_leave_nothing(tmp_path: Path, probed: Probed) -> None:
    before = tree_state(tmp_path)
    checks = checks_of(tmp_path, probed)
    assert checks.check_packages().startswith("pyspark ")
    assert checks.check_source() == str(tmp_path / "old")
    assert checks.check_work_dir() == str(tmp_path / "work")
    assert checks.check_shared() == "writing, syncing, renaming and hard links"
    assert checks.check_clock() == "no difference found"
    assert "for 2 workers" in checks.check_memory()
    assert tree_state(tmp_path) == before
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("check", "changes", "message"),
    [
        ("packages", {"broken": {"xxhash": "ImportError: no"}}, "xxhash cannot be imported on h: ImportError: no"),
        ("packages", {"versions": {"pyspark": "3.5.0", "rocksdict": "0.3.29"}}, "pyspark is 3.5.0 on h, and "),
        ("packages", {"versions": {}}, "pyspark is missing on h, and "),
        ("packages", {"code": "0" * 64}, "the executors on h have another stateferry than the driver"),
        ("clock", {"time": 0.0}, "the clock on h differs from the driver's by "),
        ("memory", {"free_memory": 1 << 20}, "h has 1 MiB of memory free, 1 worker may need 180 MiB"),
    ],
)
def test_an_executor_that_lacks_something_is_refused_by_host(
    tmp_path: Path, probed: Probed, check: str, changes: dict[str, object], message: str
) -> None:
    checks = checks_of(tmp_path, probed, host="h", **changes)
    with pytest.raises(RefusedError) as caught:
        getattr(checks, f"check_{check}")()
    assert caught.value.message.startswith(message)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("place", "probe", "message"),
    [
        ("elsewhere", f"{PROBE_PREFIX}x", "/{} on h is another directory than here"),
        ("nowhere", None, r"the executors on h do not see .*/{}"),
    ],
)
def test_directories_that_are_missing_or_others_than_the_driver_s_are_refused(
    tmp_path: Path, probed: Probed, place: str, probe: str | None, message: str
) -> None:
    """Nothing is written, not even for a moment, where the driver's file is not."""
    for name in ("old", "work"):
        (tmp_path / "elsewhere" / name).mkdir(parents=True)
    before = tree_state(tmp_path)
    seen = probe_here(ProbeRequest(str(tmp_path / place / "old"), str(tmp_path / place / "work"), probe))
    assert tree_state(tmp_path) == before
    checks = checks_of(tmp_path, probed, host="h", source=seen.source, work_dir=seen.work_dir)
    with pytest.raises(RefusedError, match=message.format("old") + (": it has no 0" if probe else "")):
        checks.check_source()
    with pytest.raises(RefusedError, match=message.format("work")):
        checks.check_work_dir()


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("work_dir", "the executors on h cannot write to .*/work"),
        ("shared", "h cannot make a hard link in .*/work"),
    ],
)
def test_a_work_dir_that_cannot_do_what_a_run_needs_is_refused(
    tmp_path: Path, probed: Probed, check: str, message: str
) -> None:
    work_dir = probed[1].work_dir
    unlinked = replace(work_dir, shared=replace(_shared(probed[1]), is_linked=False))
    seen = unlinked if check == "shared" else replace(work_dir, is_writable=False)
    with pytest.raises(RefusedError, match=message):
        getattr(checks_of(tmp_path, probed, host="h", work_dir=seen), f"check_{check}")()


def test_files_that_do_not_pass_between_two_hosts_are_found(tmp_path: Path) -> None:
    """The executor has a stale copy of the driver's folder."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with probe_file(here, tmp_path / "old") as name:
        assert name is not None
        (there / name).touch()
        stale = probe_here(ProbeRequest(str(there), str(there), name))
        good = probe_here(ProbeRequest(str(here), str(here), name))
        unlinked = replace(good, work_dir=replace(good.work_dir, shared=replace(_shared(good), is_linked=False)))
        refused = replace(good, work_dir=replace(good.work_dir, shared=SharedProbe(name, None, False, "Disk quota")))
        assert [*find_unshared(here, name, [good])] == []
        assert [*find_unshared(here, name, [stale, unlinked, refused])] == [
            f"a file that was written here and renamed in {here} is not seen whole on {stale.host}",
            f"a file that {stale.host} wrote and renamed in {here} is not seen whole here",
            f"a hard link that {good.host} made in {here} is not seen here",
            f"{good.host} cannot write, sync and rename a file in {here}: Disk quota",
        ]
    assert [*here.iterdir()] == []


def _shared(result: ProbeResult) -> SharedProbe:
    assert result.work_dir.shared is not None
    return result.work_dir.shared


def test_an_unshared_file_is_refused(tmp_path: Path, probed: Probed) -> None:
    driver, result = probed
    checks = checks_of(tmp_path, (replace(driver, unshared=("it is not seen whole here",)), result))
    with pytest.raises(RefusedError, match="it is not seen whole here") as caught:
        checks.check_shared()
    assert "NFS" in caught.value.hint


def test_no_probe_file_is_written_beside_the_old_store(tmp_path: Path) -> None:
    (tmp_path / "state/app/work").mkdir(parents=True)
    for work_dir in (tmp_path / "state/app", tmp_path / "state/app/work", tmp_path / "state"):
        before = tree_state(tmp_path)
        with probe_file(work_dir, tmp_path / "state/app") as name:
            assert name is None
            assert tree_state(tmp_path) == before


def test_code_in_a_zip_is_the_same_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = code_digest()
    archive = tmp_path / "stateferry.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for package in OUR_PACKAGES:
            for file in sorted((ROOT / package).rglob("*.py")):
                out.write(file, file.relative_to(ROOT))
    for name in [name for name in sys.modules if name.partition(".")[0] in OUR_PACKAGES]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(archive))
    finders = [finder for finder in sys.meta_path if type(finder).__module__ != "migrate.model.packages"]
    monkeypatch.setattr(sys, "meta_path", finders)
    assert code_digest() == installed
    with zipfile.ZipFile(archive, "a") as out:
        out.writestr("formats/added.py", "")
    for name in [name for name in sys.modules if name.partition(".")[0] in OUR_PACKAGES]:
        monkeypatch.delitem(sys.modules, name)
    assert code_digest() != installed


def test_the_host_reports_versions_memory_and_time() -> None:
    assert versions().keys() == {"pyspark", "rocksdict"}
    free = free_memory()
    assert free is None or free > 0
    assert abs(probe_here(ProbeRequest("/", "/", None)).time - time.time()) < 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark",
            "the executors run Python 3.9, the driver 3.11",
        ),
        ('java.io.IOException: Cannot run program "python9": error=2', "the executors have no python9"),
        (
            "Traceback\n  File x\nModuleNotFoundError: No module named 'jobs'\n\n\tat org.apache",
            "No module named 'jobs'",
        ),
    ],
)
def test_the_failure_of_a_task_is_explained(text: str, message: str) -> None:
    error = explain_failure(text)
    assert message in error.message
    assert "PYSPARK_PYTHON" in error.hint
