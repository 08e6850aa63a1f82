"""What the adapter does when the storage fails, and when another process has the store."""

from pathlib import Path

import pytest

from migrate import DualReadStore, State, StoreCorruptedError, StoreFailedError, StoreLockedError
from tests.shared.locks import another_process
from tests.support import KEY_VALUE, TIMESTAMPED, UNKNOWN_TIMESTAMP, make_store, numbered, raises, small_disk

RECORDS = dict(numbered(5000))
_HOLD = """
import sys
from migrate import DualReadStore
with DualReadStore.open(sys.argv[1], source=sys.argv[2], target=sys.argv[3]):
    print("held", flush=True)
    sys.stdin.read()
"""


def opened(path: Path, seen: list[tuple[State, State]] | None = None) -> DualReadStore:
    listener = None if seen is None else lambda before, after: seen.append((before, after))
    return DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, on_state_change=listener)


def test_after_a_damaged_block_every_call_raises_with_the_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = make_store(tmp_path / "store", RECORDS)
    table = max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
    table.write_bytes(content)
    seen: list[tuple[State, State]] = []
    store = opened(directory, seen)
    with pytest.raises(StoreCorruptedError, match=r"Corruption"):
        list(store.all())
    assert store.state is State.ERROR
    assert seen == [
        (State.CREATED, State.RUNNING),
        (State.RUNNING, State.PENDING_ERROR),
        (State.PENDING_ERROR, State.ERROR),
    ]
    key = next(iter(RECORDS))
    for call in (
        lambda: store.get(key),
        lambda: store.put(key, b"12345678"),
        lambda: store.delete(key),
        lambda: store.multi_get([key]),
        lambda: store.put_all([(key, b"12345678")]),
        lambda: store.put_if_absent(key, b"12345678"),
        store.all,
        store.flush,
        store.converge,
        store.approximate_num_entries,
    ):
        failed = raises(StoreCorruptedError, "Corruption", call)
        assert failed.__cause__ is not None
    caplog.clear()
    store.close()
    assert "has already failed" in caplog.text
    opened(directory).close()  # the LOCK is free


def test_a_full_disk_is_the_end_of_the_store_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "6M") as disk:
        directory = make_store(disk / "store", {b"old": b"1"})
        store = opened(directory)
        written = 0
        with pytest.raises(StoreFailedError, match="No space left") as failed:
            for number in range(10_000):
                store.put(b"%06d" % number, bytes(8) + bytes(4096))
                written = number + 1
        assert "open the store again" in str(failed.value)
        assert store.state is State.ERROR
        store.close()
        assert written > 100


def test_a_second_process_gets_the_pid_of_the_holder(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "store", RECORDS)
    with another_process(_HOLD, directory, KEY_VALUE, TIMESTAMPED) as holder:
        refused = raises(StoreLockedError, f"is held by process {holder}", opened, directory)
        assert refused.pid == holder
    with opened(directory) as store:
        assert store.get(next(iter(RECORDS))) == UNKNOWN_TIMESTAMP + next(iter(RECORDS.values()))


def test_the_same_process_is_refused_by_any_name_of_the_directory(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "store", RECORDS)
    (tmp_path / "alias").symlink_to(directory)
    with opened(directory):
        for name in (directory, tmp_path / "alias"):
            raises(StoreLockedError, r"this process already has .* open", opened, name)
