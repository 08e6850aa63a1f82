"""Workers that die while a run goes on: they cost time, never a record, and no chunk is committed twice."""

import os
import signal
from pathlib import Path

from tests.spark.processes import command_of
from tests.spark.scene import Calm, assert_each_interval_once, assert_right, make_scene, submitting
from tests.support import numbered, tree_state

WAITS_TO_BE_KILLED = """
def convert(record):
    if record.key in (b"key-00000777", b"key-00003210") and is_rewriting() and is_first(record.key.decode()):
        note(f"at {record.key.decode()}")
        wait_until(lambda: False)
    return converted(record)
"""

DIES_TWICE = """
def convert(record):
    if record.key == b"key-00001234" and is_rewriting():
        times = note("deaths")
        if times == 1:
            os._exit(0)
        if times == 2:
            os.kill(os.getpid(), signal.SIGKILL)
    return converted(record)
"""

DIES_IN_A_BUNDLE = """
def convert(record):
    if is_rewriting() and record.key in (b"key-00000123", b"key-00000777"):
        if is_first(record.key.decode()) or (record.key == b"key-00000777" and (MARKS / "poison").exists()):
            job = TaskContext.get().getLocalProperty("spark.job.description")
            note("died in a bundle" if job.endswith(" more") else "died alone")
            os._exit(9)
    return converted(record)
"""

DIES_WHILE_POISONED = """
def convert(record):
    if record.key == b"key-00002345" and (MARKS / "poison").exists() and is_rewriting():
        note("deaths")
        os._exit(9)
    return converted(record)
"""


def test_killed_python_workers_cost_no_record(tmp_path: Path, calm: Calm) -> None:
    scene = make_scene(tmp_path / "scene", WAITS_TO_BE_KILLED)
    with submitting(scene, "local[2]") as job:
        for key in ("key-00000777", "key-00003210"):
            worker = job.await_note(f"at {key}")
            assert "pyspark.daemon" in command_of(worker["pid"])
            os.kill(worker["pid"], signal.SIGKILL)
        assert_right(scene, job.end(), calm)


def test_a_chunk_may_fail_twice(tmp_path: Path, calm: Calm) -> None:
    """By an exit that looks like success, then by a signal."""
    scene = make_scene(tmp_path / "scene", DIES_TWICE)
    with submitting(scene, "local[2]") as job:
        assert_right(scene, job.end(), calm)
    assert len(scene.notes("deaths")) == 3
    assert not list(scene.home.rglob("*.breadcrumb"))


def test_a_chunk_that_always_fails_ends_the_run_and_a_mended_one_resumes_it(tmp_path: Path, calm: Calm) -> None:
    scene = make_scene(tmp_path / "scene", DIES_WHILE_POISONED)
    poison = scene.marks / "poison"
    poison.touch()
    with submitting(scene, "local[2]") as job:
        failed = job.end()
    assert failed.exit_code == 3, failed.errors
    assert '"key-00002345"' in failed.message
    assert not (scene.folder / "new").exists()
    assert len(scene.notes("deaths")) == 3
    finished = scene.chunks
    assert finished
    poison.unlink()
    with submitting(scene, "local[2]", name="rerun") as job:
        resumed = job.end()
    assert_right(scene, resumed, calm)
    assert resumed.report["chunks_done_before"] == len(finished)
    assert scene.chunks[: len(finished)] == finished


def test_a_bundle_whose_worker_dies_is_run_chunk_by_chunk_and_names_the_record_that_kills(tmp_path: Path) -> None:
    """What the dead worker had finished is taken over by the next run, or made again, but counts once."""
    scene = make_scene(tmp_path / "scene", DIES_IN_A_BUNDLE, records=10_000, chunk_size="1 KiB")
    (scene.marks / "poison").touch()
    with submitting(scene, "local[2]") as job:
        failed = job.end()
    assert failed.exit_code == 3, failed.errors
    assert '"key-00000777"' in failed.message
    assert scene.notes("died in a bundle")
    assert len(scene.notes("died alone")) == 3
    (scene.marks / "poison").unlink()
    with submitting(scene, "local[2]", name="rerun") as job:
        resumed = job.end()
    assert resumed.exit_code == 0, resumed.errors
    assert scene.published["default"] == {key: value[::-1] for key, value in numbered(10_000).items()}
    assert tree_state(scene.folder / "old") == scene.source
    assert_each_interval_once(scene.chunks)
