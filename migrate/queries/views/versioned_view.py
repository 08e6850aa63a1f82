"""Versioned stores: `VersionedKeyValueStore` of Kafka Streams, as far as it reads.

The newest version of a key never expires. Times that are older than the store's, which is that of its newest version,
by more than the retention have no other version. Former versions are dropped with the segment of time in which they
ended. Source: org.apache.kafka.streams.state.internals.RocksDBVersionedStore.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from functools import cached_property, partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from formats import EntryError, Format, History, StateRecord
from formats.kafka_streams.versioned import LATEST, cut_key, default_segment_ms, key_in, time_of
from migrate.queries.open.partition import Entries, Opened
from migrate.queries.views.composite import Composite, QueryIterator, VersionedRecord, ViewPart, records, undecodable
from migrate.stores.state_store import Record

_OLDEST, _NEWEST = -(1 << 63), (1 << 63) - 1
_SEGMENT_IDS: WeakKeyDictionary[Opened, tuple[int, ...]] = WeakKeyDictionary()
_STORE_TIMES: WeakKeyDictionary[Opened, int] = WeakKeyDictionary()
"""Of store partitions that were read."""


class _Read(NamedTuple):
    """The entries of one store partition, decoded."""

    opened: Opened

    @property
    def format(self) -> Format:
        return self.opened.format

    @property
    def entries(self) -> Entries:
        return self.opened.segments[0].entries

    def latest(self, key: bytes) -> VersionedRecord | None:
        """The newest version, if the key was not deleted."""
        found = self._decoded(key_in(LATEST, key))
        return None if found is None else VersionedRecord(found.value, found.timestamp_ms or 0)

    def history(self, segment: int, key: bytes) -> History | None:
        """The former versions in a segment."""
        found = self._decoded(key_in(segment, key))
        return None if found is None else found.history

    def _decoded(self, stored: bytes) -> StateRecord | None:
        value = self.entries.get(stored)
        try:
            return None if value is None else self.format.decode(stored, value)
        except EntryError as error:
            raise undecodable(self.format.id, stored, error) from error


class VersionedView(Composite):
    """A read-only versioned store."""

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:
        """The newest version, or the one that was valid at a time; None: there was none, or it has expired."""
        for part in self._parts:
            stored = part.format.key_serde.encode(key)
            found = self._get(_Read(part.partition.opened()), stored, as_of)
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

        def found(part: ViewPart, stored: bytes, opened: Opened) -> Iterator[VersionedRecord]:
            every = self._versions(_Read(opened), stored, begin, end)
            return reversed(list(every)) if ascending else every

        return self._iterate(lambda part: partial(found, part, part.format.key_serde.encode(key)))

    def _get(self, read: _Read, key: bytes, as_of: int | None) -> VersionedRecord | None:
        latest = read.latest(key)
        if latest is not None and (as_of is None or latest.timestamp <= as_of):
            return latest
        if as_of is None:
            return None
        found = self._former(read, key, as_of)
        return None if found is None or self._has_expired(read, as_of) else found

    def _former(self, read: _Read, key: bytes, as_of: int) -> VersionedRecord | None:
        for segment in reversed(_segment_ids(read)):
            history = read.history(segment, key)
            if history is None:
                continue
            if history.valid_to_ms <= as_of:
                return None
            if history.versions[-1].valid_from_ms <= as_of:
                return next(
                    (each for each in _records_of(history) if each.timestamp <= as_of < (each.valid_to or 0)), None
                )
        return None

    def _versions(self, read: _Read, key: bytes, begin: int, end: int) -> Generator[VersionedRecord]:
        """From the newest on."""
        latest = read.latest(key)
        if latest is not None and latest.timestamp <= end:
            yield latest
        for segment in reversed(_segment_ids(read)):
            history = read.history(segment, key)
            if history is None:
                continue
            if history.valid_to_ms <= begin:
                return
            for each in _records_of(history):
                if each.timestamp <= end and (each.valid_to or 0) > begin:
                    if self._has_expired(read, min(end, self._end_of(segment))):
                        return
                    yield each

    @cached_property
    def _segment_ms(self) -> int:
        return self.definition.segment_ms or default_segment_ms(self.definition.retention_ms or 0)

    def _end_of(self, segment: int) -> int:
        """The last time in a segment."""
        return (segment + 1) * self._segment_ms - 1

    def _has_expired(self, read: _Read, time: int) -> bool:
        """Whether a time is older than the retention. All versions are read only where their segments do not tell."""
        retention = self.definition.retention_ms
        if retention is None:
            return False
        known = _STORE_TIMES.get(read.opened)
        if known is None and time >= _least_store_time(read) - retention:
            known = _store_time(read)
        return known is None or time < known - retention


def _least_store_time(read: _Read) -> int:
    """What the first entry of the newest segment tells of the store partition's time."""
    newest = _segment_ids(read)[-1:]
    found = _first_entry(read, newest[0]) if newest else None
    return -1 if found is None else _time_of(read, *found)


def _store_time(read: _Read) -> int:
    """The store partition's newest timestamp: read once, from the latest values and the newest segment."""
    known = _STORE_TIMES.get(read.opened)
    if known is None:
        known = max(_newest_in(read, segment) for segment in (*_segment_ids(read)[-1:], LATEST))
        _STORE_TIMES[read.opened] = known
    return known


def _newest_in(read: _Read, segment: int) -> int:
    end = None if segment == LATEST else key_in(segment + 1, b"")
    found = records(read.entries.scan(key_in(segment, b""), end))
    return max((_time_of(read, key, value) for key, value in found), default=-1)


def _time_of(read: _Read, key: bytes, value: bytes) -> int:
    try:
        return time_of(value)
    except EntryError as error:
        raise undecodable(read.format.id, key, error) from error


def _segment_ids(read: _Read) -> tuple[int, ...]:
    """The segments that there are, the oldest first: found once, by leaping from one to the next."""
    known = _SEGMENT_IDS.get(read.opened)
    if known is None:
        known = _SEGMENT_IDS[read.opened] = tuple(_segments(read))
    return known


def _segments(read: _Read) -> Iterator[int]:
    segment = LATEST
    while (found := _first_entry(read, segment + 1)) is not None:
        try:
            segment, _ = cut_key(found[0])
        except EntryError as error:
            raise undecodable(read.format.id, found[0], error) from error
        if segment == LATEST:
            return
        yield segment


def _first_entry(read: _Read, segment: int) -> Record | None:
    """The first entry of a segment, or of what follows it."""
    with closing(read.entries.scan(key_in(segment, b""), None)) as source:
        return next(iter(source.pull(1)), None)


def _records_of(history: History) -> Iterator[VersionedRecord]:
    """The versions in an entry that are no deletions, the newest first."""
    valid_to = history.valid_to_ms
    for version in history.versions:
        if version.value is not None:
            yield VersionedRecord(version.value, version.valid_from_ms, valid_to)
        valid_to = version.valid_from_ms
