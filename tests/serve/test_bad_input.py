"""What the service refuses, each with its status and a sentence that says what to do."""

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from formats.serde import BYTES
from formats.serdes.numeric import NumberSerde
from migrate.errors import RefusedError, SpecError
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.serve.http_messages import Limits
from migrate.serve.server import listening
from tests.serve.services import Asked, make_orders, orders_of, serving, text_definition
from tests.shared.windowed import make_segments, window_key
from tests.support import KEY_VALUE, make_store

WINDOW = "kafka-streams.window"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A key-value store, the same as bytes and as numbers, another one, and a window store."""
    folder = make_orders(tmp_path_factory.mktemp("bad") / "app")
    make_store(folder / "0_0" / "rocksdb" / "customers", {b"a": b"b"})
    make_store(folder / "0_0" / "rocksdb" / "numbers", {b"\0\0\0\x07": b"\xff\xfe"})
    make_segments(folder / "0_0" / "windows", {window_key(b"a", 0): b"v"}, 60_000)
    definitions = {
        "orders": text_definition(),
        "customers": text_definition(),
        "numbers": StoreDefinition(KEY_VALUE, NumberSerde("int32"), text_definition().value),
        "raw": StoreDefinition(KEY_VALUE, BYTES, BYTES),
        "windows": text_definition(WINDOW),
    }
    make_store(folder / "0_0" / "rocksdb" / "raw", {b"a": b"b"})
    with serving(QueryableStores.of_directory(folder, definitions)) as asked:
        yield asked


@pytest.mark.parametrize(
    "path, status, sentence",
    [
        (
            "/stores/nothing",
            404,
            "there is no state store 'nothing' (there are: customers, numbers, orders, raw, windows)",
        ),
        ("/stores/nothing/keys/a", 404, "there is no state store 'nothing'"),
        ("/stores/nothing/range", 404, "there is no state store 'nothing'"),
        ("/stores/nothing/all", 404, "there is no state store 'nothing'"),
        ("/metadata/nothing/a", 404, "there is no state store 'nothing'"),
        ("/stores/orders/keys/none", 404, "the store 'orders' has no record of this key"),
        ("/stores/orders/keys/", 404, "the store 'orders' has no record of this key"),
        (
            "/stores/windows/keys/a",
            400,
            "the store is a window store, of kafka-streams.window, which cannot be asked so",
        ),
        ("/stores/windows/range", 400, "the store is a window store"),
        ("/stores/windows/sessions/a", 400, "the store is a window store"),
        ("/stores/orders/windows/a", 400, "the store is a key-value store"),
        ("/stores/orders/keys/a?as_of=7", 400, "as_of asks a versioned store, and this is a key-value store"),
        ("/stores/numbers/keys/seven", 400, "'seven' is not a key of this store: not a whole number"),
        ("/stores/numbers/keys/3000000000", 400, "3000000000 is not a signed 32-bit number"),
        ("/stores/numbers/keys/AAAA?encoding=base64", 400, "int32 has 3 bytes"),
        ("/stores/numbers/keys/7", 500, "is not what 'string' reads: not UTF-8 text"),
        ("/stores/numbers/all", 500, "is not what 'string' reads: not UTF-8 text"),
        ("/stores/raw/keys/not*base64", 400, "'not*base64' is not a key of this store: not base64"),
        ("/stores/orders/keys/%ff", 400, "the path is not UTF-8 text"),
        ("/stores/%ff/keys/a", 400, "the path is not UTF-8 text"),
        ("/stores/orders/range?from=%ff", 400, "the parameters cannot be read"),
        ("/stores/orders/range?limit=0", 400, "limit='0' is not a whole number from 1 to 10000"),
        ("/stores/orders/range?limit=10001", 400, "limit='10001' is not"),
        ("/stores/orders/range?limit=-1", 400, "limit='-1' is not"),
        ("/stores/orders/range?reverse=yes", 400, "reverse='yes' is neither true nor false"),
        ("/stores/orders/range?form=a", 400, "there is no parameter 'form' here"),
        ("/stores/orders/range?from=a&from=b", 400, "a parameter is given twice"),
        ("/stores/orders/range?cursor=abc", 400, "the cursor does not belong to this query"),
        ("/stores/orders/keys/a?encoding=utf", 400, "encoding='utf' is not known"),
        ("/stores/orders/range?encoding=utf", 400, "encoding='utf' is not known"),
        ("/stores/windows/windows/a?encoding=utf", 400, "encoding='utf' is not known"),
        ("/metadata/orders/a?encoding=utf", 400, "encoding='utf' is not known"),
        ("/stores/orders/keys/abc?encoding=hex", 400, "not hex digits"),
        ("/stores/raw/keys/none", 404, "no record of this key, which was read as base64url"),
        ("/stores/numbers/keys/8", 404, "no record of this key, which was read as a key of 'int32'"),
        ("/stores/windows/windows/a?from=-1", 400, "from='-1' is not a whole number from 0 to 9223372036854775807"),
        ("/stores/windows/windows/a?to=9223372036854775808", 400, "is not a whole number"),
        ("/metadata/orders/a", 421, "the partitions of keys are not known here"),
        ("/stores/", 404, "there is no '/stores/' here"),
        ("/stores/orders/", 404, "there is no '/stores/orders/' here"),
        ("/stores/orders/nothing/a", 404, "there is no '/stores/orders/nothing/a' here"),
        ("//stores", 404, "there is no '//stores' here"),
        ("/docs/", 404, "there is no '/docs/' here"),
    ],
)
def test_what_cannot_be_answered_is_said(asked: Asked, path: str, status: int, sentence: str) -> None:
    assert sentence in asked.problem(path, status)


@pytest.mark.parametrize(
    "target",
    [
        b"/stores/../../etc/passwd",
        b"/stores/..%2f..%2fetc%2fpasswd",
        b"/stores/%2e%2e/%2e%2e/etc/passwd",
        b"/stores/orders/keys/../../../../etc/passwd",
        b"/stores/orders%00/keys/a",
        b"/docs/../../../etc/passwd",
        b"/docs/templates/docs.html.j2",
        b"/stores/orders/../customers/keys/a",
        b"http://elsewhere/stores/orders/keys/..",
    ],
)
def test_no_path_leads_to_a_file_or_to_another_store(asked: Asked, target: bytes) -> None:
    answer = asked.raw(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"root:" not in answer


def test_a_key_may_hold_anything(tmp_path: Path) -> None:
    keys = ["a/b", "..", "../x", "a%2Fb", "ä ö?#&=+", "\x00\n", "%ff", ""]
    with serving(orders_of(make_orders(tmp_path / "app", 1, {key: f"of {key}" for key in keys}))) as asked:
        for key in keys:
            path = f"/stores/orders/keys/{quote(key, safe='')}".encode()
            answer = asked.raw(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 "), (key, answer)
        assert [each["key"] for each in asked.found("/stores/orders/range")["records"]] == sorted(keys)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_the_service_only_reads(asked: Asked, method: str) -> None:
    target = "localhost:1" if method == "CONNECT" else "/stores/orders/keys/order-007"
    answer = asked.raw(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 405 " if method != "CONNECT" else b"HTTP/1.1 4"), answer
    assert asked.found("/stores/orders/keys/order-007")["value"] == "value 7"


def test_a_cursor_of_another_store_or_range_is_refused(asked: Asked) -> None:
    cursor = asked.found("/stores/orders/range?limit=1")["cursor"]
    for other in ("customers/range?", "orders/range?from=order-100&", "orders/range?reverse=true&"):
        assert "the cursor does not belong to this query" in asked.problem(f"/stores/{other}cursor={cursor}", 400)
    assert asked.found(f"/stores/orders/range?limit=1&cursor={cursor}")["records"][0]["key"] == "order-002"


@pytest.mark.parametrize(
    "head",
    [
        b"GET /stores/orders/keys/" + b"a" * 300_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /stores/orders/keys/" + b"a" * (10 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * (4 << 20),
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * (64 << 10),
        b"nonsense\r\n\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/9.9\r\nConnection: close\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
    ids=["300 kB", "10 MiB", "4 MiB without an end", "64 KiB without an end", *"abcde"],
)
def test_a_head_beyond_the_limit_or_none_is_refused(asked: Asked, head: bytes) -> None:
    """What fits into one read of a socket, a quarter of a megabyte, may pass."""
    assert asked.raw(head).startswith(b"HTTP/1.1 400 ")
    assert asked.found("/health") == {"status": "ok"}


def test_the_limit_of_a_head_is_the_service_s(tmp_path: Path) -> None:
    with serving(orders_of(make_orders(tmp_path / "app", 1)), limits=Limits(head_bytes=1000)) as asked:
        head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 2000
        assert asked.raw(head).startswith(b"HTTP/1.1 400 ")


def test_a_page_of_the_web_cannot_ask_under_its_own_name(asked: Asked) -> None:
    """A name that leads to 127.0.0.1 would make the service part of that page's origin."""
    assert "answers only to its own name" in asked.problem("/stores", 403, host="attacker.example")
    assert "answers only to its own name" in asked.problem("/stores", 403, host="localhost.attacker.example:80")
    assert asked.get("/stores", host="LOCALHOST:1").status_code == 200


