"""Stores that are replaced while the service answers from them."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from migrate import cutover, run
from migrate.queries.open.partition import Partition
from migrate.queries.open.pinned import PinnedPartition
from migrate.queries.queryable_stores import QueryableStores
from migrate.stores.files import exchange
from tests.queries.open.test_migration import KilledError, kill_at
from tests.serve.services import ORDERS, Asked, make_orders, orders_of, serving, text_definition
from tests.support import KEY_VALUE, make_spec

KEY = "/stores/orders/keys/order-007"
NEW = {key: f"new {value}" for key, value in ORDERS.items()}
STORE = Path("0_0/rocksdb/orders")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store, and another one to take its place."""
    make_orders(tmp_path / "app", 1)
    make_orders(tmp_path / "other", 1, NEW)
    return tmp_path


@pytest.fixture
def asked(folder: Path) -> Iterator[Asked]:
    with serving(orders_of(folder / "app")) as asked:
        yield asked


def _exchange(folder: Path) -> None:
    exchange(folder / "app" / STORE, folder / "other" / STORE)


def test_a_query_after_an_exchange_is_answered_from_the_other_store(folder: Path, asked: Asked) -> None:
    first = asked.get(KEY)
    assert first.json()["value"] == "value 7"
    for expected in ("new value 7", "value 7"):
        _exchange(folder)
        again = asked.get(KEY, if_none_match=first.headers["etag"] if expected != "value 7" else '"none"')
        assert (again.status_code, again.json()["value"]) == (200, expected)
    assert again.headers["etag"] == first.headers["etag"]
    assert asked.metric("retries_total") == 2


def test_in_the_middle_of_a_cut_over_to_versions_each_partition_answers_in_its_own_format(tmp_path: Path) -> None:
    app, versioned = make_orders(tmp_path / "app"), "kafka-streams.versioned"
    sections = {"source": {"stores": ["orders"]}, "target": {"path": None}, "conversion": {"default_timestamp_ms": 7}}
    spec = make_spec(tmp_path, app, source_format=KEY_VALUE, target_format=versioned, **sections)
    run(spec)
    with pytest.raises(KilledError):
        cutover(spec, on_event=kill_at("cutover.exchanged", 1))
    with serving(QueryableStores.of_migration(spec)) as asked:
        keys = "/stores/orders/keys/{}?encoding=text"
        found = [asked.found(keys.format(f"order-00{number}")) for number in range(2)]
        assert [each.get("timestamp") for each in found] == [7, None]
        asked.problem(keys.format("none"), 404)
        assert "as_of asks a versioned store" in asked.problem(f"{keys.format('order-000')}&as_of=7", 400)


def test_a_cursor_of_before_an_exchange_is_a_conflict(folder: Path, asked: Asked) -> None:
    cursor = asked.found("/stores/orders/range?limit=10")["cursor"]
    _exchange(folder)
    sentence = asked.problem(f"/stores/orders/range?limit=10&cursor={cursor}", 409)
    assert sentence.startswith("the store was replaced since this cursor was made")
    assert asked.found("/stores/orders/range?limit=1")["records"][0]["value"] == "new value 0"


def test_a_store_that_is_missing_for_longer_is_unavailable(folder: Path, asked: Asked) -> None:
    assert asked.found(KEY)["value"] == "value 7"
    away = folder / "away"
    (folder / "app" / STORE).rename(away)
    sentence = asked.problem(KEY, 503)
    assert "0_0/orders" in sentence
    asked.problem("/stores/orders/range", 503)
    asked.problem("/stores/orders/all", 503)
    away.rename(folder / "app" / STORE)
    assert asked.found(KEY)["value"] == "value 7"


def test_a_scan_that_an_exchange_breaks_off_says_so(folder: Path) -> None:
    big = {f"order-{number:06d}": "x" * 1000 for number in range(20_000)}
    shutil.rmtree(folder / "app")
    make_orders(folder / "app", 1, big)
    with serving(orders_of(folder / "app")) as asked:
        with asked.client.stream("GET", asked.url + "/stores/orders/all") as answer:
            lines = answer.iter_lines()
            next(lines)
            _exchange(folder)
            *_, last = lines
        problem = json.loads(last)["error"]
        assert (problem["status"], problem["error"]) == (503, "StateStoreMigratedError")
        *_, end = asked.get("/stores/orders/all").text.splitlines()
        assert json.loads(end) == {"end": True, "records": len(NEW)}


def test_two_exchanges_leave_no_file_of_the_service_open_for_long(folder: Path, asked: Asked) -> None:
    for _ in range(4):
        asked.found(KEY)
        _exchange(folder)
    asked.found(KEY)
    targets = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    held = [each for each in targets if str(folder / "other") in str(each) and each.suffix == ".sst"]
    assert held == []


class _SlowlyOpened(QueryableStores):
    """Opens a store again only once it may."""

    may_open = threading.Event()
    opening = 0

    def partitions(self, name: str) -> list[Partition]:
        self.opening += 1
        assert self.may_open.wait(60)
        return super().partitions(name)


def test_others_are_answered_while_a_store_is_opened_again(folder: Path) -> None:
    """Also where a second request meets the switch while the first one opens the store."""
    stores = _SlowlyOpened.of_directory(folder / "app", {"orders": text_definition(), "others": text_definition()})
    shutil.copytree(folder / "app" / STORE, folder / "app" / STORE.parent / "others")
    assert isinstance(stores, _SlowlyOpened)
    stores.may_open.set()
    with serving(stores) as asked, ThreadPoolExecutor(40) as pool:
        limit = "/stores/orders/range?limit=300"
        stores.may_open.clear()
        for _ in range(3):
            opened = stores.opening
            begun = [pool.submit(asked.get, limit if number % 2 else KEY) for number in range(40)]
            _exchange(folder)
            begun += [pool.submit(asked.get, KEY) for _ in range(20)]
            while stores.opening == opened:
                time.sleep(0.005)
            for _ in range(10):
                assert asked.found("/stores/others/keys/order-007")["value"] == "value 7"
                assert asked.found("/health") == {"status": "ok"}
            stores.may_open.set()
            assert {each.result().status_code for each in begun} <= {200, 503}  # too many pages at one time
            assert stores.opening == opened + 1
            stores.may_open.clear()
        stores.may_open.set()


def test_others_are_answered_while_the_files_of_a_store_are_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_looked_at, may_look, look = threading.Event(), threading.Event(), PinnedPartition._look

    def slowly(partition: PinnedPartition) -> None:
        is_looked_at.set()
        assert may_look.wait(60)
        look(partition)

    with serving(orders_of(folder / "app", refresh=0.0)) as asked, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(PinnedPartition, "_look", slowly)
        try:
            begun = pool.submit(asked.get, KEY)
            assert is_looked_at.wait(60)
            assert asked.client.get(f"{asked.url}/health", timeout=30.0).json() == {"status": "ok"}
            assert not begun.done()
        finally:
            may_look.set()
        assert begun.result().json()["value"] == "value 7"
