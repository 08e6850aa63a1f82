"""Records that cannot be converted: fail, skip, or keep as dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from migrate.errors import RejectedError
from migrate.keyrange import show_key
from migrate.stores.files import fsync_file
from migrate.ways_out import mend, raise_the_cap

REJECT_SCHEMA = pa.schema(
    [
        pa.field("store_partition", pa.string()),
        pa.field("family", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
    ]
)
_BUFFERED_RECORDS = 1000
_BUFFERED_BYTES = 8 << 20


class Rejects(Protocol):
    """Takes the records of one chunk that cannot be converted."""

    @property
    def count(self) -> int:
        """Records so far."""
        ...

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Raises RejectedError where no more of them are allowed."""
        ...


class FailOnReject:
    """The first one ends the chunk."""

    count = 0

    def __init__(self, where: str, *, has_function: bool = False) -> None:
        self._where = where
        self._has_function = has_function

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Raises RejectedError."""
        raise RejectedError(
            f"{self._where}, column family {family!r}: the key {show_key(key)} (value of {len(value)} bytes) "
            f"cannot be converted: {reason}",
            hint='set [run] on_reject = "skip" or "dead-letter" and rerun; or '
            f"{mend(has_function=self._has_function)} and begin anew by another `name`",
        )


class CountRejects:
    """They are left out and counted."""

    def __init__(self, where: str, limit: int | None = None, *, has_function: bool = False) -> None:
        self.count = 0
        self._has_function = has_function
        self._where = where
        self._limit = limit

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Raises RejectedError past the limit."""
        self.count += 1
        if self._limit is not None and self.count > self._limit:
            last = f"{self._where}: the key {show_key(key)}: {reason}"
            raise too_many(last, self.count, self._limit, has_function=self._has_function)


class KeepRejects:
    """They are left out, counted, and written to a Parquet file."""

    def __init__(
        self, where: str, partition: str, file: Path, limit: int | None, *, has_function: bool = False
    ) -> None:
        self._counter = CountRejects(where, limit, has_function=has_function)
        self._partition = partition
        self.file = file
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[dict[str, object]] = []
        self._size = 0

    @property
    def count(self) -> int:
        """Records so far."""
        return self._counter.count

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Raises RejectedError past the limit."""
        self._counter.add(family, key, value, reason)
        self._rows.append(
            {"store_partition": self._partition, "family": family, "key": key, "value": value, "reason": reason}
        )
        self._size += len(key) + len(value)
        if len(self._rows) >= _BUFFERED_RECORDS or self._size >= _BUFFERED_BYTES:
            self._write()

    def finish(self) -> bool:
        """Write what is left and make the file durable. False: there was nothing, and there is no file."""
        if self._rows:
            self._write()
        if self._writer is None:
            return False
        self._writer.close()
        fsync_file(self.file)
        return True

    def _write(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.file, REJECT_SCHEMA)
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=REJECT_SCHEMA))
        self._rows = []
        self._size = 0


def too_many(last: str, count: int, limit: float, *, has_function: bool) -> RejectedError:
    """The error for a cap that was passed."""
    return RejectedError(
        f"records that cannot be converted: {count}, max_rejects allows {limit}; the last one, {last}",
        hint=raise_the_cap(has_function=has_function),
    )
