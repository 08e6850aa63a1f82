"""Entries of a store to records of its changelog and back, by columns: no object for a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from formats import EntryError, Format, Headers
from formats.changelog import ChangelogForm, ChangelogRecord
from formats.encoding.headers import pack_sized, unpack_sized
from formats.layout import TIMESTAMP, UNKNOWN_TIME
from migrate.engine.bail_out import BailOutError
from migrate.engine.columns import TIME_BYTES, CompiledColumn, pack_times, read_times
from migrate.errors import ChangelogFailedError, ChunkFailedError
from migrate.model.key_range import show_key
from migrate.stores.batch import Batch, Buffer, ChangelogBatch, RecordHeaders

_SIGN = -(1 << 63)
"""The sign bit: with it flipped, negative numbers sort before the others."""


@dataclass(frozen=True, slots=True)
class RestoredEntries:
    """What changelog records are restored to, in the order of the records."""

    puts: Batch
    times: list[int]
    """The timestamps of the records of `puts`."""
    deleted: list[bytes]
    """Keys of the store."""


class ToChangelog:
    """Turns batches of entries of a format into the records that stand for them."""

    def __init__(self, known: Format) -> None:
        self._form = known.changelog_form
        programs = self._form.programs
        operations = (None,) * 3 if programs is None else (programs.value, programs.timestamp, programs.headers)
        columns = (None if each is None else CompiledColumn(each) for each in operations)
        self._value, self._timestamp, self._headers = columns

    def __call__(self, batch: Batch, times: Sequence[int] | None = None) -> ChangelogBatch:
        """The records, in the order of the entries; columns may be those of the batch.

        `times` are the records' timestamps where the entries tell none; None: unknown. Raises EntryError for an entry
        that is not of this format.
        """
        times = [UNKNOWN_TIME] * len(batch) if times is None else times
        if self._value is None or (self._form.own_keys and any(map(self._form.is_own, batch.keys))):
            return self._each(batch, times)
        try:
            values = self._value.of_values(batch)[0]
            stored = times if self._timestamp is None else _stored_times(*self._timestamp.of_values(batch))
            headers: Sequence[RecordHeaders] | None = _constant_headers(self._form, len(batch))
            if self._headers is not None:
                headers = _read_headers(self._headers.of_values(batch)[0])
        except BailOutError:
            return self._each(batch, times)
        return ChangelogBatch(batch.keys, values, stored, headers)

    def _each(self, batch: Batch, times: Sequence[int]) -> ChangelogBatch:
        """The reference path, which gives the reason where an entry has no record."""
        found = [
            (record, time)
            for key, value, time in zip(batch.keys, batch.values, times, strict=True)
            for record in self._form.records(key, value)
        ]
        headers = [list(record.headers) for record, _ in found]
        return ChangelogBatch(
            [record.key for record, _ in found],
            [record.value for record, _ in found],
            [time if record.timestamp_ms is None else record.timestamp_ms for record, time in found],
            headers if any(headers) else None,
        )


def tombstones(form: ChangelogForm, keys: list[bytes], times: Sequence[int] | None = None) -> ChangelogBatch:
    """The records by which these keys are deleted; without `times`, of unknown ones."""
    size = len(keys)
    return ChangelogBatch(keys, [None] * size, times or [UNKNOWN_TIME] * size, _constant_headers(form, size))


def logged_times(known: Format, batch: Batch) -> Sequence[int]:
    """The timestamps that entries get in the changelog: the value's own, else the window's, else -1."""
    if not known.has_changelog:
        return []
    return ToChangelog(known)(batch, window_times(known, batch.keys)).timestamps


def window_times(known: Format, keys: Iterable[bytes]) -> Sequence[int] | None:
    """The times of the windows of these keys; None: the format has none, or its values tell the records' times."""
    if not known.is_segmented or known.changelog_form.has_timestamp:
        return None
    return [int.from_bytes(key[known.segment_time], "big") for key in keys]


class FromChangelog:
    """Restores batches of records of a store of a format, each the last one of its key, as the owner does."""

    def __init__(self, known: Format) -> None:
        self._form = known.changelog_form
        programs = self._form.programs
        self._beside = () if programs is None else programs.beside
        self._entry = None if programs is None else CompiledColumn(programs.entry)

    def __call__(self, batch: ChangelogBatch) -> RestoredEntries:
        """The entries. Raises EntryError for a record that has none."""
        deleted: list[bytes] = []
        if None in batch.values:
            deleted = [key for key, value in zip(batch.keys, batch.values, strict=True) if value is None]
            batch = batch.where([value is not None for value in batch.values])
        return RestoredEntries(self._puts(batch), list(batch.timestamps), deleted)

    def _puts(self, batch: ChangelogBatch) -> Batch:
        if self._entry is None:
            return self._each(batch)
        values = cast("list[bytes]", batch.values)
        for name in self._beside:
            column = pack_times(batch.timestamps) if name == TIMESTAMP else _headers_column(batch)
            values = [beside + value for beside, value in zip(column, values, strict=True)]
        try:
            return Batch(batch.keys, self._entry.convert(values))
        except BailOutError:
            return self._each(batch)

    def _each(self, batch: ChangelogBatch) -> Batch:
        headers = batch.headers or [[]] * len(batch)
        columns = zip(batch.keys, batch.values, batch.timestamps, map(Headers.of, headers), strict=True)
        entries = [self._form.entry(ChangelogRecord(*record)) for record in columns]
        return Batch([key for key, _ in entries], [value for _, value in entries if value is not None])


