"""A host of the list that is another program, or an attacker: its answer is never passed on as one of ours."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from migrate.queries.key_routing import HostInfo, KeyRouter, stated_hosts
from migrate.serve.http_messages import Limits
from tests.serve.processes import make_host, partition_of
from tests.serve.services import ORDERS, Asked, orders_of, serving

_KEY = next(key for key in ORDERS if partition_of(key) == 3)
_PATIENT = Limits(held_bytes=8 << 20)
_IMPATIENT = Limits(answer_seconds=2.0, scan_seconds=2.0, held_bytes=8 << 20)
"""Of a test of that alone: what takes a second on a busy machine would be refused too."""
_MADE_OF = b"X-Stateferry-Partitions: 2,3\r\n"
_ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n" + _MADE_OF + b"\r\n"
_BOMB = gzip.compress(bytes(100 << 20))


def _answer(body: bytes, kind: str = "application/json", status: str = "200 OK", *more: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*head, ""]).encode() + _MADE_OF + b"\r\n" + body


class Peer:
    """A program that answers each request with the same bytes, and then with `forever` again and again."""

    answer = b""
    forever = b""
    pause = 0.0

    def __init__(self, listening: socket.socket) -> None:
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"
        self.asked: list[bytes] = []
        self._listening = listening

    def run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._talk, args=[connection], daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.asked.append(connection.recv(1 << 16))
            connection.sendall(self.answer)
            while self.forever:
                connection.sendall(self.forever)
                time.sleep(self.pause)


@contextmanager
def running_peer() -> Iterator[Peer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peer = Peer(listening)
        thread = threading.Thread(target=peer.run)
        thread.start()
        try:
            yield peer
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(60)


@pytest.fixture
def peer() -> Iterator[Peer]:
    with running_peer() as started:
        yield started


@pytest.fixture
def limits() -> Limits:
    return _PATIENT


@pytest.fixture
def asked(tmp_path: Path, peer: Peer, limits: Limits) -> Iterator[Asked]:
    """A host with partitions 0 and 1, whose list says that the peer has 2 and 3."""
    make_host(tmp_path / "app", {0: "", 1: ""})

    def router(here: HostInfo) -> KeyRouter:
        return KeyRouter({"orders": 4}, lambda: stated_hosts([f"{here}=0,1", f"{peer.address}=2,3"]), here)

    with serving(orders_of(tmp_path / "app"), router=router, limits=limits) as started:
        yield started


_HTML = "another program's answer: it is of 'text/html'"
_SHAPE = "another program's answer: its JSON is of another shape"
_NESTED = b"[" * 100_000


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(_answer(b"<script>", "text/html"), _HTML, id="html"),
        pytest.param(_answer(b"<h1>404</h1>", "text/html", "404 Not Found"), _HTML, id="404-of-another"),
        pytest.param(_answer(b"", "text/html", "401 Unauthorized"), _HTML, id="401-of-another"),
        pytest.param(_answer(b"", "text/html", "302 Found", "Location: http://127.0.0.1:1/"), _HTML, id="redirect"),
        pytest.param(_answer(b"nothing"), "it is no JSON", id="no-json"),
        pytest.param(_answer(b'{"key":1,"value":NaN}'), "it is no JSON", id="no-number"),
        pytest.param(_answer(_NESTED), "it is no JSON", id="nested"),
        pytest.param(_answer(b"[]"), _SHAPE, id="list"),
        pytest.param(_answer(b'{"key":"a"}'), _SHAPE, id="no-value"),
        pytest.param(_answer(b"{}", "application/problem+json", "500 Oh"), _SHAPE, id="no-problem"),
        pytest.param(
            _answer(b'{"status":404,"title":"x"}', "application/problem+json", "500 Oh"), "says 404", id="two-statuses"
        ),
        pytest.param(
            _answer(b'{"status":302,"title":"x"}', "application/problem+json", "302 Found"), "says 302", id="no-refusal"
        ),
        pytest.param(
            _answer(b'{"status":700,"title":"x"}', "application/problem+json", "700 Oh"), "says 700", id="no-status"
        ),
        pytest.param(_answer(_BOMB, "application/json", "200 OK", "Content-Encoding: gzip"), "compressed", id="bomb"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", "RemoteProtocolError", id="no-http"),
        pytest.param(b"", "RemoteProtocolError", id="nothing"),
    ],
)
def test_what_another_program_answers_is_a_503_that_says_so(asked: Asked, peer: Peer, answer: bytes, said: str) -> None:
    peer.answer = answer
    sentence = asked.problem(f"/stores/orders/keys/{_KEY}", 503)
    assert sentence.startswith(f"no answer from {peer.address} (")
    assert said in sentence
    assert len(peer.asked) == 1


def test_a_tag_that_no_host_gives_is_not_forwarded(asked: Asked, peer: Peer) -> None:
    peer.answer = _answer(json.dumps({"key": _KEY, "value": "x"}).encode())
    head = f"GET /stores/orders/keys/{_KEY} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    assert asked.raw(f"{head}If-None-Match: \xe9\r\n\r\n".encode()).startswith(b"HTTP/1.1 200 ")
    assert b"if-none-match" not in peer.asked[0].lower()
    asked.raw(f'{head}If-None-Match: "a"\r\n\r\n'.encode())
    assert b'if-none-match: "a"\r\n' in peer.asked[1].lower()


@pytest.mark.parametrize("path", [f"/stores/orders/keys/{_KEY}", "/stores/orders/all"])
@pytest.mark.parametrize(
    ("piece", "pause", "limits"), [(b"x" * 65536, 0.0, _PATIENT), (b" ", 0.1, _IMPATIENT)], ids=["fast", "slow"]
)
def test_an_endless_answer_ends(asked: Asked, peer: Peer, path: str, piece: bytes, pause: float) -> None:
    peer.answer = _ENDLESS % (b"application/x-ndjson" if "all" in path else b"application/json")
    peer.forever, peer.pause = piece, pause
    answer = asked.get(path)
    problem = json.loads(answer.text.splitlines()[-1])
    problem = problem.get("error", problem)
    assert problem["status"] == 503
    expected = "MiB without an end" if not pause else "took longer than 2 s" if "all" in path else "TimeoutError"
    assert expected in problem["detail"]
    peer.forever = b""
    assert asked.metric("held_bytes") == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"records":[1],"cursor":null}',
        b'{"records":[{"key":1}],"cursor":null}',
        b'{"records":[]}',
        b'{"records":{},"cursor":null}',
        b'{"records":[],"cursor":7}',
    ],
)
def test_a_page_of_another_shape_is_refused(asked: Asked, peer: Peer, body: bytes) -> None:
    cursor = asked.found("/stores/orders/range?limit=1000")["cursor"]
    peer.answer = _answer(body)
    assert _SHAPE in asked.problem(f"/stores/orders/range?limit=1000&cursor={cursor}", 503)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"end":true}\n', _SHAPE),
        (b'{"end":true,"records":"7"}\n', _SHAPE),
        (b'{"end":true,"records":7}\n', "its scan of 0 records ends as one of 7"),
        (b'<p>\n{"end":true,"records":1}\n', "a line is no record"),
        (b"<p>\n", "it is no JSON"),
        (b"", "it is no JSON"),
        (b'{"error":{"status":409,"title":"Conflict","detail":"it was replaced"}}\n', "it was replaced"),
    ],
)
def test_a_scan_of_another_shape_is_not_complete(asked: Asked, peer: Peer, body: bytes, said: str) -> None:
    peer.answer = _answer(body, "application/x-ndjson")
    *records, last = map(json.loads, asked.get("/stores/orders/all").text.splitlines())
    assert said in last["error"]["detail"]
    assert len(records) == sum(partition_of(key) < 2 for key in ORDERS)


def test_a_list_of_a_host_that_does_not_say_what_it_is_made_of_is_refused(asked: Asked, peer: Peer) -> None:
    """As one would that takes no notice of what is expected of it."""
    cursor = asked.found("/stores/orders/range?limit=1000")["cursor"]
    peer.answer = _answer(b'{"end":true,"records":0}\n', "application/x-ndjson").replace(_MADE_OF, b"")
    *records, last = map(json.loads, asked.get("/stores/orders/all").text.splitlines())
    assert len(records) == sum(partition_of(key) < 2 for key in ORDERS)
    assert "does not confirm that its list is made of the partitions 2,3" in last["error"]["detail"]
    peer.answer = _answer(b'{"records":[],"cursor":null}').replace(_MADE_OF, b"")
    assert "does not confirm" in asked.problem(f"/stores/orders/range?limit=1000&cursor={cursor}", 421)


def test_a_scan_of_another_host_holds_what_is_not_sent_yet(asked: Asked, peer: Peer) -> None:
    """However much it sends in all."""
    number = 20_000
    lines = b"".join(b'{"key":"k%05d","value":"%s"}\n' % (each, b"x" * 1000) for each in range(number))
    assert len(lines) > 2 * _PATIENT.held_bytes
    peer.answer = _answer(lines + b'{"end":true,"records":%d}\n' % number, "application/x-ndjson")
    records = asked.get("/stores/orders/all").content.splitlines(keepends=True)
    assert records[-1] == b'{"end":true,"records":%d}\n' % (len(records) - 1), records[-1]
    assert b"".join(records[-1 - number : -1]) == lines
    assert asked.metric("held_bytes") == 0


def test_what_a_host_of_ours_answers_is_passed_on(asked: Asked, peer: Peer) -> None:
    peer.answer = _answer(b'{"key":"k","value":14.7600}', "application/json", "200 OK", 'ETag: "x"', "X-Own: 1")
    answer = asked.get(f"/stores/orders/keys/{_KEY}")
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (200, b'{"key":"k","value":14.7600}', '"x"')
    assert "x-own" not in answer.headers
    peer.answer = _answer(b'{"status":404,"title":"Not Found"}', "application/problem+json", "404 Not Found")
    assert asked.get(f"/stores/orders/keys/{_KEY}").status_code == 404
