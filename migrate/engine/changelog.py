"""Entries of a store to records of its changelog and back, by columns: no object for a record."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TypeVar, cast

import numpy as np

from formats import Format, Headers
from formats.changelog import UNKNOWN_TIME, ChangelogForm, ChangelogRecord
from formats.encoding.varint import read_varint
from formats.kafka_streams.values import pack_headers
from formats.layout import HEADERS, TIMESTAMP
from formats.program import IDENTITY, ByteProgram, Operation
from migrate.engine.bail_out import BailOutError
from migrate.engine.columns import CompiledProgram
from migrate.stores.batch import Batch
from migrate.stores.changelog_batch import ChangelogBatch, RecordHeaders

Times = Sequence[int] | None
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entries:
    """What changelog records are restored to, in the order of the records."""

    puts: Batch
    times: list[int]
    """The timestamps of the records of `puts`."""
    deleted: list[bytes]
    """Keys of the store."""


def to_changelog(known: Format) -> Callable[..., ChangelogBatch]:
    """A function of a batch of entries, and of the records' timestamps where the entries tell none.

    Raises EntryError for an entry that is not of this format. The columns of its result may be those of the batch.
    """
    return _ToChangelog(known.changelog_form)


def from_changelog(known: Format) -> Callable[[ChangelogBatch], Entries]:
    """A function of records, which restores them as the owner does. Raises EntryError for records of another form."""
    return _FromChangelog(known.changelog_form)


class _ToChangelog:
    def __init__(self, form: ChangelogForm) -> None:
        self._form = form
        programs = form.programs
        self._programs = programs
        if programs is not None:
            self._value = _on_values(programs.value)
            self._timestamp = None if programs.timestamp is None else _on_values(programs.timestamp)
            self._headers = None if programs.headers is None else _on_values(programs.headers)

    def __call__(self, batch: Batch, times: Times = None) -> ChangelogBatch:
        if self._programs is None or any(map(self._is_own, batch.keys) if self._form.own_keys else ()):
            return self._each(batch, times)
        try:
            values = self._value(batch).values
            stored = None if self._timestamp is None else _numbers(self._timestamp(batch))
            headers = None if self._headers is None else _read_headers(self._headers(batch).values)
        except BailOutError:
            return self._each(batch, times)
        return ChangelogBatch(batch.keys, values, stored if stored is not None else _known(times, len(batch)), headers)

    def _is_own(self, key: bytes) -> bool:
        return key.startswith(self._form.own_keys)

    def _each(self, batch: Batch, times: Times) -> ChangelogBatch:
        """The reference path, which gives the reason where an entry has no record."""
        known = _known(times, len(batch))
        found = [
            (record, time)
            for key, value, time in zip(batch.keys, batch.values, known, strict=True)
            for record in self._form.records(key, value)
        ]
        headers = [list(record.headers) for record, _ in found]
        return ChangelogBatch(
            [record.key for record, _ in found],
            [record.value for record, _ in found],
            [time if record.timestamp_ms is None else record.timestamp_ms for record, time in found],
            headers if any(headers) else None,
        )


class _FromChangelog:
    def __init__(self, form: ChangelogForm) -> None:
        self._form = form
        programs = form.programs
        self._columns = None if programs is None else [_COLUMNS[name] for name in programs.beside]
        self._entry = None if programs is None else _on_values(programs.entry)

    def __call__(self, batch: ChangelogBatch) -> Entries:
        deleted: list[bytes] = []
        if None in batch.values:
            deleted = [key for key, value in zip(batch.keys, batch.values, strict=True) if value is None]
            batch = _without_tombstones(batch)
        return Entries(self._puts(batch), list(batch.timestamps), deleted)

    def _puts(self, batch: ChangelogBatch) -> Batch:
        values = cast("list[bytes]", batch.values)
        if self._columns is None or self._entry is None:
            return self._each(batch)
        for column in self._columns:
            values = [beside + value for beside, value in zip(column(batch), values, strict=True)]
        try:
            return self._entry(Batch(batch.keys, values))
        except BailOutError:
            return self._each(batch)

    def _each(self, batch: ChangelogBatch) -> Batch:
        """The reference path, which gives the reason where a record has no entry."""
        headers = batch.headers or [[]] * len(batch)
        columns = zip(batch.keys, batch.values, batch.timestamps, map(Headers.of, headers), strict=True)
        entries = [self._form.entry(ChangelogRecord(*record)) for record in columns]
        return Batch([key for key, _ in entries], [value for _, value in entries if value is not None])


def _on_values(operations: tuple[Operation, ...]) -> CompiledProgram:
    return CompiledProgram(ByteProgram(IDENTITY, operations))


def _known(times: Times, count: int) -> Sequence[int]:
    return [UNKNOWN_TIME] * count if times is None else times


def _numbers(batch: Batch) -> list[int]:
    """The numbers that the values are."""
    numbers: list[int] = np.frombuffer(batch.joined_values, dtype=">i8").tolist()
    return numbers


def _read_headers(spans: list[bytes]) -> Sequence[RecordHeaders] | None:
    """The headers of each record; equal ones are one object. None: no record has any."""
    found = {span: _headers_of(span) for span in set(spans)}
    return [found[span] for span in spans] if any(found.values()) else None


def _headers_of(span: bytes) -> RecordHeaders:
    _, at = read_varint(span, 0)
    return list(Headers(span[at:]))


def _headers_column(batch: ChangelogBatch) -> list[bytes]:
    if batch.headers is None:
        return [pack_headers(Headers())] * len(batch)
    keys = [tuple(headers) for headers in batch.headers]
    found = {headers: pack_headers(Headers.of(headers)) for headers in set(keys)}
    return [found[headers] for headers in keys]


def _timestamps_column(batch: ChangelogBatch) -> Sequence[bytes]:
    return struct.unpack("8s" * len(batch), np.array(batch.timestamps, dtype=">i8").tobytes())


_COLUMNS: dict[str, Callable[[ChangelogBatch], Sequence[bytes]]] = {
    HEADERS: _headers_column,
    TIMESTAMP: _timestamps_column,
}


def _without_tombstones(batch: ChangelogBatch) -> ChangelogBatch:
    is_put = [value is not None for value in batch.values]

    def kept(column: Iterable[T]) -> list[T]:
        return list(compress(column, is_put))

    headers = None if batch.headers is None else kept(batch.headers)
    return ChangelogBatch(kept(batch.keys), kept(batch.values), kept(batch.timestamps), headers)