def segment_times(reader: object, known: Format, keys: Sequence[bytes]) -> list[int]:
    """The time by which each key belongs to a segment; `reader` names the task in the error.

    Raises ChunkFailedError for a key without one.
    """
    place = known.segment_time
    if short := [key for key in keys if len(key) < -place.start]:
        raise ChunkFailedError(
            f"{reader}: the key {show_key(short[0])} is too short to contain a time",
            hint="is [source] format the format that the store has?",
        )
    return [int.from_bytes(key[place], "big", signed=True) for key in keys]


def keyed_by_time(batch: ChangelogBatch) -> ChangelogBatch:
    """The records under keys that sort by their timestamps: what is sorted by key then is in the order of time.

    Where an entry of a versioned store ends when another one begins, the last of the records with one key counts.
    """
    times = pack_times([time ^ _SIGN for time in batch.timestamps])
    return replace(batch, keys=[time + key for time, key in zip(times, batch.keys, strict=True)])


def keyed_plainly(batch: ChangelogBatch) -> ChangelogBatch:
    """The records of `keyed_by_time` under their own keys."""
    return replace(batch, keys=[key[TIME_BYTES:] for key in batch.keys])


def family_prefix(form: ChangelogForm, family: str) -> bytes:
    """What keys of a column family begin with where a topic serves several: so they sort by family, then by key."""
    return b"" if form.family_header is None else family.encode() + b"\0"


def by_family(form: ChangelogForm, families: Iterable[str]) -> list[tuple[bytes, tuple[str, ...]]]:
    """The families whose entries are merged into records in key order, each group with the prefix of its keys."""
    if form.family_header is None:
        return [(b"", tuple(families))]
    return [(family_prefix(form, family), (family,)) for family in sorted({*families})]


def plain_key(form: ChangelogForm, key: bytes) -> bytes:
    """A key without the prefix of its family."""
    return key if form.family_header is None else key.partition(b"\0")[2]


def with_prefix(batch: ChangelogBatch, prefix: bytes) -> ChangelogBatch:
    """The records under keys that begin with a prefix."""
    return replace(batch, keys=[prefix + key for key in batch.keys]) if prefix else batch


def placed(form: ChangelogForm, batches: Iterable[ChangelogBatch]) -> Iterator[ChangelogBatch]:
    """Records of a topic under keys with the prefixes of their families. Raises ChangelogFailedError."""
    for batch in batches:
        if form.family_header is None:
            yield batch
            continue
        every = batch.headers or [[]] * len(batch)
        try:
            prefixes = [family_prefix(form, form.place_of(headers)) for headers in every]
        except EntryError as error:
            raise ChangelogFailedError(
                f"a changelog has a record that is not one of the format: {error}",
                hint="is [source] format the format that the store has?",
            ) from error
        keys = [prefix + key for prefix, key in zip(prefixes, batch.keys, strict=True)]
        own = [[each for each in headers if each[0] != form.family_header] for headers in every]
        yield replace(batch, keys=keys, headers=own if any(own) else None)


def addressed(form: ChangelogForm, batches: Iterable[ChangelogBatch]) -> Iterator[ChangelogBatch]:
    """The records of `placed` as a topic has them: under their own keys, with the headers of their families."""
    for batch in batches:
        if form.family_header is None:
            yield batch
            continue
        every = zip(batch.keys, batch.headers or [[]] * len(batch), strict=True)
        headers = [[*own, (form.family_header, key.partition(b"\0")[0])] for key, own in every]
        yield replace(batch, keys=[plain_key(form, key) for key in batch.keys], headers=headers)


def _constant_headers(form: ChangelogForm, records: int) -> list[RecordHeaders] | None:
    """The headers that every record has, as one object; None: none has any."""
    return [[*form.constant_headers]] * records if form.constant_headers else None


def _stored_times(values: list[bytes], joined: Buffer | None) -> Sequence[int]:
    return read_times(b"".join(values) if joined is None else joined)


def _read_headers(spans: list[bytes]) -> Sequence[RecordHeaders] | None:
    """The headers of each record; equal ones are one object. None: no record has any."""
    found = {span: list(unpack_sized(span)[0]) for span in set(spans)}
    return [found[span] for span in spans] if any(found.values()) else None


def _headers_column(batch: ChangelogBatch) -> list[bytes]:
    if batch.headers is None:
        return [pack_sized(Headers())] * len(batch)
    keys = [tuple(headers) for headers in batch.headers]
    found = {headers: pack_sized(Headers.of(headers)) for headers in set(keys)}
    return [found[headers] for headers in keys]
