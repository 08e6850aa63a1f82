"""A store that a process holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bad_input.support import Migration, expected_orders, raw_records
from tests.support import tree_state

# Java locks a file as lockf does, RocksDB too: a POSIX record lock of the process.
LOCK_FILE = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
OPEN_STORE = """
import sys
from rocksdict import Options, Rdict
database = Rdict(sys.argv[1], Options(raw_mode=True))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(code: str, path: Path) -> Iterator[int]:
    """Runs the code on the path until the block ends; its pid."""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid


@pytest.mark.parametrize("file", ["0_2/rocksdb/orders/LOCK", ".lock"])
def test_a_lock_of_the_application_is_refused_with_its_holder(app: Migration, file: str) -> None:
    (app.source / file).touch()

    with another_process(LOCK_FILE, app.source / file) as pid:
        app.refused(
            str(app.source / file), f"is held by process {pid}", "stop the application", "run the command again"
        )
    assert not app.home.exists()

    app.completes(expected_orders())


def test_a_store_that_rocksdb_holds_open_is_refused_with_its_holder(raw: Migration) -> None:
    with another_process(OPEN_STORE, raw.source) as pid:
        raw.refused(str(raw.source / "LOCK"), f"is held by process {pid}", "stop the application")
    assert not raw.home.exists()

    raw.completes({".": raw_records()})


def test_a_lock_that_another_store_of_the_application_holds_is_no_hindrance(app: Migration) -> None:
    """The application's own lock is; a tool that looks into another store is not the application."""
    with another_process(LOCK_FILE, app.source / "0_2/rocksdb/refunds/LOCK"):
        app.completes(expected_orders())


def test_asking_for_the_holder_does_not_drop_its_lock(app: Migration) -> None:
    lock = app.source / "0_2/rocksdb/orders/LOCK"
    before = tree_state(app.source)

    with another_process(LOCK_FILE, lock):
        app.refused("is held by process")
        app.refused("is held by process")
    assert tree_state(app.source) == before
