"""Scan, convert and write, with counts and digests of both sides: what rewriting and a dry run have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from migrate.engine.converter import Converter, convert_all
from migrate.engine.digest import RecordDigest
from migrate.stores.batch import Batch


class Sink(Protocol):
    """Takes converted records: an SST file's writer, or a dry run's counter."""

    def write(self, batch: Batch) -> None:
        """Records in key order. Raises KeyOrderError where a key does not come after the one before."""
        ...


@dataclass(slots=True)
class Pumped:
    """The counts and digests of what was read and written."""

    scanned: RecordDigest = field(default_factory=RecordDigest)
    written: RecordDigest = field(default_factory=RecordDigest)
    first_key: bytes | None = None
    last_key: bytes | None = None


def pump(
    batches: Iterator[Batch], converter: Converter, open_sink: Callable[[], Sink], on_batch: Callable[[Batch], None]
) -> Pumped:
    """Convert every batch into the sink, which is opened with the first converted record.

    `on_batch` is called with each source batch and may raise.
    """
    pumped = Pumped()
    sink: Sink | None = None

    def see(batch: Batch) -> None:
        on_batch(batch)
        pumped.scanned.update(batch)

    for batch in convert_all(batches, converter, see):
        if sink is None:
            sink = open_sink()
            pumped.first_key = batch.keys[0]
        sink.write(batch)
        pumped.written.update(batch)
        pumped.last_key = batch.keys[-1]
        del batch  # else a large value would stay in memory while the next one is read
    return pumped
