"""Stores in directories: found, opened, looked at again, and noticed when they are replaced."""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from migrate.errors import (
    CorruptionError,
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    StateStoreMigratedError,
    StoreNotReadyError,
    UnknownStateStoreError,
)
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.views.view_types import QueryableStoreTypes
from migrate.stores.files import exchange
from migrate.stores.rocksdb import database
from tests.queries.support import ORDERS, Bare, Readers, application, read, scanned, signed
from tests.shared.locks import WRITE_TO_STORE, another_process
from tests.support import (
    KEY_VALUE,
    TIMESTAMPED,
    copy_fixture,
    fixture_records,
    flip_byte,
    make_store,
    open_store,
)

PLACE = Path("0_0/rocksdb/orders")


def test_the_stores_of_an_application_are_read_by_task(tmp_path: Path) -> None:
    stores = QueryableStores.of_directory(copy_fixture(tmp_path), {"orders": ORDERS})
    partitions = stores.store("orders", Bare(KEY_VALUE))
    assert [(each.id, each.number) for each in partitions] == [("0_0/orders", 0), ("0_1/orders", 1), ("0_2/orders", 2)]
    for each in partitions:
        found = scanned(each)
        expected = fixture_records(each.id.partition("/")[0], "orders")
        assert found.keys() == {key for key, _, _ in expected}
        assert each.opened().as_of_ms is None
    assert stores.store("orders", Bare(), partition=2)[0].id == "0_2/orders"
    with pytest.raises(InvalidStateStorePartitionError, match=r"partition 7 of .*'orders'.* \(here: 0, 1, 2\)"):
        stores.store("orders", Bare(), partition=7)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    app = application(tmp_path)
    stores = QueryableStores.of_directory(app, {"orders": ORDERS, "ordres": ORDERS})
    with pytest.raises(UnknownStateStoreError, match="there are: orders, ordres"):
        stores.definition("other")
    with pytest.raises(UnknownStateStoreError, match="did you mean 'orders'"):
        stores.store("ordres", Bare())
    with pytest.raises(InvalidStateStoreError, match="cannot get the state store 'orders'"):
        stores.store("orders", Bare(TIMESTAMPED))
    wrong = QueryableStores.of_directory(app, {"orders": StoreDefinition(TIMESTAMPED)})
    with pytest.raises(InvalidStateStoreError, match=r"is not kafka-streams\.timestamped-key-value: it has no"):
        wrong.store("orders", Bare())


def test_a_directory_by_itself_has_a_name_of_ones_own(tmp_path: Path) -> None:
    make_store(tmp_path / "db", signed(b"A"))
    stores = QueryableStores.of_directory(tmp_path / "db", {"mine": StoreDefinition("rocksdb.raw")})
    (partition,) = stores.store("mine", Bare())
    assert partition.number is None
    assert scanned(partition) == signed(b"A")


def test_a_replaced_store_is_noticed_at_the_next_use_and_resolved_again(tmp_path: Path) -> None:
    app = application(tmp_path)
    make_store(tmp_path / "b", signed(b"B"))
    stores = QueryableStores.of_directory(app, {"orders": ORDERS})
    (before,) = stores.store("orders", Bare())
    opened = before.opened()
    exchange(app / PLACE, tmp_path / "b")
    assert opened.segments[0].entries.get(b"key-000001") == signed(b"A")[b"key-000001"]
    with pytest.raises(StateStoreMigratedError, match="resolve it again"):
        read(before, b"key-000001")
    (after,) = stores.store("orders", Bare())
    assert scanned(after) == signed(b"B")
    assert after.opened().tag != opened.tag
    exchange(app / PLACE, tmp_path / "b")
    with pytest.raises(StateStoreMigratedError):
        before.opened()  # it stays so, even where the same store is back


def test_a_store_that_is_away_for_an_instant_is_not_ready(tmp_path: Path) -> None:
    app = application(tmp_path)
    stores = QueryableStores.of_directory(app, {"orders": ORDERS})
    (partition,) = stores.store("orders", Bare())
    (app / PLACE).rename(tmp_path / "aside")
    with pytest.raises(StoreNotReadyError, match="is being moved, or was removed"):
        partition.opened()
    (app / "0_0/rocksdb/other").mkdir()
    with pytest.raises((StoreNotReadyError, UnknownStateStoreError)):
        stores.store("orders", Bare())
    (tmp_path / "aside").rename(app / PLACE)
    assert read(partition, b"key-000001") == signed(b"A")[b"key-000001"]


def test_what_its_owner_wrote_since_is_read_after_the_next_look(tmp_path: Path) -> None:
    app = application(tmp_path)
    stores = QueryableStores.of_directory(app, {"orders": ORDERS}, refresh=0)
    (partition,) = stores.store("orders", Bare())
    first = partition.opened()
    assert partition.opened() is first
    with open_store(app / PLACE) as written:
        written[b"new"] = b"record"
    assert read(partition, b"new") == b"record"
    assert partition.opened().tag != first.tag
    assert first.segments[0].entries.get(b"new") is None


