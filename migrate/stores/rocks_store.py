"""A store in one column family of one RocksDB directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from migrate.errors import RefusedError
from migrate.stores.rocksdb.live import Family, LiveDatabase
from migrate.stores.state_store import BatchSource, Change, Listener, OrderedStore, State


class RocksStore(OrderedStore):
    """The records of one column family, as bytes. A context manager, made by `open_store`."""

    def __init__(
        self,
        directory: Path,
        family: Family,
        database: LiveDatabase | None,
        resources: ExitStack,
        *,
        on_state_change: Listener | None = None,
    ) -> None:
        """`database`: None where the family is open for reading only. `resources`: closed with the store."""
        super().__init__(directory, on_state_change)
        self._family = family
        self._database = database
        self._resources = resources

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._family.get(key)
        except Exception as error:
            self._raise(error)

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            return self._family.get_many(keys)
        except Exception as error:
            self._raise(error)

    def put(self, key: bytes, value: bytes | None) -> None:
        try:
            with self._lock:
                if value is None:
                    self._family.delete(key)
                else:
                    self._family.put(key, value)
        except Exception as error:
            self._raise(error)

    def delete(self, key: bytes) -> None:
        try:
            with self._lock:
                self._family.delete(key)
        except Exception as error:
            self._raise(error)

    def put_all(self, changes: Iterable[Change]) -> None:
        with self._guarded(), self._lock:
            database = self._writable
            batch, handle = database.new_batch(), self._family.handle
            for key, value in changes:
                if value is None:
                    batch.delete(key, handle)
                else:
                    batch.put(key, value, handle)
            database.write(batch)

    def approximate_num_entries(self) -> int:
        """RocksDB's estimate of the number of records."""
        with self._guarded():
            return self._family.estimated_records

    def flush(self) -> None:
        with self._guarded(), self._lock:
            if self._database is not None:
                self._database.sync()

    def _scan(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> BatchSource:
        return self._family.scan(start, end, reverse=reverse)

    def _shut(self) -> None:
        if self._database is not None:
            self._database.flush()
        self._abandon()

    def _abandon(self) -> None:
        self._family.close()
        self._resources.close()

    def start(self) -> None:
        """Move from CREATED to RUNNING."""
        self._move_to(State.RUNNING)

    @property
    def _writable(self) -> LiveDatabase:
        if self._database is None:
            raise RefusedError(f"{self._where} is open for reading only", hint="open it with read_only=False")
        return self._database
