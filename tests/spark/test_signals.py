"""Signals that spark-submit gets: its JVM is the parent of the driver, which ends the run in order all the same."""

import os
import signal
import time
from pathlib import Path

import pytest

from migrate import run
from tests.spark.job import CLI
from tests.spark.scene import PATIENCE, Calm, Scene, assert_each_interval_once, make_scene, started, submitting

WAITS_WHILE_HELD = """
def convert(record):
    if record.key == b"key-00000777" and is_rewriting() and is_first("held"):
        note("in the middle")
        wait_until((MARKS / "go on").exists)
    return converted(record)
"""


@pytest.mark.parametrize("to", ["the JVM", "everybody"])
def test_a_signal_lets_running_chunks_end_and_says_so_by_the_exit_code(to: str, tmp_path: Path, calm: Calm) -> None:
    """A terminal's Ctrl-C reaches everybody; `kill` the JVM alone."""
    scene = make_scene(tmp_path / "scene", WAITS_WHILE_HELD)
    with submitting(scene, "local[1]") as job:
        job.await_note("in the middle")
        if to == "everybody":
            os.killpg(job.process.pid, signal.SIGINT)
        else:
            os.kill(job.process.pid, signal.SIGTERM)
        _await_request(scene)
        (scene.marks / "go on").touch()
        ended = job.end()
    assert ended.exit_code == 5, ended.errors
    assert "run the same command again to resume" in ended.errors
    done = len(scene.chunks)
    assert done >= 1, "the chunk that was running is kept"
    assert _resumed(scene, spark=to == "the JVM") == done
    assert_each_interval_once(scene.chunks)
    assert scene.published == calm.published


def _resumed(scene: Scene, *, spark: bool) -> int:
    """How many chunks were done before, on Spark or, which takes less time, in this process."""
    if not spark:
        return run(scene.spec).chunks_done_before
    with submitting(scene, "local[1]", name="again") as job:
        ended = job.end()
    assert ended.exit_code == 0, ended.errors
    return int(ended.report["chunks_done_before"])


def test_ctrl_c_in_the_command_that_starts_spark_itself(tmp_path: Path) -> None:
    """PySpark has a handler of its own, which would end running chunks at once."""
    scene = make_scene(tmp_path / "scene", WAITS_WHILE_HELD)
    command = ["run", str(scene.file), "--master", "local[1]", "--json"]
    with started([*CLI, *command], scene, "job") as job:
        job.await_note("in the middle")
        os.killpg(job.process.pid, signal.SIGINT)
        _await_request(scene)
        (scene.marks / "go on").touch()
        ended = job.end()
    assert ended.exit_code == 5, ended.errors
    assert scene.chunks, "the chunk that was running is kept"


def _await_request(scene: Scene) -> None:
    deadline = time.monotonic() + PATIENCE
    told = ("job.out", "job.err")
    while not any("stop requested" in (scene.folder / name).read_text() for name in told):
        assert time.monotonic() < deadline
        time.sleep(0.05)
