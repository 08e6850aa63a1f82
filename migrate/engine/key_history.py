"""The versions of one key, made of the records of a changelog as the owner of a versioned store makes them.

Records come in the order of the changelog, which need not be that of their times. Source:
org.apache.kafka.streams.state.internals.RocksDBVersionedStore (doPut) and RocksDBVersionedStoreSegmentValueFormatter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from formats.format import Format
from formats.record import History, StateRecord, Version


@dataclass(slots=True)
class _Former:
    """Former values in one segment, which is that of the time when a value ended."""

    valid_to_ms: int
    """When the newest one ended."""
    versions: list[Version]
    """The newest first."""

    @property
    def began_ms(self) -> int:
        return self.versions[-1].valid_from_ms

    @property
    def is_mark(self) -> bool:
        """Whether all that it says is that the key was deleted at that time."""
        return self.began_ms == self.valid_to_ms

    def add_newest(self, version: Version, valid_to_ms: int) -> None:
        """A version behind all others; the key was deleted in between, if there is a time between them."""
        if self.is_mark:
            self.versions.clear()
        if self.valid_to_ms != version.valid_from_ms:
            self.versions.insert(0, Version(self.valid_to_ms, None))
        self.versions.insert(0, version)
        self.valid_to_ms = valid_to_ms

    def add_oldest(self, version: Version) -> None:
        """A version that ended when the oldest one began."""
        if self.is_mark:
            self.versions.clear()
        self.versions.append(version)


class KeyHistory:
    """What a versioned store holds of one key."""

    def __init__(self, segment_ms: int) -> None:
        self._segment_ms = segment_ms
        self._latest: Version | None = None
        self._former: dict[int, _Former] = {}
        """By segment."""

    def put(self, version: Version) -> None:
        """Apply the next record of the changelog."""
        at, latest = version.valid_from_ms, self._latest
        if latest is None or at < latest.valid_from_ms:
            self._put_before(version, None if latest is None else latest.valid_from_ms)
            return
        if at > latest.valid_from_ms:
            self._end(latest, at)
        self._latest = None if version.value is None else version

    def entries(self, known: Format, key: bytes, oldest: int) -> Iterator[tuple[bytes, bytes]]:
        """The store's entries of this key, but those of segments before the oldest one that its owner keeps."""
        for segment, former in self._former.items():
            if segment >= oldest:
                history = History(segment, former.valid_to_ms, tuple(former.versions))
                yield known.encode(StateRecord(key, None, history=history))
        if (latest := self._latest) is not None:
            yield known.encode(StateRecord(key, latest.value, timestamp_ms=latest.valid_from_ms))

    def _end(self, version: Version, valid_to_ms: int) -> None:
        """Let a version be the newest former one of its segment."""
        former = self._former.get(valid_to_ms // self._segment_ms)
        if former is None:
            self._former[valid_to_ms // self._segment_ms] = _Former(valid_to_ms, [version])
        else:
            former.add_newest(version, valid_to_ms)

    def _put_before(self, version: Version, valid_to_ms: int | None) -> None:
        """`valid_to_ms`: when the latest value began; None: there is none."""
        at = version.valid_from_ms
        for segment in sorted(self._former, reverse=True):
            former = self._former[segment]
            if former.valid_to_ms <= at:
                break
            if former.began_ms <= at:
                self._put_within(segment, version)
                return
            valid_to_ms = former.began_ms
        if valid_to_ms is None:
            self._put_last(version)
            return
        there = self._former.get(valid_to_ms // self._segment_ms)
        if there is None or there.valid_to_ms <= at:
            self._end(version, valid_to_ms)
        else:
            there.add_oldest(version)

    def _put_within(self, segment: int, version: Version) -> None:
        """A version that begins while one of this segment holds, which ends then, or that replaces it."""
        at, versions = version.valid_from_ms, self._former[segment].versions
        place = next(place for place, each in enumerate(versions) if each.valid_from_ms <= at)
        before = versions[place]
        if before.valid_from_ms == at:
            versions[place] = version
        elif segment == at // self._segment_ms:
            versions.insert(place, version)
        else:
            self._end(before, at)
            versions[place] = version

    def _put_last(self, version: Version) -> None:
        """A version behind all others, where there is no latest value. A deletion is kept among former values."""
        if version.value is not None:
            self._latest = version
            return
        at = version.valid_from_ms
        former = self._former.get(at // self._segment_ms)
        if former is None:
            self._former[at // self._segment_ms] = _Former(at, [version])
        elif former.valid_to_ms != at:
            former.add_newest(Version(former.valid_to_ms, None), at)
