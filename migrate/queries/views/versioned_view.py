"""Versioned stores: `VersionedKeyValueStore` of Kafka Streams, as far as it reads.

The newest version of a key never expires. Times that are older than the store's, which is that of its newest version,
by more than the retention have no other version. Former versions are dropped with the segment of time in which they
ended. Source: org.apache.kafka.streams.state.internals.RocksDBVersionedStore.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any

from formats import EntryError, History, StateRecord
from formats.kafka_streams.versioned import LATEST, cut_key, default_segment_ms, key_in, time_of
from migrate.queries.open.partition import Opened
from migrate.queries.views.composite import Composite, QueryIterator, VersionedRecord, once, records, undecodable
from migrate.stores.state_store import Record

_OLDEST, _NEWEST = -(1 << 63), (1 << 63) - 1


class VersionedView(Composite):
    """A read-only versioned store."""

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:
        """The newest version, or the one that was valid at a time; None: there was none, or it has expired."""
        for part in self._parts:
            stored = part.format.key_serde.encode(key)
            found = self._get(part.partition.opened(), stored, as_of)
            part.partition.check()
            if found is not None:
                return found
        return None

    def versions(
        self, key: Any, from_time: int | None = None, to_time: int | None = None, *, ascending: bool = False
    ) -> QueryIterator[VersionedRecord]:
        """The versions that were valid at some time from `from_time` to `to_time`, both included; the newest first.

        Raises ValueError where `from_time` is later than `to_time`.
        """
        begin, end = (_OLDEST if from_time is None else from_time), (_NEWEST if to_time is None else to_time)
        if begin > end:
            raise ValueError(f"from_time {begin} is later than to_time {end}: name the earlier one first")

        def found(stored: bytes, opened: Opened) -> Iterator[VersionedRecord]:
            every = self._versions(opened, stored, begin, end)
            return reversed(list(every)) if ascending else every

        return self._iterate(lambda part: partial(found, part.format.key_serde.encode(key)))

    def _get(self, opened: Opened, key: bytes, as_of: int | None) -> VersionedRecord | None:
        latest = _latest(opened, key)
        if as_of is None or (latest is not None and latest.timestamp <= as_of):
            return latest
        found = next((each for _, each in _former(opened, key, as_of, as_of)), None)
        return None if found is None or self._has_expired(opened, as_of) else found

    def _versions(self, opened: Opened, key: bytes, begin: int, end: int) -> Generator[VersionedRecord]:
        """From the newest on."""
        latest = _latest(opened, key)
        if latest is not None and latest.timestamp <= end:
            yield latest
        for segment, each in _former(opened, key, begin, end):
            if self._has_expired(opened, min(end, self._end_of(segment))):
                return
            yield each

    def _end_of(self, segment: int) -> int:
        """The last time in a segment."""
        segment_ms = self.definition.segment_ms or default_segment_ms(self.definition.retention_ms or 0)
        return (segment + 1) * segment_ms - 1

    def _has_expired(self, opened: Opened, time: int) -> bool:
        """Whether a time is older than the retention. All versions are read only where their segments do not tell."""
        retention = self.definition.retention_ms
        if retention is None:
            return False
        return time < _least_store_time(opened) - retention or time < _store_time(opened) - retention


def _latest(opened: Opened, key: bytes) -> VersionedRecord | None:
    """The newest version, if the key was not deleted."""
    found = _decoded(opened, key_in(LATEST, key))
    return None if found is None else VersionedRecord(found.value, found.timestamp_ms or 0)


def _former(opened: Opened, key: bytes, begin: int, end: int) -> Iterator[tuple[int, VersionedRecord]]:
    """(segment, version) of the former versions that were valid at some time in between, from the newest on."""
    for segment in reversed(_segment_ids(opened)):
        found = _decoded(opened, key_in(segment, key))
        if found is None or found.history is None:
            continue
        if found.history.valid_to_ms <= begin:
            return
        for each in _records_of(found.history):
            if each.timestamp <= end and (each.valid_to or 0) > begin:
                yield segment, each
        if found.history.versions[-1].valid_from_ms <= begin:
            return


def _decoded(opened: Opened, stored: bytes) -> StateRecord | None:
    value = opened.segments[0].entries.get(stored)
    try:
        return None if value is None else opened.format.decode(stored, value)
    except EntryError as error:
        raise undecodable(opened.format.id, stored, error) from error


@once
def _least_store_time(opened: Opened) -> int:
    """What the first entry of the newest segment tells of the store partition's time."""
    newest = _segment_ids(opened)[-1:]
    found = _first_entry(opened, newest[0]) if newest else None
    return -1 if found is None else _time_of(opened, *found)


@once
def _store_time(opened: Opened) -> int:
    """The store partition's newest timestamp, from the latest values and the newest segment."""
    return max(_newest_in(opened, segment) for segment in (*_segment_ids(opened)[-1:], LATEST))


def _newest_in(opened: Opened, segment: int) -> int:
    end = None if segment == LATEST else key_in(segment + 1, b"")
    found = records(opened.segments[0].entries.scan(key_in(segment, b""), end))
    return max((_time_of(opened, key, value) for key, value in found), default=-1)


def _time_of(opened: Opened, key: bytes, value: bytes) -> int:
    try:
        return time_of(value)
    except EntryError as error:
        raise undecodable(opened.format.id, key, error) from error


@once
def _segment_ids(opened: Opened) -> tuple[int, ...]:
    """The segments that there are, the oldest first: found by leaping from one to the next."""
    segments: list[int] = []
    while (found := _first_entry(opened, segments[-1] + 1 if segments else LATEST + 1)) is not None:
        try:
            segment, _ = cut_key(found[0])
        except EntryError as error:
            raise undecodable(opened.format.id, found[0], error) from error
        if segment == LATEST:
            break
        segments.append(segment)
    return tuple(segments)


def _first_entry(opened: Opened, segment: int) -> Record | None:
    """The first entry of a segment, or of what follows it."""
    with closing(opened.segments[0].entries.scan(key_in(segment, b""), None)) as source:
        return next(iter(source.pull(1)), None)


def _records_of(history: History) -> Iterator[VersionedRecord]:
    """The versions in an entry that are no deletions, the newest first."""
    valid_to = history.valid_to_ms
    for version in history.versions:
        if version.value is not None:
            yield VersionedRecord(version.value, version.valid_from_ms, valid_to)
        valid_to = version.valid_from_ms
