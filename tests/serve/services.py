"""Services in this process, asked over real connections."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from formats.serdes.text import StringSerde
from migrate.queries.key_routing import HostInfo, KeyRouter
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.side_by_side import SideBySideStores
from migrate.serve.http_messages import Limits
from migrate.serve.server import listening
from tests.support import KEY_VALUE, make_families, make_store

TEXT = StringSerde()
ORDERS = {f"order-{number:03d}": f"value {number}" for number in range(300)}
TIMES = {f"order-{number:03d}": 1_000 + number for number in range(300)}


@dataclass(frozen=True)
class Asked:
    """A service, and a client of it."""

    url: str
    client: httpx.Client

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(
            self.url + path, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )

    def found(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def problem(self, path: str, status: int, **headers: str) -> str:
        """The sentence of a refusal."""
        answer = self.get(path, **headers)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        document = answer.json()
        assert document["status"] == status
        assert ("retry-after" in answer.headers) == (status == 503)
        return str(document["detail"])

    def metric(self, name: str) -> float:
        lines = self.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"stateferry_serve_{name}"))

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def raw(self, request: bytes) -> bytes:
        """What comes back until the service closes the connection, which it may do before it has read everything."""
        with socket.create_connection(self.address) as connection:
            with suppress(ConnectionError):
                connection.sendall(request)
            return rest(connection)


def stopped(asked: Asked, path: str = "/stores/orders/all") -> socket.socket:
    """A client that asks, and reads nothing; its buffer is small, so that the rest soon waits in the service."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    connection.connect(asked.address)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection


def rest(connection: socket.socket) -> bytes:
    """What still comes before the service closes the connection."""
    connection.settimeout(60)
    received = b""
    with suppress(ConnectionError):
        while piece := connection.recv(1 << 16):
            received += piece
    return received


@contextmanager
def serving(
    stores: QueryableStores,
    *,
    limits: Limits | None = None,
    router: Callable[[HostInfo], KeyRouter] | None = None,
    port: int = 0,
    sides: SideBySideStores | None = None,
    stale: bool = True,
) -> Iterator[Asked]:
    """A service of these stores."""
    service = listening(stores, port=port, limits=limits, router=router, sides=sides, stale=stale)
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not service.server.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        with httpx.Client(timeout=60.0) as client:
            yield Asked(service.url, client)
    finally:
        service.stop()
        thread.join(60)
        service.socket.close()
        assert not thread.is_alive()


def text_definition(format_id: str = KEY_VALUE) -> StoreDefinition:
    return StoreDefinition(format_id, TEXT, TEXT)


def make_orders(folder: Path, partitions: int = 2, records: Mapping[str, str] = ORDERS) -> Path:
    """An application whose store `orders` holds these records, spread over partitions by their number."""
    for partition in range(partitions):
        own = {
            key.encode(): value.encode()
            for n, (key, value) in enumerate(records.items())
            if n % partitions == partition
        }
        make_store(folder / f"0_{partition}" / "rocksdb" / "orders", own)
    return folder


def make_timed_orders(folder: Path) -> Path:
    """The same in one partition, with timestamps."""
    own = {key.encode(): struct.pack(">q", TIMES[key]) + value.encode() for key, value in ORDERS.items()}
    make_families(folder / "0_0" / "rocksdb" / "orders", {"keyValueWithTimestamp": own})
    return folder


def orders_of(folder: Path, format_id: str = KEY_VALUE, **options: Any) -> QueryableStores:  # noqa: ANN401
    return QueryableStores.of_directory(folder, {"orders": text_definition(format_id)}, **options)
