"""A store that an application has open: answered where a request asks for what is on disk."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.serve.services import ORDERS, make_orders, orders_of, serving
from tests.shared.locks import WRITE_TO_STORE, another_process

_KEY = "/stores/orders/keys/order-001"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_orders(tmp_path / "app", 1)


def _owned(folder: Path) -> AbstractContextManager[int]:
    """An application that has the store open."""
    return another_process(WRITE_TO_STORE, folder / "0_0/rocksdb/orders")


def test_a_store_in_use_is_read_where_a_request_asks_for_it(folder: Path) -> None:
    with serving(orders_of(folder, stale=True, refresh=0), stale=False) as asked:
        assert "x-stateferry-as-of" not in asked.get(_KEY).headers
        with _owned(folder):
            for path in (_KEY, "/stores/orders/range", "/stores/orders/all"):
                assert "is in use by its application" in asked.problem(path, 503)
                assert asked.get(path).json()["next"].endswith("stale=true")
            newest = max(file.stat().st_mtime_ns for file in (folder / "0_0/rocksdb/orders").iterdir())
            for path in ("keys/order-001", "range", "all", "keys/flushed"):
                answer = asked.get(f"/stores/orders/{path}?stale=true")
                assert answer.status_code == 200
                assert 0 < int(answer.headers["x-stateferry-as-of"]) <= newest // 1_000_000
            etag = asked.get(_KEY + "?stale=true").headers["etag"]
            again = asked.get(_KEY + "?stale=true", if_none_match=etag)
            assert (again.status_code, "x-stateferry-as-of" in again.headers) == (304, True)
            assert asked.get(_KEY, if_none_match=etag).status_code == 503
        answer = asked.get("/stores/orders/keys/in%20memory")
        assert (answer.json()["value"], "x-stateferry-as-of" in answer.headers) == ("2", False)
        assert asked.get("/stores/orders/all").text.count("\n") == len(ORDERS) + 3


def test_a_service_may_read_stores_in_use_for_every_request(folder: Path) -> None:
    with serving(orders_of(folder, stale=True, refresh=0), stale=True) as asked, _owned(folder):
        assert asked.get(_KEY).headers["x-stateferry-as-of"]
