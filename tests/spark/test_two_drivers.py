"""Two drivers of one migration at a time: on one host the second is refused, of two hosts the first is fenced off."""

import time
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

import pytest

from tests.spark.job import BASE_PYTHON, BOTH, ROOT, SPARK_SUBMIT, Job
from tests.spark.scene import PATIENCE, Calm, RunningJob, Scene, assert_right, make_scene, started, submitting
from tests.support import read_ledger, tree_state

WAITS_FOR_THE_SECOND = """
def convert(record):
    if record.key == b"key-00001234" and is_rewriting() and is_first("first"):
        note("at work")
        wait_until((MARKS / "go").exists)
    return converted(record)
"""


def _without_spark(scene: Scene) -> AbstractContextManager[RunningJob]:
    code = "from migrate.cli import main; main()"
    command = [BASE_PYTHON, "-c", code, "run", str(scene.file), "--no-spark"]
    return started(command, scene, "without-spark", PYTHONPATH=BOTH)


def _settled(home: Path) -> dict[str, tuple[int, int, str]]:
    """The folder once the driver has committed what had ended before."""
    deadline, before = time.monotonic() + PATIENCE, tree_state(home)
    time.sleep(2)
    while before != (state := tree_state(home)):
        assert time.monotonic() < deadline
        before = state
        time.sleep(2)
    return before


def test_on_one_host_the_second_driver_is_refused(tmp_path: Path, calm: Calm) -> None:
    """One slot only: while its chunk waits, the first driver writes nothing."""
    scene = make_scene(tmp_path / "scene", WAITS_FOR_THE_SECOND)
    with submitting(scene, "local[1]") as first:
        first.await_note("at work")
        before = _settled(scene.home)
        with _without_spark(scene) as second:
            refused = second.end()
        assert refused.exit_code == 6, refused.errors
        assert "another run of this migration is at work" in refused.errors
        assert tree_state(scene.home) == before
        (scene.marks / "go").touch()
        assert_right(scene, first.end(), calm)


class _Race:
    """Drivers, each a process that knows of no lock."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._numbers = count()

    def driver(
        self, at: str = "", times: int = 1, *, command: tuple[str, ...] = (BASE_PYTHON,), spark: bool = False
    ) -> AbstractContextManager[RunningJob]:
        name = f"driver-{next(self._numbers)}"
        options = ["--spec", str(self._scene.file), "--marks", str(self._scene.marks), "--name", name]
        options += ["--at", at, "--times", str(times), *(["--spark"] if spark else [])]
        program = str(ROOT / "tests/spark/racing.py")
        return started([*command, program, *options], self._scene, name, PYTHONPATH=BOTH)

    def await_driver(self, number: int, job: RunningJob) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (self._scene.marks / f"driver-{number}").exists():
            assert job.process.poll() is None, job.end().errors
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def let_go(self, number: int) -> None:
        (self._scene.marks / f"driver-{number}.go").touch()


@pytest.mark.parametrize(
    ("first_at", "second_at"),
    [
        (("run.begun", 1), ("chunk.committed", 2)),
        (("chunk.committed", 3), ("chunk.started", 4)),
        (("chunk.finished", 5), ("assemble.started", 1)),
        (("assemble.ingested", 1), ("verify.started", 1)),
        (("verify.started", 1), ("verify.committed", 1)),
        (("publish.built", 1), ("publish.built", 1)),
    ],
    ids=lambda place: place[0],
)
def test_of_two_hosts_the_first_is_fenced_off(
    first_at: tuple[str, int], second_at: tuple[str, int], tmp_path: Path, calm: Calm
) -> None:
    """It is overtaken at one event, and let go while the one that overtook it is at another."""
    scene = make_scene(tmp_path / "scene")
    race = _Race(scene)
    with race.driver(*first_at) as first:
        race.await_driver(0, first)
        with race.driver(*second_at) as second:
            race.await_driver(1, second)
            rows = read_ledger(scene.home)
            race.let_go(0)
            fenced = first.end()
            assert fenced.exit_code == 6, fenced.errors
            assert "another run of this migration has taken over" in fenced.errors
            assert read_ledger(scene.home) == rows, "the first one wrote nothing more"
            race.let_go(1)
            assert_right(scene, second.end(), calm)


def test_a_driver_on_spark_is_fenced_off_too(tmp_path: Path, calm: Calm) -> None:
    """The one that takes over finishes while chunks of the other one's are still in flight."""
    scene = make_scene(tmp_path / "scene")
    race = _Race(scene)
    with race.driver("chunk.committed", 2, command=(SPARK_SUBMIT, "--master", "local[2]"), spark=True) as first:
        race.await_driver(0, first)
        kept = scene.chunks
        with race.driver() as second:
            assert_right(scene, second.end(), calm)
        assert scene.chunks[: len(kept)] == kept
        published = tree_state(scene.folder / "new")
        race.let_go(0)
        fenced = first.end()
    assert fenced.exit_code == 6, fenced.errors
    assert "another run of this migration has taken over" in fenced.errors
    assert tree_state(scene.folder / "new") == published
    assert_right(scene, Job(0, "", ""), calm)