def test_beside_a_running_owner_stale_reads_what_is_in_the_files(tmp_path: Path) -> None:
    app = application(tmp_path)
    with another_process(WRITE_TO_STORE, app / PLACE) as owner:
        with pytest.raises(StoreNotReadyError, match=f"is in use: process {owner} holds") as refused:
            QueryableStores.of_directory(app, {"orders": ORDERS}).store("orders", Bare())
        assert "stale=True" in refused.value.hint
        stores = QueryableStores.of_directory(app, {"orders": ORDERS}, stale=True, refresh=0)
        (stale,), view = stores.store("orders", Bare()), stores.store("orders", QueryableStoreTypes.key_value())
        assert read(stale, b"flushed") == b"1"
        newest = max(file.stat().st_mtime_ns for file in (app / PLACE).iterdir() if file.name[0].isdigit())
        assert (stale.opened().as_of_ms or 0) >= newest // 1_000_000
        assert view.as_of_ms == stale.opened().as_of_ms
    assert stale.opened().as_of_ms is None
    assert view.as_of_ms is None
    assert (stale.opened().written_ms or 0) >= newest // 1_000_000
    (partition,) = QueryableStores.of_directory(app, {"orders": ORDERS}).store("orders", Bare())
    assert partition.opened().as_of_ms is None


def test_what_was_open_is_not_read_further_once_an_owner_writes(tmp_path: Path) -> None:
    app = application(tmp_path)
    (partition,) = QueryableStores.of_directory(app, {"orders": ORDERS}, refresh=0).store("orders", Bare())
    with another_process(WRITE_TO_STORE, app / PLACE):
        for _ in range(2):
            with pytest.raises(StoreNotReadyError, match="is in use"):
                partition.opened()
    assert read(partition, b"flushed") == b"1"


def test_segments_that_come_and_go_are_followed(tmp_path: Path) -> None:
    folder = tmp_path / "app" / "0_0" / "visits"
    folder.mkdir(parents=True)
    for start in (0, 60_000):
        make_store(folder / f"visits.{start}", {b"k%d" % start: b"v"})
    stores = QueryableStores.of_directory(
        tmp_path / "app", {"visits": StoreDefinition("kafka-streams.window")}, refresh=0
    )
    (partition,) = stores.store("visits", Bare())
    assert [each.start_ms for each in partition.opened().segments] == [0, 60_000]
    kept = partition.opened().segments[1].entries
    make_store(folder / "visits.120000", {b"k120000": b"v"})
    shutil.rmtree(folder / "visits.0")
    opened = partition.opened()
    assert [each.start_ms for each in opened.segments] == [60_000, 120_000]
    assert opened.segments[0].entries is kept
    assert scanned(partition) == {b"k60000": b"v", b"k120000": b"v"}


def test_a_low_limit_of_open_files_is_named(tmp_path: Path) -> None:
    app = application(tmp_path, records={})
    with open_store(app / PLACE) as written:
        for number in range(150):
            written[b"%d" % number] = b"v"
            written.flush(True)
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))\n"
        "from migrate import QueryableStores, StoreDefinition\n"
        f"stores = QueryableStores.of_directory({str(app)!r}, {{'orders': StoreDefinition({ORDERS.format!r})}})\n"
        "stores.partitions('orders')\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "has 150 tables, which queries hold open; this process has" in ended.stderr
    assert "raise the limit of open files: ulimit -n 4096" in ended.stderr


def test_eight_readers_through_repeated_exchanges_never_get_an_answer_of_another_store(tmp_path: Path) -> None:
    app = application(tmp_path)
    make_store(tmp_path / "b", signed(b"B"))
    stores = QueryableStores.of_directory(app, {"orders": ORDERS}, refresh=0.005)
    with Readers(stores, "orders", [signed(b"A"), signed(b"B")], 100) as readers:
        for _ in range(300):
            exchange(app / PLACE, tmp_path / "b")
            time.sleep(0.01)
    readers.assert_right()


def test_a_damaged_block_is_no_missing_key(tmp_path: Path) -> None:
    app = application(tmp_path)
    (table,) = (app / PLACE).glob("*.sst")
    flip_byte(table, 100)
    (partition,) = QueryableStores.of_directory(app, {"orders": ORDERS}).store("orders", Bare())
    with pytest.raises(CorruptionError, match=r"orders cannot be read beyond the key .*: Corruption"):
        read(partition, b"key-000001")
    with pytest.raises(CorruptionError):
        scanned(partition)
    with pytest.raises(TypeError, match="keys are bytes"):
        read(partition, "key-000001")  # type: ignore[arg-type]


def test_an_exchange_and_back_while_it_opens_leaves_it_one_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No look at names before and after can notice that."""
    app = application(tmp_path)
    make_store(tmp_path / "b", signed(b"B"))
    opening = database._open_rocksdb

    def opened_meanwhile(*arguments: Any) -> object:  # noqa: ANN401
        exchange(app / PLACE, tmp_path / "b")
        try:
            return opening(*arguments)
        finally:
            exchange(app / PLACE, tmp_path / "b")

    monkeypatch.setattr(database, "_open_rocksdb", opened_meanwhile)
    (partition,) = QueryableStores.of_directory(app, {"orders": ORDERS}).store("orders", Bare())
    assert scanned(partition) == signed(b"A")
