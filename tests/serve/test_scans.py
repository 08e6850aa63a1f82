"""Streamed scans: their limits, clients that stop reading, and point queries beside them."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from migrate.serve.http_messages import Limits
from tests.serve.services import Asked, make_orders, orders_of, rest, serving, stopped
from tests.shared.following import await_it

KEYS = [f"order-{number:06d}" for number in range(40_000)]
RECORD = "x" * 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 MB in one partition: more than the buffers of a connection hold."""
    return make_orders(tmp_path_factory.mktemp("scans") / "app", 1, dict.fromkeys(KEYS, RECORD))


@pytest.fixture
def asked(folder: Path) -> Iterator[Asked]:
    limits = Limits(scans=2)
    with serving(orders_of(folder), limits=limits) as asked:
        yield asked


def _rss_mib() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) // 1024


def test_a_scan_that_nobody_reads_ends_at_its_time(folder: Path) -> None:
    limits = Limits(scan_seconds=0.5, answer_seconds=0.5)
    with serving(orders_of(folder), limits=limits) as asked, stopped(asked) as client:
        await_it(lambda: asked.metric('seconds_count{endpoint="all"}') == 1)
        assert asked.metric("scans") == 0
        received = rest(client)
        assert b'"end"' not in received[-200:]
        assert not received.endswith(b"0\r\n\r\n")


def test_a_client_that_goes_away_ends_its_scan(asked: Asked) -> None:
    with stopped(asked):
        await_it(lambda: asked.metric("scans") == 1)
    await_it(lambda: asked.metric("scans") == 0)
    await_it(lambda: asked.metric("streamed_records_total") > 0)
    assert asked.metric("streamed_records_total") < len(KEYS)


def test_scans_beyond_the_limit_are_to_come_again(asked: Asked) -> None:
    with stopped(asked), stopped(asked):
        await_it(lambda: asked.metric("scans") == 2)
        for path in ("/stores/orders/all", "/stores/orders/range"):
            assert asked.problem(path, 503) == "2 scans are being read, which is the limit"
        assert asked.found(f"/stores/orders/keys/{KEYS[7]}")["value"] == RECORD
    await_it(lambda: asked.metric("scans") == 0)
    assert asked.get("/stores/orders/range").status_code == 200


def test_a_scan_that_takes_too_long_says_so(folder: Path) -> None:
    with serving(orders_of(folder), limits=Limits(scan_seconds=0.0)) as asked:
        *records, last = asked.get("/stores/orders/all").text.splitlines()
    assert 0 < len(records) < len(KEYS)
    assert json.loads(last)["error"]["detail"] == "the scan took longer than 0 s"


def test_a_page_ends_at_its_bytes_and_goes_on_by_its_cursor(folder: Path) -> None:
    with serving(orders_of(folder), limits=Limits(answer_bytes=20_000)) as asked:
        page = asked.found("/stores/orders/range?limit=10000")
        count = len(page["records"])
        assert 15 < count < 25
        following = asked.found(f"/stores/orders/range?limit=10000&cursor={page['cursor']}")
        assert following["records"][0]["key"] == KEYS[count]


def test_memory_stays_flat_while_clients_are_slow(folder: Path) -> None:
    """One of each five megabytes is read before the client stops: the rest must not wait in memory."""
    with serving(orders_of(folder), limits=Limits(scans=8)) as asked:
        asked.get("/stores/orders/all")
        before = _rss_mib()
        clients = [stopped(asked) for _ in range(8)]
        await_it(lambda: asked.metric("scans") == 8)
        time.sleep(1.0)
        assert _rss_mib() - before < 60
        for client in clients:
            client.close()
        await_it(lambda: asked.metric("scans") == 0)


def test_point_queries_are_answered_beside_scans(folder: Path) -> None:
    with serving(orders_of(folder), limits=Limits(scans=8)) as asked, ThreadPoolExecutor(2) as pool:
        scans = [pool.submit(asked.get, "/stores/orders/all") for _ in range(2)]
        await_it(lambda: asked.metric("scans") > 0)
        answered = 0
        while not any(scan.done() for scan in scans):
            assert asked.found(f"/stores/orders/keys/{KEYS[answered]}")["key"] == KEYS[answered]
            answered += 1
        assert answered > 5
        for scan in scans:
            assert json.loads(scan.result().text.splitlines()[-1]) == {"end": True, "records": len(KEYS)}
