"""The dead-letter file of a chunk: its rejected records, in Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from migrate.engine.rejects import CountRejects
from migrate.model.preview import RejectReason
from migrate.stores.files import fsync_file

REJECT_SCHEMA = pa.schema(
    [
        pa.field("store_partition", pa.string()),
        pa.field("family", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("place", pa.string()),
    ]
)
_BUFFERED_RECORDS = 1000
_BUFFERED_BYTES = 8 << 20


class KeepRejects:
    """Rejects are left out, counted, and written to a Parquet file."""

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
        """The number of rejects so far."""
        return self._counter.count

    @property
    def reasons(self) -> tuple[RejectReason, ...]:
        """The most frequent reasons, as a receipt holds them."""
        return self._counter.reasons

    def add(self, family: str, key: bytes, value: bytes, reason: str, place: str = "") -> None:
        """Count a reject. Raises RejectedError past the limit."""
        self._counter.add(family, key, value, reason, place)
        row = {"family": family, "key": key, "value": value, "reason": reason, "place": place}
        self._rows.append({"store_partition": self._partition, **row})
        self._size += len(key) + len(value)
        if len(self._rows) >= _BUFFERED_RECORDS or self._size >= _BUFFERED_BYTES:
            self._write()

    def finish(self) -> bool:
        """Write the remaining rejects, and make the file durable. False: no rejects, and no file."""
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
