"""Iterators over the records of a store as it was at one time, which can be closed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NoReturn, Protocol

from migrate.errors import StoreClosedError

Record = tuple[bytes, bytes]
_FIRST_PULL = 16
_LAST_PULL = 256
"""A short scan should not read hundreds of records; a long one should not need many pulls."""


class BatchSource(Protocol):
    """The source of a scan's records."""

    def pull(self, limit: int) -> list[Record]:
        """The next records, at most `limit`; empty at the end. Raises CorruptionError where the scan ended early."""
        ...

    def close(self) -> None:
        """Release the resources of the storage."""
        ...


class Cursor:
    """One pass over a source. It has no reference to its generator, so that only the caller keeps the storage open."""

    def __init__(self, source: BatchSource, where: str, on_error: Callable[[Exception], NoReturn]) -> None:
        self._source: BatchSource | None = source
        self._where = where
        self._on_error = on_error
        self._is_closed = False
        self._failure: Exception | None = None
        self._buffer: list[Record] = []

    def walk(self) -> Generator[Record]:
        """The records, as a generator."""
        limit = _FIRST_PULL
        while (source := self._source) is not None:
            try:
                records = source.pull(limit)
            except Exception as error:
                self._release()
                self._fail(error)
            self.check()
            if not records:
                self._release()
                return
            self._buffer = records
            del records, source  # a local reference would keep a closed iterator alive
            yield from self._buffer
            limit = min(_LAST_PULL, 4 * limit)
        self.check()

    def close(self) -> None:
        """Release the resources of the storage."""
        self._is_closed = True
        self._release()
        self._buffer.clear()  # ends the loop over it, after which the generator checks whether it was closed

    def check(self) -> None:
        """Raises StoreClosedError, or the error that ended the pass."""
        if self._is_closed:
            raise StoreClosedError(f"the iterator over {self._where} is closed", hint="start a new one")
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: Exception) -> NoReturn:
        try:
            self._on_error(error)
        except Exception as failure:
            self._failure = failure
            raise

    def _release(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()


class Records(Iterator[Record]):
    """(key, value) in order, as the store was when the iterator was created. A context manager."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._walk = cursor.walk()

    def __iter__(self) -> Iterator[Record]:
        """The generator itself: a loop over it makes no call of ours per record. Raises StoreClosedError."""
        self._cursor.check()
        return self._walk

    def __next__(self) -> Record:
        """The next record. Raises StoreClosedError once it or its store is closed; after a failure, its error again."""
        self._cursor.check()
        return next(self._walk)

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the resources of the storage."""
        self._cursor.close()
