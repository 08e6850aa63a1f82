"""Services in processes of their own, each over the state directory of one host."""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from formats.partitioners import default_partition
from tests.serve.services import ORDERS, Asked
from tests.support import KEY_VALUE, make_store

COMMAND = Path(sys.executable).with_name("stateferry")
PARTITIONS = 4
OF_ORDERS = ("--store", "orders", "--format", KEY_VALUE, "--key-serde", "string", "--value-serde", "string")


@dataclass(frozen=True)
class Served(Asked):
    """A service in a process."""

    process: subprocess.Popen[str]


def free_addresses(count: int) -> list[str]:
    """Addresses of this machine that nobody listens on, with ports that the system gives to no outgoing connection."""
    found: set[str] = set()
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.add(f"127.0.0.1:{port}")
    return list(found)


def partition_of(key: str) -> int:
    return default_partition(key.encode(), PARTITIONS)


def make_host(folder: Path, values: Mapping[int, str]) -> Path:
    """A host's directory with these partitions of `orders`; their values begin with this text."""
    for number, text in values.items():
        own = {key.encode(): f"{text}{value}".encode() for key, value in ORDERS.items() if partition_of(key) == number}
        make_store(folder / f"0_{number}" / "rocksdb" / "orders", own)
    return folder


@contextmanager
def served(place: Path, address: str, *options: str, token: str | None = None) -> Iterator[Served]:
    """A service of a directory or a spec, by the command."""
    environ = {name: text for name, text in os.environ.items() if name != "STATEFERRY_TOKEN"}
    environ |= {} if token is None else {"STATEFERRY_TOKEN": token}
    command = [str(COMMAND), "serve", str(place), "--port", address.rpartition(":")[2], *options]
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process,
        httpx.Client(timeout=30.0, headers=headers) as client,
    ):
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith(f"listening on http://{address}"), said + process.stderr.read()
            yield Served(f"http://{address}", client, process)
        finally:
            process.kill()
