"""Versioned stores: `VersionedKeyValueStore` of Kafka Streams, as far as it reads.

The newest version of a key never expires. Older ones do once the store's time, which is that of its newest version, is
later by more than the retention. Source: org.apache.kafka.streams.state.internals.RocksDBVersionedStore.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from formats import EntryError, Format, History, StateRecord
from formats.kafka_streams.versioned import LATEST, cut_key, key_in, newest_time
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.partition import Entries, Opened, Partition
from migrate.queries.views.composite import Composite, Decoder, Part, QueryIterator, records, undecodable
from migrate.queries.views.results import VersionedRecord

_NEWEST = (1 << 63) - 1


class _Read(NamedTuple):
    """The entries of one store partition, decoded."""

    format: Format
    entries: Entries

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

    def __init__(
        self,
        name: str,
        partitions: Sequence[Partition],
        definition: StoreDefinition,
        decoder: Callable[[Format], Decoder],
    ) -> None:
        super().__init__(name, partitions, definition, decoder)
        self._times: WeakKeyDictionary[Entries, int] = WeakKeyDictionary()
        self._segments: WeakKeyDictionary[Entries, tuple[int, ...]] = WeakKeyDictionary()

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:  # noqa: ANN401 - of the key's serde
        """The newest version, or the one that was valid at a time; None: there was none, or it has expired."""
        for part in self._parts:
            stored = part.format.key_serde.encode(key)
            found = self._get(_Read(part.format, part.partition.opened().segments[0].entries), stored, as_of)
            part.partition.check()
            if found is not None:
                return found
        return None

    def versions(
        self,
        key: Any,  # noqa: ANN401 - of the serde
        from_time: int | None = None,
        to_time: int | None = None,
        *,
        ascending: bool = False,
    ) -> QueryIterator[VersionedRecord]:
        """The versions that were valid at some time from `from_time` to `to_time`, both included; the newest first."""
        begin, end = (0 if from_time is None else from_time), (_NEWEST if to_time is None else to_time)

        def found(part: Part, opened: Opened) -> Iterator[VersionedRecord]:
            read = _Read(part.format, opened.segments[0].entries)
            every = self._versions(read, part.format.key_serde.encode(key), begin, end)
            return reversed(list(every)) if ascending else every

        return self._iterate(found)

    def _get(self, read: _Read, key: bytes, as_of: int | None) -> VersionedRecord | None:
        entries = read.entries
        latest = read.latest(key)
        if latest is not None and (as_of is None or latest.timestamp <= as_of):
            return latest
        if as_of is None or self._has_expired(entries, as_of):
            return None
        for segment in reversed(self._segment_ids(entries)):
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
        entries = read.entries
        latest = read.latest(key)
        if latest is not None and latest.timestamp <= end:
            yield latest
        if self.definition.retention_ms is not None:
            begin = max(begin, self._time(entries) - self.definition.retention_ms)
        for segment in reversed(self._segment_ids(entries)):
            history = read.history(segment, key)
            if history is None:
                continue
            if history.valid_to_ms <= begin:
                return
            for each in _records_of(history):
                if each.timestamp <= end and (each.valid_to or 0) > begin:
                    yield each

    def _segment_ids(self, entries: Entries) -> tuple[int, ...]:
        """The segments that there are, the oldest first: found by leaping from one to the next."""
        known = self._segments.get(entries)
        if known is None:
            known = self._segments[entries] = tuple(_segments(entries))
        return known

    def _has_expired(self, entries: Entries, as_of: int) -> bool:
        retention = self.definition.retention_ms
        return retention is not None and as_of < self._time(entries) - retention

    def _time(self, entries: Entries) -> int:
        """The store partition's newest timestamp: read once, from all of its entries."""
        known = self._times.get(entries)
        if known is None:
            found = (newest_time(key, value) for key, value in records(entries.scan(None, None)))
            known = self._times[entries] = max(found, default=-1)
        return known


def _segments(entries: Entries) -> Iterator[int]:
    start: bytes | None = key_in(0, b"")
    while start is not None:
        source = entries.scan(start, None)
        try:
            found = source.pull(1)
        finally:
            source.close()
        if not found or (segment := cut_key(found[0][0])[0]) < 0:
            return
        yield segment
        start = key_in(segment + 1, b"")


def _records_of(history: History) -> Iterator[VersionedRecord]:
    """The versions in an entry that are no deletions, the newest first."""
    valid_to = history.valid_to_ms
    for version in history.versions:
        if version.value is not None:
            yield VersionedRecord(version.value, version.valid_from_ms, valid_to)
        valid_to = version.valid_from_ms