def test_a_service_for_other_hosts_needs_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = orders_of(make_orders(tmp_path / "app"))
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        with pytest.raises(RefusedError, match="no token is set"):
            listening(stores, host=host, port=0)
    for token in ("", " ", "é", "a\nb"):
        monkeypatch.setenv("STATEFERRY_TOKEN", token)
        with pytest.raises(SpecError, match="is empty, or not printable ASCII"):
            listening(stores, host="0.0.0.0", port=0)


def test_without_the_token_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEFERRY_TOKEN", "secret-token")
    with serving(orders_of(make_orders(tmp_path / "app"))) as asked:
        paths = ("/stores", "/stores/orders/keys/order-007", "/stores/orders/all", "/metrics", "/nothing", "//docs")
        for path in paths:
            for shown in ("", "secret-token", "Bearer secret-toke", "Bearer secret-token2", "Basic secret-token"):
                assert asked.problem(path, 401, authorization=shown) == "the bearer token is missing or wrong"
        assert asked.get("/stores", authorization="Bearer secret-token", host="any.name").status_code == 200
        assert [asked.get(path).status_code for path in ("/health", "/docs", "/openapi.json")] == [200, 200, 200]


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    stores = orders_of(make_orders(tmp_path / "app"))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(RefusedError, match="cannot listen on"):
        listening(stores, port=taken.getsockname()[1])
