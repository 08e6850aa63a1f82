"""Locks, asked for without being taken or dropped."""

import subprocess
import sys
from pathlib import Path

import pytest

from migrate.errors import ExitCode, StoreLockedError
from migrate.stores.lock import check_unlocked, lock_holders
from tests.shared.locks import LOCK_FILE, OPEN_STORE, another_process
from tests.support import make_store, numbered, open_store

_OPEN = """
import sys
from rocksdict import Options, Rdict
try:
    Rdict(sys.argv[1], Options(raw_mode=True))
except Exception as error:
    print("refused" if "lock" in str(error).lower() else error)
else:
    print("opened")
"""


def _try_to_open(directory: Path) -> str:
    child = subprocess.run([sys.executable, "-c", _OPEN, str(directory)], capture_output=True, text=True, check=True)
    return child.stdout.strip()


def test_a_lock_held_by_another_process_is_seen_with_its_pid(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    with another_process(LOCK_FILE, lock) as pid:
        assert lock_holders([tmp_path / "free", lock]) == {lock: pid}
        with pytest.raises(StoreLockedError, match=f"held by process {pid}") as caught:
            check_unlocked([lock])
        assert (caught.value.pid, caught.value.exit_code) == (pid, ExitCode.REFUSED)
    assert lock_holders([lock]) == {}
    check_unlocked([lock])


def test_files_that_are_missing_or_not_held_are_free(tmp_path: Path) -> None:
    (tmp_path / "LOCK").touch()
    assert lock_holders([tmp_path / "LOCK", tmp_path / "missing"]) == {}


def test_no_file_is_made_or_changed(tmp_path: Path) -> None:
    lock_holders([tmp_path / "LOCK"])
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_open_elsewhere_is_locked(tmp_path: Path) -> None:
    path = make_store(tmp_path / "db", numbered(3))
    with another_process(OPEN_STORE, path) as pid:
        assert lock_holders([path / "LOCK"]) == {path / "LOCK": pid}


def test_probing_our_own_lock_does_not_drop_it(tmp_path: Path) -> None:
    """Opening and closing the file here would drop it: POSIX locks belong to the process."""
    path = make_store(tmp_path / "db", numbered(3))
    with open_store(path):
        assert _try_to_open(path) == "refused"
        holders = lock_holders([path / "LOCK"])
        assert list(holders) == [path / "LOCK"]
        assert _try_to_open(path) == "refused"
    assert _try_to_open(path) == "opened"


def test_file_names_are_passed_whole(tmp_path: Path) -> None:
    lock = tmp_path / "a 'quoted' \"name\" with ünïcode\nand a newline"
    with another_process(LOCK_FILE, lock) as pid:
        assert lock_holders([lock]) == {lock: pid}
