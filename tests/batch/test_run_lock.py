"""The run's lock is looked at, and never touched."""

import os
import threading
from pathlib import Path

import pytest

from migrate.batch import run_lock
from migrate.batch.run_lock import one_run_at_a_time, pid_at_work

HAS_LIST = Path("/proc/locks").exists()
pytestmark = pytest.mark.skipif(not HAS_LIST, reason="this system has no list of locks")


def test_it_is_held_while_a_run_is_at_work(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert pid_at_work(home) == 0
    with one_run_at_a_time(home):
        assert pid_at_work(home) == os.getpid()
        (home / "kept").touch()
    assert (home / "run.lock").exists()
    assert pid_at_work(home) == 0


def test_the_lock_of_another_migration_is_not_this_ones(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/run.lock").touch()
    with one_run_at_a_time(tmp_path / "other"):
        assert pid_at_work(tmp_path / "one") == 0


def test_a_file_system_that_the_list_calls_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inode alone is not enough; with the holder's own descriptor it is."""
    listed = tmp_path / "locks"
    monkeypatch.setattr(run_lock, "_LOCKS", listed)
    with one_run_at_a_time(tmp_path / "home"):
        inode = (tmp_path / "home/run.lock").stat().st_ino
        for pid, found in ((os.getpid(), os.getpid()), (1, 0)):
            listed.write_text(
                f"1: FLOCK ADVISORY WRITE {pid} ff:ff:{inode} 0 EOF\n1: -> FLOCK ADVISORY WRITE 1 0:0:1\n"
            )
            assert pid_at_work(tmp_path / "home") == found


def test_a_system_without_a_list_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lock, "_LOCKS", tmp_path / "none")
    with one_run_at_a_time(tmp_path / "home"):
        assert pid_at_work(tmp_path / "home") is None


def test_a_run_that_begins_is_never_turned_away_by_a_look(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "kept").touch()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            pid_at_work(home)

    onlookers = [threading.Thread(target=look) for _ in range(2)]
    for onlooker in onlookers:
        onlooker.start()
    try:
        for _ in range(200):
            with one_run_at_a_time(home):
                pass
    finally:
        is_over.set()
        for onlooker in onlookers:
            onlooker.join()
