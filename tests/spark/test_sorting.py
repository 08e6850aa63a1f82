"""Keys that Spark sorts: every record under its new key, whatever ends on the way; an error as it is anywhere else."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.sorting import LARGEST
from migrate.batch.chunk.rewrite_chunk import chunk_directory
from migrate.batch.home import load_plan
from migrate.model.receipt import attempt_name
from tests.spark.job import Job
from tests.spark.processes import command_of, parent_of
from tests.spark.scene import Scene, assert_each_interval_once, make_scene, submitting
from tests.support import numbered, read_ledger, tree_state

CLUSTER = "local-cluster[2,1,1024]"
RECORDS = 4000
EXPECTED = {key[::-1]: value[::-1] for key, value in numbered(RECORDS).items()}
TURNED = """
def convert(record):
    {first}
    return replace(converted(record), key=record.key[::-1])
"""
WAITS = """if record.key == b"key-00000777" and is_sorting() and is_first("sort once"):
        note("sort")
        wait_until(lambda: False)"""
REJECTS = """if record.key == b"key-00000777":
        raise ValueError("no such luck")"""
COLLAPSES = """if record.key == b"key-00000778":
        return replace(record, key=b"key-00000777"[::-1])"""

GROWS = """if record.key == b"key-00000777":
        return replace(converted(record), key=record.key[::-1], value=bytes(20_000))"""


def _scene(folder: Path, first: str = "", **conversion: Any) -> Scene:  # noqa: ANN401
    code = TURNED.format(first=first)
    return make_scene(folder / "scene", code, records=RECORDS, allow=["key-change", "unclean-source"], **conversion)


def _assert_right(scene: Scene, job: Job, expected: Mapping[bytes, bytes] = EXPECTED) -> None:
    assert job.exit_code == 0, job.errors
    assert scene.published["default"] == expected
    assert tree_state(scene.folder / "old") == scene.source
    assert_each_interval_once(scene.chunks)
    assert len(scene.chunks) > 3
    assert job.report["verification"]["records"] == RECORDS


def _submitted(scene: Scene, master: str, *arguments: str, name: str = "job") -> Job:
    with submitting(scene, master, *arguments, name=name) as job:
        return job.end()


def test_every_record_is_under_its_new_key(tmp_path: Path) -> None:
    scene = _scene(tmp_path)
    _assert_right(scene, _submitted(scene, "local[2]"))


def test_a_large_record_is_among_them(tmp_path: Path) -> None:
    assert LARGEST < 20_000
    scene = _scene(tmp_path, GROWS)
    job = _submitted(scene, "local[2]")
    _assert_right(scene, job, EXPECTED | {b"key-00000777"[::-1]: bytes(20_000)})
    assert "ERROR" not in job.errors


def test_an_error_of_a_worker_reaches_the_user_as_it_is(tmp_path: Path) -> None:
    scene = _scene(tmp_path, REJECTS)
    job = _submitted(scene, "local[2]")
    assert job.exit_code == 3
    assert (
        '"key-00000777" (value of 20 bytes) cannot be converted: the function raised ValueError: no such luck'
        in job.message
    )
    assert "Py4JJavaError" not in job.message


def test_both_records_of_one_new_key_are_named(tmp_path: Path) -> None:
    scene = _scene(tmp_path, COLLAPSES)
    job = _submitted(scene, "local[2]")
    assert job.exit_code == 6
    assert "key-00000777" in job.message
    assert "key-00000778" in job.message
    assert not (scene.folder / "new").exists()


def test_an_executor_that_is_lost_does_not_lose_a_record(tmp_path: Path) -> None:
    scene = _scene(tmp_path, WAITS)
    with submitting(scene, CLUSTER) as job:
        executor = parent_of(job.await_note("sort")["daemon"])
        assert "CoarseGrainedExecutorBackend" in command_of(executor)
        left = _leave_files_of_another_attempt(scene.home)
        os.kill(executor, signal.SIGKILL)
        _assert_right(scene, job.end())
    assert not any(each.exists() for each in left)


def _leave_files_of_another_attempt(home: Path) -> list[Path]:
    """As an executor leaves them that is lost when it has written."""
    plan, run = load_plan(home), read_ledger(home)[-1].run_id
    assert plan is not None
    chunk = plan.chunks[0]
    folder = chunk_directory(home, chunk.store_partition, chunk.database)
    folder.mkdir(parents=True, exist_ok=True)
    left = [folder / f"{mark}{attempt_name(run, chunk.number)}.0.sst" for mark in ("", ".")]
    for each in left:
        each.write_bytes(b"half")
    return left


def test_a_driver_that_is_killed_loses_no_range_that_is_written(tmp_path: Path) -> None:
    scene = _scene(tmp_path, WAITS)
    with submitting(scene, "local[2]") as job:
        job.await_note("sort")
    assert scene.chunks == []
    _assert_right(scene, _submitted(scene, "local[2]", name="again"))
