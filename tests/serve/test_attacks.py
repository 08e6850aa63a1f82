"""Clients that mean harm: requests for other hosts, answers that nobody reads, more requests than can be answered."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from formats.serdes.text import StringSerde
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.serve.http_messages import Limits
from tests.serve.processes import OF_ORDERS, PARTITIONS, free_addresses, make_host, partition_of, served
from tests.serve.services import (
    ORDERS,
    Asked,
    make_orders,
    orders_of,
    rest,
    serving,
    stopped,
    text_definition,
)
from tests.serve.test_foreign_peers import running_peer
from tests.shared.following import await_it
from tests.shared.windowed import make_segments, session_key, session_time, window_key, window_time
from tests.support import KEY_VALUE, make_store

_KEY = next(key for key in ORDERS if partition_of(key) == 3)


def _raw(asked: Asked, target: str, method: str = "GET", *headers: str) -> bytes:
    head = [f"{method} {target} HTTP/1.1", *(headers or ("Host: localhost",)), "Connection: close", "", ""]
    return asked.raw("\r\n".join(head).encode())


def test_no_request_leads_to_another_host(tmp_path: Path) -> None:
    first, second = free_addresses(2)
    make_host(tmp_path / "first", {0: "", 1: ""})
    make_host(tmp_path / "second", {2: "", 3: ""})
    options = (*OF_ORDERS, "--peer", f"{first}=0,1", "--peer", f"{second}=2,3", "--partitions", str(PARTITIONS))
    with (
        running_peer() as peer,
        served(tmp_path / "first", first, *options) as asked,
        served(tmp_path / "second", second, *options),
    ):
        canary, path = peer.address, f"stores/orders/keys/{_KEY}"
        peer.answer = b'HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{"key":1,"value":"aha"}'
        for lead in ("*@{}/", "@{}/", "%40{}/", "//{}/", "/@{}/", "/%2f{}/", "\\\\@{}/", "/\\@{}/", ".{}/", "?@{}/"):
            answer = _raw(asked, lead.format(canary) + path)
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ")), (lead, answer)
        for target in (f"/stores/orders/keys/@{canary}/{_KEY}", f"/stores/orders/keys/%40{canary}%2f..%5c{_KEY}"):
            assert b" 404 Not Found\r\n" in _raw(asked, target), target
        for lead in (f"http://{canary}/", f"http://localhost@{canary}/", f"https://{canary}/"):
            answer = _raw(asked, lead + path)  # the same as its path
            assert answer.startswith(b"HTTP/1.1 200 "), (lead, answer)
            assert ORDERS[_KEY].encode() in answer
        for method, target in (("CONNECT", canary), ("OPTIONS", "*"), ("GET", "*"), ("TRACE", f"http://{canary}/")):
            assert _raw(asked, target, method).startswith(b"HTTP/1.1 4"), (method, target)
        assert asked.found(f"/{path}")["value"] == ORDERS[_KEY]
        assert peer.asked == []


def test_a_forwarded_key_stays_the_key_that_it_is(tmp_path: Path) -> None:
    """Whatever it does to a path."""
    keys = ("..", ".", "a/../b", "//x", "@x", "a%2Fb", "?", "#", "ä\\", "http://y/")
    first, second = free_addresses(2)
    records: dict[int, dict[bytes, bytes]] = {number: {} for number in range(PARTITIONS)}
    for key in keys:
        records[partition_of(key)][key.encode()] = key.encode()
    for number, own in records.items():
        make_store(tmp_path / "second" / f"0_{number}" / "rocksdb" / "orders", own)
    make_store(tmp_path / "first" / "0_9" / "rocksdb" / "orders", {})
    options = (*OF_ORDERS, "--peer", f"{second}=0-3", "--peer", f"{first}=9", "--partitions", "4")
    with served(tmp_path / "first", first, *options) as asked, served(tmp_path / "second", second, *options):
        for key in keys:
            quoted = "".join(f"%{byte:02x}" for byte in key.encode())
            for text in {quoted, key if key in ("..", ".", "@x") else quoted}:
                answer = _raw(asked, f"/stores/orders/keys/{text}")
                assert answer.startswith(b"HTTP/1.1 200 "), (key, answer)
                assert json.loads(answer.rpartition(b"\r\n\r\n")[2])["value"] == key


def test_a_token_that_is_given_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEFERRY_TOKEN", "secret-token")
    shown = ("Host: localhost", "Authorization: Bearer secret-token")
    with serving(orders_of(make_orders(tmp_path / "app", 1))) as asked:
        assert _raw(asked, "/stores", "GET", *shown).startswith(b"HTTP/1.1 200 ")
        for more in ("Authorization: other", shown[1]):
            answer = _raw(asked, "/stores", "GET", *shown, more)
            assert answer.startswith(b"HTTP/1.1 400 "), answer
            assert b"the request has 2 Authorization headers" in answer


@pytest.mark.parametrize("body", [b"0\r\na: ", b"0\r\n", b"5;"], ids=["field", "fields", "extension"])
@pytest.mark.parametrize("method, more, status", [("GET", "", 411), ("POST", "", 411), ("GET", "Host: other\r\n", 400)])
def test_a_body_without_a_stated_length_is_not_read(
    tmp_path: Path, body: bytes, method: str, more: str, status: int
) -> None:
    """Fields may follow it, which would be kept as long as the connection is open."""
    head = f"{method} /health HTTP/1.1\r\nHost: localhost\r\n{more}Transfer-Encoding: chunked\r\n\r\n"
    piece = b"abc: defghijkl\r\n" * 4096
    with serving(orders_of(make_orders(tmp_path / "app", 1))) as asked:
        with socket.create_connection(asked.address, timeout=60) as connection:
            connection.sendall(head.encode() + body)
            answer = connection.recv(1 << 16)
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
            assert b"\r\nconnection: close\r\n" in answer.lower()
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                for _ in range(1024):  # 64 MiB: more than the buffers of a connection hold
                    connection.sendall(piece)
        assert asked.found("/health") == {"status": "ok"}


def test_a_request_behind_a_scan_that_nobody_reads_is_not_read(pages: Path) -> None:
    """In the same packet, with fields behind its body that do not end."""
    head = "GET {} HTTP/1.1\r\nHost: localhost\r\n"
    scan, behind = head.format("/stores/orders/all"), head.format("/health")
    piece = b"abc: defghijkl\r\n" * 4096
    with serving(orders_of(pages)) as asked:
        with socket.create_connection(asked.address) as connection:
            connection.sendall(f"{scan}\r\n{behind}Transfer-Encoding: chunked\r\n\r\n0\r\n".encode())
            connection.settimeout(1.0)
            with pytest.raises(TimeoutError):
                for _ in range(1024):  # 64 MiB: more than the buffers of a connection hold
                    connection.sendall(piece)
        assert asked.found("/health") == {"status": "ok"}


class _Waiting(StringSerde):
    """Reads values once it may, and tells in which thread."""

    may_read: ClassVar = threading.Event()
    threads: ClassVar[dict[int, str]] = {}

    def decode(self, payload: bytes) -> str:
        self.threads[len(payload)] = threading.current_thread().name
        if len(payload) > 1000:
            assert self.may_read.wait(60)
        return payload.decode()


def _sizes(folder: Path, sizes: list[int]) -> Path:
    make_store(folder / "0_0/rocksdb/orders", {f"v{size}".encode(): b"x" * size for size in sizes})
    return folder


@contextmanager
def _waiting(
    folder: Path, sizes: list[int], limits: Limits, *, refresh: float = 0.5
) -> Iterator[tuple[Asked, _Waiting]]:
    serde = _Waiting()
    definitions = {"orders": StoreDefinition(KEY_VALUE, StringSerde(), serde)}
    stores = QueryableStores.of_directory(_sizes(folder, sizes), definitions, refresh=refresh)
    with serving(stores, limits=limits) as asked:
        _Waiting.may_read.clear()
        _Waiting.threads.clear()
        try:
            yield asked, serde
        finally:
            _Waiting.may_read.set()


def test_a_large_value_holds_nobody_up(tmp_path: Path) -> None:
    """It is read while others are answered, one at a time, and counted before it is."""
    limits = Limits(large_bytes=5000, held_bytes=1 << 20)
    with _waiting(tmp_path, [7, 300_000, 2 << 20], limits) as (asked, serde), ThreadPoolExecutor(3) as pool:
        large = [pool.submit(httpx.get, f"{asked.url}/stores/orders/keys/v300000", timeout=60.0) for _ in range(3)]
        await_it(lambda: asked.metric("held_bytes") == 900_000)
        assert asked.found("/stores/orders/keys/v7")["value"] == "x" * 7
        assert "would hold more than 1 MiB" in asked.problem("/stores/orders/keys/v300000", 503)
        assert "the answer is larger than 1 MiB" in asked.problem("/stores/orders/keys/v2097152", 503)
        _Waiting.may_read.set()
        assert [len(each.result().json()["value"]) for each in large] == [300_000] * 3
        assert serde.threads[300_000] == "stateferry-large_0"
        assert serde.threads[7] != serde.threads[300_000]
    assert serde.threads.keys() == {7, 300_000}


def test_as_many_scans_as_there_may_be_hold_nobody_up(tmp_path: Path) -> None:
    """Nor a query that is due to look at the store's files, which a thread does."""
    with _waiting(tmp_path, [7, 300_000], Limits(scans=2), refresh=0.0) as (asked, _), ThreadPoolExecutor(2) as pool:
        scans = [pool.submit(asked.get, "/stores/orders/range") for _ in range(2)]
        await_it(lambda: asked.metric("scans") == 2)
        answer = asked.client.get(f"{asked.url}/stores/orders/keys/v7", timeout=30.0)
        assert answer.json()["value"] == "x" * 7
        assert asked.found("/stores/orders")["partitions"]
        assert not any(each.done() for each in scans)
        _Waiting.may_read.set()
        assert [each.result().status_code for each in scans] == [200, 200]


