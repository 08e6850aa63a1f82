"""Iterators over the records of a store: closable, and of one instant."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NoReturn, Protocol

from migrate.errors import StoreClosedError

Record = tuple[bytes, bytes]
_FIRST_PULL = 16
_LAST_PULL = 256
"""A short scan should not read hundreds of records; a long one should not pay for each pull."""


class BatchSource(Protocol):
    """What a scan comes from."""

    def pull(self, limit: int) -> list[Record]:
        """The next records, at most `limit`; empty at the end. Raises CorruptionError where the scan ended early."""
        ...

    def close(self) -> None:
        """Give up what the storage holds for it."""
        ...


class Cursor:
    """One pass over a source. It knows no generator, so that nothing but who iterates keeps what the storage holds."""

    def __init__(self, source: BatchSource, where: str, on_error: Callable[[Exception], NoReturn]) -> None:
        self._source: BatchSource | None = source
        self._where = where
        self._on_error = on_error
        self._is_closed = False
        self._failure: Exception | None = None
        self._buffer: list[Record] = []

    def walk(self) -> Generator[Record]:
        """The records."""
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
            del records, source  # or a closed iterator would live on in here
            yield from self._buffer
            limit = min(_LAST_PULL, 4 * limit)
        self.check()

    def close(self) -> None:
        """Give up what the storage holds for it."""
        self._is_closed = True
        self._release()
        self._buffer.clear()  # ends the loop over it, so that the generator finds that it was closed

    def check(self) -> None:
        """Raises StoreClosedError, or what ended the pass before."""
        if self._is_closed:
            raise StoreClosedError(f"the iterator over {self._where} is closed", hint="begin a new one")
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
    """(key, value) in order, as the store was when the iterator was made. A context manager."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._walk = cursor.walk()

    def __iter__(self) -> Iterator[Record]:
        """Raises StoreClosedError. The generator itself: a loop over it costs no call of ours for each record."""
        self._cursor.check()
        return self._walk

    def __next__(self) -> Record:
        """Raises StoreClosedError once it, or its store, is closed; once it has failed, the same error again."""
        self._cursor.check()
        return next(self._walk)

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up what the storage holds for it."""
        self._cursor.close()
