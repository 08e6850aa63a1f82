"""Owners may remove the directories of tasks that were not modified for long: a switch modifies those of its stores."""

import os
import time
from pathlib import Path

import pytest

from migrate import Spec, cutover, rollback, run
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, make_spec, make_store, numbered

DAY = 86_400
IN_PLACE: dict[str, object] = {"path": None}


def _leave_for_two_days(folder: Path) -> None:
    then = time.time() - 2 * DAY
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (then, then))


def _is_old(folder: Path) -> bool:
    return folder.stat().st_mtime < time.time() - DAY


def _application(folder: Path, *tasks: str) -> Path:
    for task in tasks:
        make_store(folder / task / "rocksdb/kv", numbered(20))
    make_store(folder / "1_0/rocksdb/other", numbered(20))
    _leave_for_two_days(folder)
    return folder


def _spec(base: Path, path: Path, target: dict[str, object]) -> Spec:
    if path.name == "kv":
        return make_spec(base, path, source_format=RAW, target_format=RAW, target=target)
    source = {"store": "kv"}
    return make_spec(base, path, source_format=KEY_VALUE, target_format=TIMESTAMPED, source=source, target=target)


@pytest.mark.parametrize(
    ("path", "task"),
    [
        ("shop", "0_0"),
        ("shop/__clicks__", "__clicks__/0_0"),
        ("shop/0_0/rocksdb/kv", "0_0"),
        ("shop/__clicks__/0_0/rocksdb/kv", "__clicks__/0_0"),
    ],
)
def test_a_cut_over_and_a_rollback_modify_the_task_directory(path: str, task: str, tmp_path: Path) -> None:
    application = _application(tmp_path / "shop", task)
    spec = _spec(tmp_path, tmp_path / path, IN_PLACE)
    run(spec)
    assert _is_old(application / task)
    cutover(spec)
    assert not _is_old(application / task)
    assert _is_old(application / "1_0"), "its store is as its owner left it"
    _leave_for_two_days(application)
    rollback(spec)
    assert not _is_old(application / task)


def test_a_published_directory_has_no_old_task(tmp_path: Path) -> None:
    application = _application(tmp_path / "state/shop", "0_0", "0_1", "__clicks__/0_0")
    (application / "2_0").mkdir()  # as Kafka Streams leaves a task whose stores are all in memory
    (application / "2_0/.checkpoint").write_text("0\n0\n")
    _leave_for_two_days(application)
    spec = _spec(tmp_path, application, {"path": "state-v2/shop"})
    run(spec)
    published = tmp_path / "state-v2/shop"
    tasks = [published / task for task in ("0_0", "0_1", "1_0", "2_0", "__clicks__/0_0")]
    assert [task for task in tasks if _is_old(task)] == []
    assert _is_old(published / "1_0/rocksdb/other/CURRENT"), "files keep their times"