def test_more_requests_than_can_be_answered_are_to_come_again(tmp_path: Path) -> None:
    limits = Limits(large_bytes=5000, requests=3)
    with _waiting(tmp_path, [7, 300_000], limits) as (asked, _), ThreadPoolExecutor(3) as pool:
        large = [pool.submit(httpx.get, f"{asked.url}/stores/orders/keys/v300000", timeout=60.0) for _ in range(3)]
        await_it(lambda: asked.get("/stores/orders/keys/v7").status_code == 503)
        assert "3 requests are being answered" in asked.problem("/stores/orders/keys/v7", 503)
        assert asked.found("/health") == {"status": "ok"}
        _Waiting.may_read.set()
        assert [each.result().status_code for each in large] == [200] * 3
        assert asked.found("/stores/orders/keys/v7")["value"] == "x" * 7


_PAGE = "/stores/orders/range?limit=100"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of which a page has 7 MB: more than the buffers of a connection hold."""
    records = {f"order-{number:03d}": "x" * 70_000 for number in range(100)}
    return make_orders(tmp_path_factory.mktemp("pages") / "app", 1, records)


def test_answers_that_nobody_reads_are_held_up_to_a_limit(pages: Path) -> None:
    with serving(orders_of(pages), limits=Limits(held_bytes=16 << 20)) as asked, ExitStack() as clients:
        for number in (1, 2):
            clients.enter_context(stopped(asked, _PAGE))
            await_it(lambda least=number * 7_000_000: asked.metric("held_bytes") > least)  # type: ignore[misc]
        for _ in range(3):
            assert "would hold more than 16 MiB" in asked.problem(_PAGE, 503)
        assert asked.found("/stores/orders/range?limit=1")["cursor"]
        clients.close()
        await_it(lambda: asked.metric("held_bytes") == 0)
        assert len(asked.found(_PAGE)["records"]) == 100


def test_the_lines_of_a_scan_are_held_until_they_are_sent(pages: Path) -> None:
    with serving(orders_of(pages)) as asked:
        with stopped(asked, "/stores/orders/all"):
            await_it(lambda: asked.metric("held_bytes") > 250_000)
        await_it(lambda: asked.metric("held_bytes") == 0)


def test_a_client_that_reads_slowly_has_so_long_for_all_of_an_answer(pages: Path) -> None:
    """It takes a little each time, so that it never stops for long."""
    with serving(orders_of(pages), limits=Limits(answer_seconds=5.0)) as asked, stopped(asked, _PAGE) as client:
        await_it(lambda: asked.metric("held_bytes") > 7_000_000)
        received = b""
        while asked.metric("held_bytes"):
            received += client.recv(1 << 10)
            time.sleep(0.01)
        head, _, body = (received + rest(client)).partition(b"\r\n\r\n")
        size = re.search(rb"content-length: (\d+)", head)
        assert size is not None
        assert len(body) < int(size[1])
        assert asked.found("/health") == {"status": "ok"}


@pytest.mark.parametrize("path", ["keys/v300000", "range"])
def test_an_answer_that_takes_too_long_to_make_is_none(tmp_path: Path, path: str) -> None:
    with _waiting(tmp_path, [300_000], Limits(answer_seconds=0.2)) as (asked, _):
        assert "takes longer than 0.2 s" in asked.problem(f"/stores/orders/{path}", 503)
        assert asked.metric("held_bytes") == 0


@pytest.mark.parametrize("kind", ["windows", "sessions"])
def test_the_times_of_a_key_end_at_their_bytes_and_go_on(tmp_path: Path, kind: str) -> None:
    make, time_in = (window_key, window_time) if kind == "windows" else (session_key, session_time)
    times = range(0, 4000, 10)
    records = {make(b"a", at, 0 if kind == "windows" else at): b"x" * 1000 for at in times}
    make_segments(tmp_path / "0_0" / "times", records, 60_000, time=time_in)
    definition = text_definition(f"kafka-streams.{kind.removesuffix('s')}")
    stores = QueryableStores.of_directory(tmp_path, {"times": definition})
    with serving(stores, limits=Limits(answer_bytes=100_000)) as asked:
        found: list[int] = []
        start, is_complete = 0, False
        while not is_complete:
            answer = asked.get(f"/stores/times/{kind}/a?from={start}")
            assert len(answer.content) < 110_000
            records, is_complete = answer.json()["records"], answer.json()["complete"]
            found += [each["window"]["start"] for each in records]
            start = found[-1] + 1
        assert found == [*times]
