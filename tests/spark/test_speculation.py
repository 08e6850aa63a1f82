"""Speculation: a straggling attempt and its twin both finish the chunk, one of them is committed."""

from pathlib import Path

from tests.spark.cluster import standalone_cluster
from tests.spark.scene import Calm, Scene, assert_right, make_scene, submitting

STRAGGLES = """
def receipts():
    return list(CHUNKS.rglob("*-000001-*.receipt.json"))


def convert(record):
    if is_rewriting():
        if record.key == b"key-00000777":
            note("attempts")
            if is_first("straggler"):
                wait_until(lambda: len(receipts()) == 1)
                note("overtaken")
        if record.key == b"key-00003999":
            wait_until(lambda: len(receipts()) == 2)
    return converted(record)
"""
"""The first attempt of a chunk waits until another attempt has finished that chunk, and finishes it then all the same;
the last chunk waits for that, so that the application does not end before."""

SPECULATION = [
    *("--conf", "spark.speculation=true"),
    *("--conf", "spark.speculation.interval=100ms"),
    *("--conf", "spark.speculation.task.duration.threshold=2s"),  # a stage of one task has no median to compare with
    *("--conf", "spark.python.task.killTimeout=100s"),  # the loser may finish
    *("--conf", "spark.executor.memory=512m"),
]


def _named_by_rows(scene: Scene) -> set[str]:
    return {str(row.facts["attempt"]) for row in scene.chunks}


def test_a_straggler_that_finishes_after_its_twin_is_committed_by_nobody(tmp_path: Path, calm: Calm) -> None:
    scene = make_scene(tmp_path / "scene", STRAGGLES)
    with (
        standalone_cluster(tmp_path / "cluster", ["127.0.0.2", "127.0.0.3"]) as master,
        submitting(scene, master, *SPECULATION) as job,
    ):
        done = job.end()
    assert_right(scene, done, calm)
    straggler, twin = scene.notes("attempts")
    assert {straggler["attempt"], twin["attempt"]} == {0, 1}
    assert straggler["daemon"] != twin["daemon"], "on another executor"
    assert [note["pid"] for note in scene.notes("overtaken")] == [straggler["pid"]]
    attempts = {file.name.removesuffix(".receipt.json") for file in scene.home.rglob("*-000001-*.receipt.json")}
    assert len(attempts) == 2, "both finished"
    (loser,) = attempts - _named_by_rows(scene)
    assert list(scene.home.rglob(f"{loser}.*.sst"))
