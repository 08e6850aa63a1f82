"""What an executor's Python tells of itself, told by this one."""

from __future__ import annotations

import sys
import time
import zipfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.ask import Answers, Clock, explain, probe_file
from jobs.doctor_checks import SparkGround
from jobs.probe import OUR_PACKAGES, PROBE_PREFIX, Probe, Question, code_digest, entries_of, free_memory, look, versions
from migrate.errors import RefusedError
from tests.support import make_store, numbered, raw_spec, tree_state

ROOT = Path(__file__).parents[2]


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    """Of one executor that has all that the driver has."""
    old = make_store(tmp_path / "old", numbered(5))
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    with probe_file(work_dir, old) as name:
        probe = look(Question(str(old), str(work_dir), name))
    return Answers(
        Question(str(old), str(work_dir), name),
        (probe,),
        Clock(probe.time, probe.time),
        entries_of(str(old)) or frozenset(),
        entries_of(str(work_dir)) or frozenset(),
    )


def ground_of(tmp_path: Path, answers: Answers, **changes: object) -> SparkGround:
    """As it is for `doctor` once the executors have answered; `changes` are one executor's."""
    ground = SparkGround(raw_spec(tmp_path, tmp_path / "old"), "local[1]", [], ExitStack())
    ground._answers = replace(answers, probes=(*answers.probes, replace(answers.probes[0], **changes)))  # type: ignore[arg-type]
    return ground


def test_all_is_well_and_nothing_is_left(tmp_path: Path, answers: Answers) -> None:
    before = tree_state(tmp_path)
    ground = ground_of(tmp_path, answers)
    assert ground.check_packages().startswith("pyspark ")
    assert ground.check_source() == str(tmp_path / "old")
    assert ground.check_work_dir() == str(tmp_path / "work")
    assert ground.check_clock() == "no difference to be seen"
    assert "for 2 workers" in ground.check_memory()
    assert tree_state(tmp_path) == before
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("check", "changes", "said"),
    [
        ("packages", {"broken": {"xxhash": "ImportError: no"}}, "xxhash cannot be imported on h: ImportError: no"),
        ("packages", {"versions": {"pyspark": "3.5.0", "rocksdict": "0.3.29"}}, "pyspark is 3.5.0 on h, and "),
        ("packages", {"versions": {}}, "pyspark is missing on h, and "),
        ("packages", {"code": "0" * 64}, "the executors on h have another stateferry than the driver"),
        ("clock", {"time": 0.0}, "the clock on h is "),
        ("memory", {"free_memory": 1 << 20}, "h has 1 MiB of memory free, 1 worker may need 180 MiB"),
    ],
)
def test_what_one_executor_lacks_is_said_of_its_host(
    tmp_path: Path, answers: Answers, check: str, changes: dict[str, object], said: str
) -> None:
    ground = ground_of(tmp_path, answers, host="h", **changes)
    with pytest.raises(RefusedError) as caught:
        getattr(ground, f"check_{check}")()
    assert caught.value.message.startswith(said)
    assert caught.value.hint


def look_elsewhere(tmp_path: Path, answers: Answers, probe: str | None) -> Probe:
    """What an executor sees under the same paths whose volumes are its own."""
    (tmp_path / "elsewhere/old").mkdir(parents=True)
    (tmp_path / "elsewhere/work").mkdir()
    before = tree_state(tmp_path)
    seen = look(Question(str(tmp_path / "elsewhere/old"), str(tmp_path / "elsewhere/work"), probe))
    assert tree_state(tmp_path) == before, "nothing is written, not even for a moment, where the driver's file is not"
    return seen


def test_a_directory_that_is_not_the_driver_s_is_noticed(tmp_path: Path, answers: Answers) -> None:
    seen = look_elsewhere(tmp_path, answers, f"{PROBE_PREFIX}x")
    ground = ground_of(tmp_path, answers, host="h", source=seen.source, work_dir=seen.work_dir)
    with pytest.raises(RefusedError, match=r"/old on h is another directory than here: it has no 0"):
        ground.check_source()
    with pytest.raises(RefusedError, match="/work on h is another directory than here"):
        ground.check_work_dir()


def test_a_directory_that_is_not_there_is_noticed(tmp_path: Path, answers: Answers) -> None:
    seen = look(Question(str(tmp_path / "nowhere"), str(tmp_path / "nowhere"), None))
    ground = ground_of(tmp_path, answers, host="h", source=seen.source, work_dir=seen.work_dir)
    with pytest.raises(RefusedError, match=r"the executors on h do not see .*/old"):
        ground.check_source()
    with pytest.raises(RefusedError, match=r"the executors on h do not see .*/work"):
        ground.check_work_dir()


def test_a_work_dir_that_cannot_be_written_is_noticed(tmp_path: Path, answers: Answers) -> None:
    looked = replace(answers.probes[0].work_dir, is_writable=False)
    with pytest.raises(RefusedError, match=r"the executors on h cannot write to .*/work"):
        ground_of(tmp_path, answers, host="h", work_dir=looked).check_work_dir()


def test_no_probe_is_put_beside_the_owner_s_stores(tmp_path: Path) -> None:
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
    assert code_digest() == installed
    with zipfile.ZipFile(archive, "a") as out:
        out.writestr("formats/added.py", "")
    for name in [name for name in sys.modules if name.partition(".")[0] in OUR_PACKAGES]:
        monkeypatch.delitem(sys.modules, name)
    assert code_digest() != installed


def test_the_host_tells_of_itself() -> None:
    assert versions().keys() == {"pyspark", "rocksdict"}
    free = free_memory()
    assert free is None or free > 0
    assert abs(look(Question("/", "/", None)).time - time.time()) < 60


@pytest.mark.parametrize(
    ("text", "said"),
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
def test_what_ends_a_task_is_said_in_words(text: str, said: str) -> None:
    error = explain(text)
    assert said in error.message
    assert "PYSPARK_PYTHON" in error.hint
