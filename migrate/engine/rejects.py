"""Records that cannot be converted: the chunk fails, or they are skipped or written to a dead-letter file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from migrate.errors import RejectedError
from migrate.model.key_range import show_key
from migrate.model.preview import RejectExample, RejectReason, shown
from migrate.stores.files import fsync_file

REJECT_SCHEMA = pa.schema(
    [
        pa.field("store_partition", pa.string()),
        pa.field("family", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
    ]
)
MOST_REASONS = 10
EXAMPLES = 3
MOST_COUNTED = 1000
OTHER = "other reasons"
_BUFFERED_RECORDS = 1000
_BUFFERED_BYTES = 8 << 20


class Rejects(Protocol):
    """Takes the records of one chunk that cannot be converted."""

    @property
    def count(self) -> int:
        """The number of rejects so far."""
        ...

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Count a reject. Raises RejectedError where no more are allowed."""
        ...


class FailOnReject:
    """The first reject ends the chunk."""

    count = 0

    def __init__(self, where: str, *, has_function: bool = False) -> None:
        self._where = where
        self._has_function = has_function

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Raises RejectedError, always."""
        raise RejectedError(
            f"{self._where}, column family {family!r}: the key {show_key(key)} (value of {len(value)} bytes) "
            f"cannot be converted: {reason}",
            hint='set [run] on_reject = "skip" or "dead-letter" and rerun; or '
            f"{way_to_fix(has_function=self._has_function)} and start again under another `name`",
        )


class CountRejects:
    """Rejects are left out and counted."""

    def __init__(self, where: str, limit: int | None = None, *, has_function: bool = False) -> None:
        self.count = 0
        self._has_function = has_function
        self._where = where
        self._limit = limit

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Count a reject. Raises RejectedError past the limit."""
        self.count += 1
        if self._limit is not None and self.count > self._limit:
            last = f"{self._where}: the key {show_key(key)}: {reason}"
            raise RejectedError(
                f"records that cannot be converted: {self.count}, max_rejects allows {self._limit}; "
                f"the last one, {last}",
                hint=way_past_the_cap(has_function=self._has_function),
            )


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

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Count a reject. Raises RejectedError past the limit."""
        self._counter.add(family, key, value, reason)
        self._rows.append(
            {"store_partition": self._partition, "family": family, "key": key, "value": value, "reason": reason}
        )
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


def reject_example(store_partition: str, family: str, key: bytes, value: bytes, reason: str) -> RejectExample:
    """A reject in a form to print."""
    return RejectExample(
        store_partition=store_partition, family=family, key=shown(key), value=shown(value), reason=reason
    )


class RejectsByReason:
    """Counts rejects by reason, and keeps the first examples of each."""

    def __init__(self) -> None:
        self.count = 0
        self.first_of_partition = ""
        """The key and reason of the first reject since `begin`."""
        self._store_partition = ""
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, list[RejectExample]] = {}

    def begin(self, store_partition: str) -> None:
        """Name the store partition of the next rejects."""
        self._store_partition = store_partition
        self.first_of_partition = ""

    def add(self, family: str, key: bytes, value: bytes, reason: str) -> None:
        """Count a reject, and keep it if it is one of the first for its reason."""
        self.count += 1
        self.first_of_partition = self.first_of_partition or f"{show_key(key)}: {reason}"
        if reason not in self._counts and len(self._counts) >= MOST_COUNTED:
            reason = OTHER
        self._counts[reason] += 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(reject_example(self._store_partition, family, key, value, reason))

    def reasons(self) -> tuple[RejectReason, ...]:
        """The most frequent reasons, the most frequent first."""
        return tuple(
            RejectReason(reason=reason, records=count, examples=tuple(self._examples[reason]))
            for reason, count in self._counts.most_common(MOST_REASONS)
        )


def way_to_fix(*, has_function: bool) -> str:
    """What to fix where records cannot be converted, for hints."""
    return "fix the function" if has_function else "correct [source] format, or the serdes of [conversion]"


def way_past_the_cap(*, has_function: bool) -> str:
    """What to do where more records were rejected than [run] allows, for hints."""
    return (
        "raise the cap in [run] and rerun: finished chunks are kept; or "
        f"{way_to_fix(has_function=has_function)} and start again under another `name`"
    )
