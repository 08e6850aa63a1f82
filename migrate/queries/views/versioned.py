"""Versioned stores: `VersionedKeyValueStore` of Kafka Streams, as far as it reads.

The newest version of a key never expires. Older ones do once the store's time, which is that of its newest version, is
later by more than the retention. Source: org.apache.kafka.streams.state.internals.RocksDBVersionedStore.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from formats import EntryError, History
from formats.kafka_streams.versioned import LATEST, cut_key, key_in, newest_time
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.partition import Entries, Opened, Partition
from migrate.queries.views.composite import Composite, Decoder, QueryIterator, records, undecodable
from migrate.queries.views.results import VersionedRecord

_NEWEST = (1 << 63) - 1


class VersionedView(Composite):
    """A read-only versioned store. Safe to share between threads."""

    def __init__(
        self,
        name: str,
        partitions: Sequence[Partition],
        definition: StoreDefinition,
        decoder: Callable[[Any], Decoder],
    ) -> None:
        super().__init__(name, partitions, definition)
        self._format = definition.stored
        self._times: WeakKeyDictionary[Entries, int] = WeakKeyDictionary()
        self._segments: WeakKeyDictionary[Entries, tuple[int, ...]] = WeakKeyDictionary()

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:  # noqa: ANN401 - of the key's serde
        """The newest version, or the one that was valid at a time; None: there was none, or it has expired."""
        stored = self.definition.key.encode(key)
        for partition in self.partitions:
            found = self._get(partition.opened(), stored, as_of)
            partition.check()
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
        stored = self.definition.key.encode(key)
        begin, end = (0 if from_time is None else from_time), (_NEWEST if to_time is None else to_time)

        def found(opened: Opened) -> Iterator[VersionedRecord]:
            every = self._versions(opened, stored, begin, end)
            return reversed(list(every)) if ascending else every

        return self.iterate(found)

    def _get(self, opened: Opened, key: bytes, as_of: int | None) -> VersionedRecord | None:
        entries = opened.segments[0].entries
        latest = self._latest(entries, key)
        if latest is not None and (as_of is None or latest.timestamp <= as_of):
            return latest
        if as_of is None or self._has_expired(entries, as_of):
            return None
        for segment in reversed(self._segment_ids(entries)):
            history = self._history(entries, segment, key)
            if history is None:
                continue
            if history.valid_to_ms <= as_of:
                return None
            if history.versions[-1].valid_from_ms <= as_of:
                return next(
                    (each for each in _records_of(history) if each.timestamp <= as_of < (each.valid_to or 0)), None
                )
        return None

    def _versions(self, opened: Opened, key: bytes, begin: int, end: int) -> Generator[VersionedRecord]:
        """From the newest on."""
        entries = opened.segments[0].entries
        latest = self._latest(entries, key)
        if latest is not None and latest.timestamp <= end:
            yield latest
        if self.definition.retention_ms is not None:
            begin = max(begin, self._time(entries) - self.definition.retention_ms)
        for segment in reversed(self._segment_ids(entries)):
            history = self._history(entries, segment, key)
            if history is None:
                continue
            if history.valid_to_ms <= begin:
                return
            for each in _records_of(history):
                if each.timestamp <= end and (each.valid_to or 0) > begin:
                    yield each

    def _latest(self, entries: Entries, key: bytes) -> VersionedRecord | None:
        stored = key_in(LATEST, key)
        value = entries.get(stored)
        if value is None:
            return None
        record = self._decoded(stored, value)
        return VersionedRecord(record.value, record.timestamp_ms)

    def _history(self, entries: Entries, segment: int, key: bytes) -> History | None:
        stored = key_in(segment, key)
        value = entries.get(stored)
        found: History | None = None if value is None else self._decoded(stored, value).history
        return found

    def _decoded(self, key: bytes, value: bytes) -> Any:  # noqa: ANN401 - a StateRecord
        try:
            return self._format.decode(key, value)
        except EntryError as error:
            raise undecodable(self._format.id, key, error) from error

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
