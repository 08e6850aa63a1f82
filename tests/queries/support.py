"""Stores for queries, with content that shows which store an answer came from."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from formats import Format
from migrate.errors import StateStoreMigratedError, StoreNotReadyError
from migrate.queries.open.partition import Partition, StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from tests.support import KEY_VALUE, make_store

THREADS = 8
ORDERS = StoreDefinition(KEY_VALUE)


@dataclass(frozen=True)
class Bare:
    """A type of store whose view is its store partitions."""

    accepted: str | None = None

    def accepts(self, format: Format) -> bool:
        return self.accepted is None or format.id == self.accepted

    def view(self, store_name: str, partitions: list[Partition], definition: StoreDefinition) -> list[Partition]:
        assert definition.format
        return partitions


def read(partition: Partition, key: bytes) -> bytes | None:
    """As a view reads: the check after the read makes the answer valid."""
    for segment in reversed(partition.opened().segments):
        if (value := segment.entries.get(key)) is not None:
            break
    partition.check()
    return value


def scanned(partition: Partition) -> dict[bytes, bytes]:
    records: dict[bytes, bytes] = {}
    for segment in partition.opened().segments:
        scan = segment.entries.scan(None, None)
        while batch := scan.pull(256):
            records |= dict(batch)
            partition.check()
    return records


def signed(mark: bytes, count: int = 400) -> dict[bytes, bytes]:
    """Records whose values name their store, and have a checksum over key and mark."""
    keys = [b"key-%06d" % number for number in range(count)]
    return {key: mark + hashlib.sha256(mark + key).digest() for key in keys}


def application(base: Path, name: str = "app", records: dict[bytes, bytes] | None = None) -> Path:
    """An application's directory with the store `orders` of one task."""
    folder = base / name / "0_0" / "rocksdb"
    folder.mkdir(parents=True)
    make_store(folder / "orders", signed(b"A") if records is None else records)
    return base / name


class Readers:
    """Threads that read a store of one partition by keys and whole, until the block ends, each at least so often."""

    def __init__(self, stores: QueryableStores, name: str, contents: list[dict[bytes, bytes]], least: int = 50) -> None:
        """`contents`: each a right answer to a scan; `get` may give the value of any of them."""
        self._stores, self._name, self._contents = stores, name, contents
        self._least, self._stop = least, threading.Event()
        self.answers = [0] * THREADS
        self.moved = 0
        self.wrong: list[object] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(THREADS)]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + 60
        while min(self.answers) < self._least and not self.wrong and time.monotonic() < deadline:
            time.sleep(0.01)
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def assert_right(self) -> None:
        assert self.wrong == []
        assert min(self.answers) >= self._least

    def _run(self, number: int) -> None:
        keys = itertools.cycle([key for key in self._contents[0] if hash(key) % 3] or [*self._contents[0]])
        partition: Partition | None = None
        while not self._stop.is_set():
            try:
                partition = partition or self._stores.store(self._name, Bare())[0]
                self._ask(partition, keys, number)
            except (StateStoreMigratedError, StoreNotReadyError):
                partition, self.moved = None, self.moved + 1
            except Exception as error:  # noqa: BLE001 - told by the test
                self.wrong.append(error)
                return

    def _ask(self, partition: Partition, keys: itertools.cycle[bytes], number: int) -> None:
        for key in itertools.islice(keys, 50):
            value = read(partition, key)
            if value not in [content[key] for content in self._contents]:
                self.wrong.append((key, value))
            self.answers[number] += 1
        if (found := scanned(partition)) not in self._contents:
            self.wrong.append(len(found))
