"""Names of stores and handles to them: what a reader in another thread is told when the store behind changes."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from migrate import (
    DualReadStore,
    RefusedError,
    RocksStore,
    StateStoreMigratedError,
    StoreClosedError,
    StoreNotReadyError,
    Stores,
    open_store,
)
from tests.support import KEY_VALUE, RAW, TIMESTAMPED, UNKNOWN_TIMESTAMP, make_store, numbered, raises

FORMATS: dict[str, Any] = {"source": KEY_VALUE, "target": TIMESTAMPED}
RECORDS = dict(numbered(50))
KEY = next(iter(RECORDS))
NEW_VALUE = UNKNOWN_TIMESTAMP + RECORDS[KEY]


@pytest.fixture
def stores() -> Iterator[Stores]:
    with Stores() as opened:
        yield opened


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_store(tmp_path / "orders", RECORDS)


def test_a_handle_reads(stores: Stores, directory: Path) -> None:
    stores.open("orders", directory, **FORMATS)
    handle = stores.resolve("orders")
    assert handle.get(KEY) == NEW_VALUE
    assert handle.multi_get([KEY, b"nobody"]) == [NEW_VALUE, None]
    assert [key for key, _ in handle.all()] == sorted(RECORDS)
    assert [key for key, _ in handle.reverse_all()] == sorted(RECORDS, reverse=True)
    assert [key for key, _ in handle.prefix_scan(KEY)] == [key for key in sorted(RECORDS) if key.startswith(KEY)]
    assert handle.approximate_num_entries() > 0


def test_after_the_switch_off_a_handle_is_to_be_resolved_again(stores: Stores, directory: Path) -> None:
    store = stores.open("orders", directory, **FORMATS)
    assert isinstance(store, DualReadStore)
    before = stores.resolve("orders")
    store.converge(None, None)
    raises(StateStoreMigratedError, r"'orders'.*(?s:.*)resolve it again", before.get, KEY)
    assert stores.resolve("orders").get(KEY) == NEW_VALUE
    assert store.get(KEY) == NEW_VALUE


def test_after_a_hand_over_a_handle_is_to_be_resolved_again(stores: Stores, directory: Path) -> None:
    stores.open("orders", directory, opener=open_store, format=KEY_VALUE, read_only=False)
    before = stores.resolve("orders")
    assert before.get(KEY) == RECORDS[KEY]
    stores.hand_over("orders", **FORMATS)
    raises(StateStoreMigratedError, "", before.all)
    assert stores.resolve("orders").get(KEY) == NEW_VALUE


def test_an_iterator_of_a_handle_continues_after_dual_access_ends(stores: Stores, directory: Path) -> None:
    store = stores.open("orders", directory, **FORMATS)
    assert isinstance(store, DualReadStore)
    records = stores.resolve("orders").all()
    first = next(records)
    store.converge(None, None)
    assert [first[0], *(key for key, _ in records)] == sorted(RECORDS)


def test_while_it_is_opened_a_store_is_not_ready(stores: Stores, directory: Path) -> None:
    seen: list[str] = []

    def opener(path: Path) -> RocksStore:
        refused = raises(StoreNotReadyError, "", stores.resolve, "orders")
        seen.append(refused.message)
        return open_store(path, format=RAW, read_only=False)

    stores.open("orders", directory, opener=opener)
    stores.hand_over("orders", opener=opener)
    assert seen == ["the store 'orders' is being opened", "the store 'orders' is being handed over"]


def test_a_waiting_thread_continues_as_soon_as_the_store_runs(stores: Stores, directory: Path) -> None:
    may_open = threading.Event()
    values: list[bytes | None] = []

    def opener(path: Path) -> RocksStore:
        may_open.wait()
        return open_store(path, format=RAW, read_only=False)

    def wait() -> None:
        values.append(stores.wait_until_running("orders", 60).get(KEY))

    opening = threading.Thread(target=lambda: stores.open("orders", directory, opener=opener))
    waiting = threading.Thread(target=wait)
    waiting.start()
    opening.start()
    may_open.set()
    waiting.join()
    opening.join()
    assert values == [RECORDS[KEY]]


def test_a_timeout_names_the_reason(stores: Stores) -> None:
    with pytest.raises(StoreNotReadyError, match=r"after 0\.05 seconds there is no store 'orders'"):
        stores.wait_until_running("orders", 0.05)


def test_a_closed_store_is_said_to_be_closed(stores: Stores, directory: Path) -> None:
    store = stores.open("orders", directory, **FORMATS)
    handle = stores.resolve("orders")
    store.close()
    raises(StoreClosedError, "", handle.get, KEY)
    raises(StoreClosedError, "", stores.resolve, "orders")


def test_one_name_for_two_directories_is_refused(stores: Stores, directory: Path, tmp_path: Path) -> None:
    stores.open("orders", directory, **FORMATS)
    with pytest.raises(RefusedError, match=rf"'orders' is already used for {directory}, .*{tmp_path / 'other'}"):
        stores.open("orders", make_store(tmp_path / "other", RECORDS), **FORMATS)


def test_two_names_for_one_directory_are_refused(stores: Stores, directory: Path, tmp_path: Path) -> None:
    stores.open("orders", directory, **FORMATS)
    (tmp_path / "alias").symlink_to(directory)
    with pytest.raises(RefusedError, match=r"is already open as the store 'orders', and cannot be 'refunds' too"):
        stores.open("refunds", tmp_path / "new", old_path=tmp_path / "alias", **FORMATS)


def test_a_store_that_cannot_be_opened_leaves_its_name_free(stores: Stores, directory: Path, tmp_path: Path) -> None:
    with pytest.raises(RefusedError):
        stores.open("orders", tmp_path / "nothing", **FORMATS)
    stores.open("orders", directory, **FORMATS)


def test_a_failed_hand_over_is_reported_by_resolve(stores: Stores, directory: Path) -> None:
    stores.open("orders", directory, opener=open_store, format=KEY_VALUE, read_only=False)
    raises(RefusedError, "", stores.hand_over, "orders", opener=open_store, format=TIMESTAMPED)
    raises(StoreClosedError, "", stores.resolve, "orders")


def test_closing_them_all_frees_the_directories(directory: Path) -> None:
    with Stores() as stores:
        stores.open("orders", directory, **FORMATS)
    with DualReadStore.open(directory, **FORMATS) as again:
        assert again.get(KEY) == NEW_VALUE
