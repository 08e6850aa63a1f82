"""Moving single records: whose old copy it is, and what the hook may do."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from migrate import State, StoreCorruptedError, StoreError
from tests.dual.pairings import PREFIXED, UPGRADE, Ground
from tests.support import UNKNOWN_TIMESTAMP, numbered, raises

REPOSITORY = Path(__file__).parents[2]
pytestmark = pytest.mark.parametrize("two", [False, True], ids=["one database", "two databases"])


def test_a_key_from_which_old_key_leads_to_a_record_of_another_key_has_no_old_copy(tmp_path: Path, two: bool) -> None:
    ground = Ground(tmp_path, PREFIXED, two)
    ground.make({b"a": b"1", b"b": b"2", b"c": b"3"})
    with ground.open() as store:
        assert (store.get(b"Pa"), store.get(b"Qa")) == (b"1", None)
        store.put(b"Qb", b"other")
        store.delete(b"Qc")
        store.put_all([(b"Rb", b"other"), (b"Rc", None)])
        store.flush()
        expected = {b"Pa": b"1", b"Pb": b"2", b"Pc": b"3", b"Qb": b"other", b"Rb": b"other"}
        assert {key: store.get(key) for key in expected} == expected
        store.converge(None, None)
        assert dict(store.all()) == expected


def test_the_hook_may_read_the_store_and_not_write_to_it(tmp_path: Path, two: bool) -> None:
    ground = Ground(tmp_path, UPGRADE, two)
    ground.make({b"k1": b"1", b"k2": b"2"})
    read = []

    def hook(key: bytes, _old: bytes, _new: bytes) -> None:
        read.append((key, store.get(b"k2")))
        store.put(key, b"lost if it were written now")

    store = ground.open(on_migrated=hook)
    with store:
        raises(StoreError, "wrote to the store that called it", store.get, b"k1")
        assert read == [(b"k1", UNKNOWN_TIMESTAMP + b"2")]
        raises(StoreError, "wrote to the store that called it", store.converge, None, None)
        assert store.progress.moved_by_read + store.progress.moved_by_converge == 0


def test_the_trouble_of_a_storage_that_the_hook_writes_to_is_not_the_stores(tmp_path: Path, two: bool) -> None:
    ground = Ground(tmp_path, UPGRADE, two)
    ground.make({b"k": b"1"})
    troubles: list[Exception] = [
        Exception("IO error: No space left on device"),
        StoreCorruptedError("another store"),
        OSError("no space"),
    ]

    def hook(_key: bytes, _old: bytes, _new: bytes) -> None:
        if troubles:
            raise troubles[-1]

    with ground.open(on_migrated=hook) as store:
        while troubles:
            for attempt in (lambda: store.get(b"k"), lambda: store.multi_get([b"k"]), store.converge):
                caught = raises(type(troubles[-1]), "", attempt)
                assert caught is troubles[-1]
            assert store.state is State.RUNNING
            assert not store.is_converged
            troubles.pop()
        assert store.get(b"k") == UNKNOWN_TIMESTAMP + b"1"


def test_a_key_of_another_type_leaves_the_store_running_and_its_lock_to_be_given_up(tmp_path: Path, two: bool) -> None:
    ground = Ground(tmp_path, UPGRADE, two)
    ground.make({b"k": b"1"})
    wrong: Any = "k"
    for is_converged in (False, True):
        store = ground.open()
        if is_converged:
            store.converge(None, None)
        errors = []
        for attempt in (store.get, store.delete, store.range, store.prefix_scan):
            caught = raises((TypeError, KeyError), "", attempt, wrong)
            errors.append(caught)
        assert store.state is State.RUNNING
        store.close()
        ground.open().close()


_LIFE = """
import os, signal, sys
from migrate import DualReadStore
old = sys.argv[3] or None
store = DualReadStore.open(sys.argv[2], old_path=old, source="kafka-streams.key-value",
    target="kafka-streams.timestamped-key-value")
store.put(b"new", b"acknowledged")
store.converge(None, None)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("end", "code"), [("kill", -signal.SIGKILL), ("exit", 0)])
def test_a_process_that_ends_without_close_leaves_no_file_of_ours(
    tmp_path: Path, two: bool, end: str, code: int
) -> None:
    """And ends well, though RocksDB may be compacting in the background."""
    ground = Ground(tmp_path, UPGRADE, two)
    ground.make(numbered(3000))
    arguments = [end, str(ground.path), str(ground.old) if two else ""]
    done = subprocess.run([sys.executable, "-c", _LIFE, *arguments], cwd=REPOSITORY, check=False, capture_output=True)
    assert done.returncode == code, done.stderr.decode()
    with ground.open() as store:
        store.converge(None, None)
        assert store.get(b"new") == b"acknowledged"
    names = {path.name for path in tmp_path.rglob("*")}
    assert not names & {"stateferry.json", "rocksdict-config.json"}
