"""A store in memory: for tests of processors, and the simplest implementation of the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from migrate.errors import StoreClosedError
from migrate.stores.state_store import Change, Listener, OrderedStore, Record, State


class MemoryStore(OrderedStore):
    """A dict, sorted for each scan; lost with the process."""

    def __init__(self, *, on_state_change: Listener | None = None) -> None:
        super().__init__(None, on_state_change)
        self._records: dict[bytes, bytes] = {}
        self._move_to(State.RUNNING)

    def get(self, key: bytes) -> bytes | None:
        _check_bytes(key)
        return self._open.get(key)

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._lock:
            return [self.get(key) for key in keys]

    def put(self, key: bytes, value: bytes | None) -> None:
        self.put_all([(key, value)])

    def put_all(self, changes: Iterable[Change]) -> None:
        """Make all changes at once; a later change of a key wins."""
        changes = list(changes)
        for key, value in changes:
            _check_bytes(key)
            _check_bytes(b"" if value is None else value)
        with self._lock:
            records = self._open
            for key, value in changes:
                if value is None:
                    records.pop(key, None)
                else:
                    records[key] = value

    def delete(self, key: bytes) -> None:
        self.put_all([(key, None)])

    def approximate_num_entries(self) -> int:
        """The exact number of records."""
        return len(self._open)

    def flush(self) -> None:
        """Check that the store is open; there is nothing to flush."""
        assert self._open is not None

    def _scan(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> _Slices:
        inside = (key for key in self._open if (start is None or key >= start) and (end is None or key < end))
        return _Slices([(key, self._records[key]) for key in sorted(inside, reverse=reverse)])

    def _shut(self) -> None:
        self._records = {}

    _abandon = _shut

    @property
    def _open(self) -> dict[bytes, bytes]:
        if self.state is not State.RUNNING:
            raise StoreClosedError("the store in memory is closed", hint="create a new one")
        return self._records


def _check_bytes(part: object) -> None:
    if not isinstance(part, bytes):
        raise TypeError(f"keys and values are bytes, not {type(part).__name__}")


class _Slices:
    """A copy of the records, returned in pieces."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self._at = 0

    def pull(self, limit: int) -> list[Record]:
        self._at += limit
        return self._records[self._at - limit : self._at]

    def close(self) -> None:
        self._records = []
