"""Locks, asked for without being taken or dropped."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from migrate.errors import ExitCode, StoreLockedError
from migrate.stores.lock import check_unlocked, lock_holders
from tests.support import make_store, numbered, open_store

_HOLD = """
import fcntl, sys
with open(sys.argv[1], "wb") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""
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


@contextmanager
def _held_elsewhere(file: Path) -> Iterator[int]:
    """Held by another process, as Kafka Streams holds its `.lock`; gives its pid."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder.pid


def _try_to_open(directory: Path) -> str:
    child = subprocess.run([sys.executable, "-c", _OPEN, str(directory)], capture_output=True, text=True, check=True)
    return child.stdout.strip()


def test_a_lock_held_by_another_process_is_seen_with_its_pid(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    with _held_elsewhere(lock) as pid:
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
    program = _OPEN + "\nprint('held', flush=True); sys.stdin.read()"
    program = program.replace("    Rdict(", "    database = Rdict(")
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert [owner.stdout.readline(), owner.stdout.readline()] == ["opened\n", "held\n"]
        assert lock_holders([path / "LOCK"]) == {path / "LOCK": owner.pid}


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
    with _held_elsewhere(lock) as pid:
        assert lock_holders([lock]) == {lock: pid}
