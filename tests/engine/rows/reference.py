"""Rows as the formats' own decoders give them: one record after the other, and Python's integers for times."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from formats import EntryError, Format, StateRecord
from migrate.stores.batch import Batch

MOST = ((1 << 63) - 1) // 1000
Row = dict[str, Any]


def batch_of(entries: list[tuple[bytes, bytes]]) -> Batch:
    """The entries in key order, as a scan has them."""
    found = dict(entries)
    return Batch(sorted(found), [found[key] for key in sorted(found)])


def micros(millis: int | None) -> int | None:
    if millis is not None and abs(millis) > MOST:
        raise OverflowError
    return None if millis is None else millis * 1000


def rows_of(known: Format, key: bytes, value: bytes, window_size_ms: int | None = None) -> list[Row]:
    """The rows of an entry. Raises EntryError, OverflowError for a time."""
    record = known.decode(key, value)
    if known.kind != "versioned":
        return [_row(known, record, window_size_ms)]
    history = record.history
    if history is None:
        return [_version(record.key, record.value, record.timestamp_ms, None)]
    ends = [history.valid_to_ms, *(version.valid_from_ms for version in history.versions)]
    versions = zip(history.versions, ends, strict=False)
    return [_version(record.key, version.value, version.valid_from_ms, end) for version, end in versions][::-1]


def _version(key: object, value: object, begin: int | None, end: int | None) -> Row:
    return {"key": key, "value": value, "valid_from": micros(begin), "valid_to": micros(end)}


def _row(known: Format, record: StateRecord, window_size_ms: int | None) -> Row:
    row: Row = {"key": record.key, "value": record.value}
    if "timestamp" in known.carries:
        row["timestamp"] = micros(None if record.timestamp_ms == -1 else record.timestamp_ms)
    if "headers" in known.carries:
        row["headers"] = [{"key": name, "value": value} for name, value in record.headers or ()]
    if record.window is not None:
        start, end = record.window.start_ms, record.window.end_ms
        row["window_start"] = micros(start)
        if known.kind == "window":
            end = None if window_size_ms is None else start + window_size_ms
            row["sequence"] = record.window.sequence
        row["window_end"] = micros(end)
    if "expiry" in known.carries:
        row["expires"] = micros(record.expires_ms)
    return row


def plain(batch: pa.RecordBatch) -> list[Row]:
    """The rows of Arrow, with times as microseconds."""
    columns = [column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    rows: list[Row] = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return rows


def is_readable(known: Format, key: bytes, value: bytes) -> bool:
    with suppress(EntryError, OverflowError):
        return bool(rows_of(known, key, value))
    return False


def expected(known: Format, batch: Batch, window_size_ms: int | None = None) -> Iterator[Row]:
    for key, value in zip(batch.keys, batch.values, strict=True):
        yield from rows_of(known, key, value, window_size_ms)
