"""Gets of a key-value view, one by one and many at once, until the store is replaced."""

from pathlib import Path

import pytest

from formats import EntryError
from formats.serdes.text import StringSerde
from migrate.errors import StateStoreMigratedError
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.views.view_types import QueryableStoreTypes
from migrate.stores.files import exchange
from tests.support import KEY_VALUE, make_store

PARTITIONS = 3
RECORDS = {f"key-{number}": f"value {number}" for number in range(100)}
TEXT = StoreDefinition(KEY_VALUE, StringSerde(), StringSerde())


def application(folder: Path, mark: str = "") -> Path:
    for partition in range(PARTITIONS):
        own = {
            key.encode(): (mark + value).encode()
            for number, (key, value) in enumerate(RECORDS.items())
            if number % PARTITIONS == partition
        }
        make_store(folder / f"0_{partition}/rocksdb/orders", own)
    return folder


def test_many_keys_have_their_values_in_their_order(tmp_path: Path) -> None:
    stores = QueryableStores.of_directory(application(tmp_path), {"orders": TEXT})
    view = stores.store("orders", QueryableStoreTypes.key_value())
    asked = ["key-7", "absent", *reversed(RECORDS), "key-7"]
    assert view.multi_get(iter(asked)) == [view.get(key) for key in asked] == [RECORDS.get(key) for key in asked]
    assert view.multi_get([]) == []
    with pytest.raises(EntryError):
        view.multi_get(["key-1", 5])


def test_keys_without_a_serde_are_bytes(tmp_path: Path) -> None:
    stores = QueryableStores.of_directory(application(tmp_path), {"orders": StoreDefinition(KEY_VALUE)})
    view = stores.store("orders", QueryableStoreTypes.key_value())
    assert view.multi_get([b"key-7", b"key-8", b"absent"]) == [b"value 7", b"value 8", None]
    with pytest.raises(EntryError):
        view.get("key-7")


@pytest.mark.parametrize("refresh", [0, 60])
def test_after_an_exchange_of_one_partition_no_get_answers(tmp_path: Path, refresh: float) -> None:
    """Of the keys of that partition, whether it is time to look at the files again or not."""
    app, other = application(tmp_path / "app"), application(tmp_path / "other", "new ")
    stores = QueryableStores.of_directory(app, {"orders": TEXT}, refresh=refresh)
    view = stores.store("orders", QueryableStoreTypes.key_value())
    exchange(app / "0_1/rocksdb/orders", other / "0_1/rocksdb/orders")
    assert view.get("key-0") == "value 0"
    for asked in ("key-1", "absent"):
        with pytest.raises(StateStoreMigratedError):
            view.get(asked)
        with pytest.raises(StateStoreMigratedError):
            view.multi_get(["key-0", asked])
    again = stores.store("orders", QueryableStoreTypes.key_value())
    assert again.multi_get(["key-0", "key-1", "key-2"]) == ["value 0", "new value 1", "value 2"]
