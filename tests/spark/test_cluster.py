"""Four executors over one directory: the result of one process, also with speculation, and with executors lost."""

import os
import signal
from pathlib import Path

from tests.spark.cluster import standalone_cluster
from tests.spark.processes import command_of, parent_of
from tests.spark.scene import Calm, Scene, assert_right, make_scene, submitting
from tests.spark.test_speculation import SPECULATION

MASTER = "local-cluster[4,1,1024]"
ALL_OF_THEM = ("--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0")
"""Work begins once every executor is there."""

AT_ONCE = """
def executors(name):
    return len({each["daemon"] for each in notes_of(name)})


def convert(record):
    step = "rewrite" if is_rewriting() else "verify" if is_verifying() else None
    if step is not None and is_first(f"{step} {os.getppid()}"):
        note(step)
        wait_until(lambda: executors(step) == 4)
    return converted(record)
"""
"""Each executor's first task waits for the other executors."""

LOST = """
def convert(record):
    for is_so, step in ((is_rewriting, "rewrite"), (is_verifying, "verify")):
        if record.key == b"key-00000777" and is_so() and is_first(f"{step} once"):
            note(step)
            wait_until(lambda: False)
    return converted(record)
"""

STRAGGLES = """
def convert(record):
    for is_so, step in ((is_rewriting, "rewrite"), (is_verifying, "verify")):
        if record.key == b"key-00000777" and is_so():
            note(step)
            wait_until(lambda: len(notes_of(step)) > 1)
    return converted(record)
"""
"""The first attempt waits for its twin."""


def _run(folder: Path, code: str, calm: Calm, *conf: str, master: str = MASTER, lost: tuple[str, ...] = ()) -> Scene:
    """A run that ends right, verified, with every record compared once; an executor is killed in the steps `lost`."""
    scene = make_scene(folder / "scene", code)
    with submitting(scene, master, *ALL_OF_THEM, *conf) as job:
        for step in lost:
            executor = parent_of(job.await_note(step)["daemon"])
            assert "CoarseGrainedExecutorBackend" in command_of(executor)
            os.kill(executor, signal.SIGKILL)
        done = job.end()
    assert_right(scene, done, calm)
    assert done.report["verification"] | {"seconds": 0} == {
        "mode": "full",
        "records": 4000,
        "records_before": 0,
        "missing": 0,
        "differing": 0,
        "extra": 0,
        "first": [],
        "seconds": 0,
    }
    return scene


def test_four_executors_at_once_make_what_one_process_makes(tmp_path: Path, calm: Calm) -> None:
    scene = _run(tmp_path, AT_ONCE, calm)
    for step in ("rewrite", "verify"):
        assert len({note["daemon"] for note in scene.notes(step)}) == 4, step


def test_an_executor_lost_in_rewriting_and_one_in_verification_cost_no_record(tmp_path: Path, calm: Calm) -> None:
    _run(tmp_path, LOST, calm, lost=("rewrite", "verify"))


def test_speculation_makes_and_compares_nothing_twice(tmp_path: Path, calm: Calm) -> None:
    hosts = ["127.0.0.2", "127.0.0.3"]  # a twin never runs on its first attempt's host: `local-cluster` has only one
    with standalone_cluster(tmp_path / "cluster", hosts) as master:
        scene = _run(tmp_path, STRAGGLES, calm, *SPECULATION, master=master)
    for step in ("rewrite", "verify"):
        first, twin = scene.notes(step)[:2]
        assert {first["attempt"], twin["attempt"]} == {0, 1}, step
        assert first["daemon"] != twin["daemon"], "on another executor"
