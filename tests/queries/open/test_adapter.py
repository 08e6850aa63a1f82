"""Stores that an adapter converts, read from its own process and from another one."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from migrate import DualReadStore, StateRecord, Stores
from migrate.errors import InvalidStateStoreError, StateStoreMigratedError, StoreNotReadyError
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from tests.queries.support import Bare, Readers, application, read, scanned, signed
from tests.shared.locks import another_adapter
from tests.support import KEY_VALUE, TIMESTAMPED, UNKNOWN_TIMESTAMP

OLD = signed(b"A", 30_000)
NEW = {key: UNKNOWN_TIMESTAMP + value for key, value in OLD.items()}
DEFINITION = {"orders": StoreDefinition(TIMESTAMPED)}
PLACE = Path("0_0/rocksdb/orders")


def moved_aside(app: Path, *, two: bool = True) -> Path | None:
    """The old one of two databases, moved aside for a new one in its place; None: one database holds both stores."""
    if not two:
        return None
    (app / PLACE).rename(app / PLACE.with_name("orders-before"))
    return app / PLACE.with_name("orders-before")


TWO = pytest.mark.parametrize("two", [False, True], ids=["one database", "two databases"])


@TWO
def test_eight_threads_of_the_adapters_process_miss_no_key_while_it_converges(tmp_path: Path, two: bool) -> None:
    app = application(tmp_path, records=OLD)
    with Stores() as stores:
        old_path = moved_aside(app, two=two)
        store = stores.open("orders", app / PLACE, source=KEY_VALUE, target=TIMESTAMPED, old_path=old_path)
        queries = QueryableStores.of_adapter(stores, DEFINITION)
        (before,) = queries.store("orders", Bare())
        with Readers(queries, "orders", [NEW]) as readers:
            while not store.is_converged:
                store.converge(2000, None)
        readers.assert_right()
        with pytest.raises(StateStoreMigratedError):
            read(before, b"key-000001")
        (after,) = queries.store("orders", Bare())
        assert read(after, b"key-000001") == NEW[b"key-000001"]
        with pytest.raises(StoreNotReadyError, match="there is no store 'other'"):
            QueryableStores.of_adapter(stores, {"other": DEFINITION["orders"]}).store("other", Bare())


@TWO
def test_eight_threads_of_another_process_miss_no_key_while_it_converges(tmp_path: Path, two: bool) -> None:
    app = application(tmp_path, records=OLD)
    old_path = moved_aside(app, two=two)
    with another_adapter(f"{app / PLACE}={old_path}" if old_path else str(app / PLACE)) as converge:
        with pytest.raises(StoreNotReadyError, match="is in use"):
            QueryableStores.of_directory(app, DEFINITION).store("orders", Bare())
        queries = QueryableStores.of_directory(app, DEFINITION, stale=True, refresh=0.05)
        (before,) = queries.store("orders", Bare())
        with Readers(queries, "orders", [NEW]) as readers:
            converge()
        readers.assert_right()
        with pytest.raises(StateStoreMigratedError):
            read(before, b"key-000001")
        (after,) = queries.store("orders", Bare())
        assert scanned(after) == NEW
        assert after.opened().as_of_ms is not None


def test_a_store_that_an_adapter_left_half_converged_is_read_as_what_it_becomes(tmp_path: Path) -> None:
    app = application(tmp_path, records=OLD)
    with DualReadStore.open(app / PLACE, source=KEY_VALUE, target=TIMESTAMPED) as store:
        store.converge(1000, None)
        store.put(b"key-020000", UNKNOWN_TIMESTAMP + b"newer")
        store.delete(b"key-020001")
    (partition,) = QueryableStores.of_directory(app, DEFINITION).store("orders", Bare())
    expected = {**NEW, b"key-020000": UNKNOWN_TIMESTAMP + b"newer"}
    del expected[b"key-020001"]
    assert scanned(partition) == expected
    assert read(partition, b"key-020001") is None
    with pytest.raises(InvalidStateStoreError, match=r"is half converged from .* and is defined as") as wrong:
        QueryableStores.of_directory(app, {"orders": StoreDefinition(KEY_VALUE)}).store("orders", Bare())
    assert TIMESTAMPED in wrong.value.hint


def test_the_function_of_the_adapter_is_named(tmp_path: Path) -> None:
    app = application(tmp_path, records={b"a": b"1", b"b": b"2"})

    def twice(record: StateRecord) -> StateRecord:
        return replace(record, value=record.value * 2)

    with DualReadStore.open(app / PLACE, source=KEY_VALUE, target=TIMESTAMPED, convert=twice) as store:
        store.converge(0, None)
    queries = QueryableStores.of_directory(app, DEFINITION, convert={"orders": twice})
    (partition,) = queries.store("orders", Bare())
    assert scanned(partition) == {b"a": UNKNOWN_TIMESTAMP + b"11", b"b": UNKNOWN_TIMESTAMP + b"22"}


def test_without_its_old_store_a_half_converged_one_is_not_read(tmp_path: Path) -> None:
    app = application(tmp_path, records=OLD)
    old_path = moved_aside(app)
    assert old_path is not None
    with DualReadStore.open(app / PLACE, source=KEY_VALUE, target=TIMESTAMPED, old_path=old_path) as store:
        store.converge(1000, None)
    shutil.move(old_path, tmp_path / "elsewhere")
    with pytest.raises(InvalidStateStoreError, match="the old store is not beside it"):
        QueryableStores.of_directory(app, DEFINITION).store("orders", Bare())
    (app / PLACE).rename(app / PLACE.with_name("orders-after"))
    shutil.move(tmp_path / "elsewhere", app / PLACE)
    with pytest.raises(InvalidStateStoreError, match="is the old store of an adapter"):
        QueryableStores.of_directory(app, DEFINITION).store("orders", Bare())
