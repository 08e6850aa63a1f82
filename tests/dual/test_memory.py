"""What the adapter remembers of keys is bounded by their bytes, not only by their number."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import DualReadStore
from tests.dual.pairings import UPGRADE, Ground

KEY_SIZE = 1 << 16
NUMBER = 1_000
MOST_BYTES = 32 << 20


def _get(store: DualReadStore, key: bytes) -> None:
    assert store.get(key) is None


def _put(store: DualReadStore, key: bytes) -> None:
    store.put(key, b"12345678value")


def _put_all(store: DualReadStore, key: bytes) -> None:
    store.put_all([(key, b"12345678value")])


@pytest.mark.parametrize("two", [False, True], ids=["one-database", "two-databases"])
@pytest.mark.parametrize("call", [_get, _put, _put_all], ids=["get", "put", "put_all"])
def test_large_keys_do_not_stay_in_memory(
    tmp_path: Path, two: bool, call: Callable[[DualReadStore, bytes], None]
) -> None:
    ground = Ground(tmp_path, UPGRADE, two)
    ground.make({b"key": b"value"})
    with ground.open() as store:
        tracemalloc.start()
        try:
            for number in range(NUMBER):
                call(store, b"%08d" % number + bytes(KEY_SIZE))
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < MOST_BYTES
        assert store.get(b"key") is not None
