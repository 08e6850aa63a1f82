"""`open_store`: the records of one store, as bytes, whatever its format."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from weakref import WeakSet

from formats import get_format
from migrate.errors import RefusedError
from migrate.keyrange import KeyRange
from migrate.source import lanes
from migrate.stores.rocksdb import Database, open_read_only
from migrate.stores.rocksdb_writing import WritableDatabase, open_writable


class RocksStore:
    """One RocksDB directory's records under one format, as bytes. A context manager."""

    def __init__(self, database: Database | WritableDatabase, family: str, resources: ExitStack) -> None:
        self._database = database
        self._family = family
        self._resources = resources
        self._iterators: WeakSet[Generator[tuple[bytes, bytes]]] = WeakSet()

    def __enter__(self) -> RocksStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        return self._database.get(self._family, key)

    def range(self, start: bytes | None = None, end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) in [start, end), in key order; None: unbounded. Raises CorruptionError on a damaged block."""
        records = self._records(KeyRange(start=start, end=end))
        self._iterators.add(records)
        return records

    def all(self) -> Iterator[tuple[bytes, bytes]]:
        """Every (key, value), in key order."""
        return self.range()

    def approximate_num_entries(self) -> int:
        """RocksDB's estimate."""
        return self._database.estimated_records(self._family)

    def put(self, key: bytes, value: bytes) -> None:
        """Raises RefusedError where the store was opened read-only."""
        self._writable().put(self._family, key, value)

    def delete(self, key: bytes) -> None:
        """Raises RefusedError where the store was opened read-only."""
        self._writable().delete(self._family, key)

    def close(self) -> None:
        """Give up the files and the LOCK; iterators that are still open end."""
        for records in list(self._iterators):
            records.close()  # a live RocksDB iterator would keep the directory open, and its LOCK
        self._resources.close()

    def _records(self, keys: KeyRange) -> Generator[tuple[bytes, bytes]]:
        for batch in self._database.batches(self._family, keys):
            yield from zip(batch.keys, batch.values, strict=True)

    def _writable(self) -> WritableDatabase:
        if not isinstance(self._database, WritableDatabase):
            raise RefusedError(f"{self._database.directory} is open for reading only", hint="open it read_only=False")
        return self._database


def open_store(path: str | Path, *, format: str, read_only: bool = True) -> RocksStore:
    """Open one RocksDB directory; `format` is a format id and says which column family holds the records.

    Read-only touches nothing and works beside a running owner. Raises RefusedError where the families are not the
    format's, StoreLockedError where another process holds a store that is to be written.
    """
    directory = Path(path)
    known = get_format(format)
    with ExitStack() as resources:
        opened = open_read_only(directory) if read_only else open_writable(directory)
        database = resources.enter_context(opened)
        found = lanes(database.families, known, known, directory)
        if len(found) != 1:
            names = ", ".join(lane.source for lane in found)
            raise RefusedError(f"{directory} holds several column families: {names}", hint="open it with rocksdict")
        return RocksStore(database, found[0].source, resources.pop_all())
    raise AssertionError("unreachable: the block returns or raises")
