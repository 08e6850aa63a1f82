"""What a question to a windowed or session store reads: which segments, which keys in them, and which it leaves out.

Answers have the order and the content of Kafka Streams': segment after segment, the oldest first, and by stored key
within each. A range of keys is one of stored keys. Where keys differ in size it may hold others, which are left out,
and a key that is the beginning of the upper bound may lie behind it.

Expired records are those whose time (of a window its start, of a session its end) is older than the store's by the
retention or more. The store's time is that of its newest record, as it is for the owner once it has written again.

Source: org.apache.kafka.streams.state.internals AbstractRocksDBSegmentedBytesStore, SegmentIterator, WindowKeySchema,
SessionKeySchema, OrderedBytes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from weakref import WeakKeyDictionary

from formats import Format
from migrate.queries.open.partition import Entries, Opened, OpenSegment
from migrate.queries.views.composite import records
from migrate.stores.records import Record

MAX_TIME = (1 << 63) - 1
_MAX_SEQUENCE = (1 << 31) - 1
_WINDOW = Struct(">qi")
_SESSION = Struct(">qq")
_PULL = 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """Serialized keys and times in ms, all bounds included.

    Of a window store, those windows that start in the range of time; of a session store, those sessions that end at
    `time_from` or later and start at `time_to` or earlier.
    """

    is_session: bool
    key_from: bytes | None = None
    """None: from the first key on."""
    key_to: bytes | None = None
    time_from: int = 0
    time_to: int = MAX_TIME

    @property
    def is_empty(self) -> bool:
        """Whether no record can be in the range."""
        is_reversed = self.key_from is not None and self.key_to is not None and self.key_from > self.key_to
        return is_reversed or (not self.is_session and self.time_to < self.time_from)

    @property
    def suffix(self) -> int:
        """The bytes of a stored key behind the serialized one."""
        return _SESSION.size if self.is_session else _WINDOW.size

    def bounds(self) -> tuple[bytes | None, bytes | None]:
        """The stored keys [start, end) to read in each segment; None: unbounded."""
        start, last = self.key_from, self.key_to
        if start is not None and start == last:
            earliest = max(0, self.time_from)
            begin = _SESSION.pack(earliest, 0) if self.is_session else _WINDOW.pack(earliest, 0)
            return start + begin, start + self._latest() + b"\0"
        low = None if start is None else start + bytes(self.suffix)
        return low, None if last is None else _upper(last, self._latest()) + b"\0"

    def _latest(self) -> bytes:
        """The greatest suffix of a key in the range."""
        time_to = max(self.time_to, -MAX_TIME - 1)
        return _SESSION.pack(MAX_TIME, time_to) if self.is_session else _WINDOW.pack(time_to, _MAX_SEQUENCE)

    def includes(self, stored: bytes) -> bool:
        """Whether a stored key between the bounds is one that was asked for."""
        key = stored[: -self.suffix]
        if (self.key_from is not None and key < self.key_from) or (self.key_to is not None and key > self.key_to):
            return False
        if self.is_session:
            end, start = _SESSION.unpack(stored[-_SESSION.size :])
            return bool(end >= self.time_from and start <= self.time_to)
        start, _ = _WINDOW.unpack(stored[-_WINDOW.size :])
        return bool(self.time_from <= start <= self.time_to)


def _upper(key: bytes, suffix: bytes) -> bytes:
    """The upper bound of stored keys up to a key of any size, where it may be the beginning of others."""
    first = suffix[0]
    kept = next((at for at in range(1, len(key)) if key[at] < first), len(key))
    return key[:kept] + suffix


def found_in(opened: Opened, asked: Asked, *, backward: bool = False) -> Generator[Record]:
    """The entries that were asked for."""
    if asked.is_empty:
        return
    start, end = asked.bounds()
    segments = _searched(opened.segments, asked)
    for segment in reversed(segments) if backward else segments:
        for record in records(segment.entries.scan(start, end, reverse=backward)):
            if asked.includes(record[0]):
                yield record


def _searched(segments: tuple[OpenSegment, ...], asked: Asked) -> list[OpenSegment]:
    """The segments that may hold such times: each ends before the next one begins."""
    latest = MAX_TIME if asked.is_session else asked.time_to
    ends = [follower.start_ms or 0 for _, follower in pairwise(segments)]
    spans = zip(segments, [*ends, MAX_TIME + 1], strict=True) if segments else ()
    return [each for each, end in spans if (each.start_ms or 0) <= latest and end > asked.time_from]


class StreamTimes:
    """The newest time in each store partition, read once from the keys of its newest segment that has any."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Entries, int] = WeakKeyDictionary()

    def oldest_kept(self, opened: Opened, retention_ms: int | None) -> int:
        """The time before which records have expired; without a retention none has."""
        if retention_ms is None:
            return 0
        newest = (self._newest(opened.format, each.entries) for each in reversed(opened.segments))
        return next((time for time in newest if time >= 0), -1) - retention_ms + 1

    def _newest(self, known: Format, entries: Entries) -> int:
        """-1: the segment has no record."""
        if entries not in self._known:
            place = known.segment_time
            newest = max((key[place] for key in _keys(entries)), default=None)
            self._known[entries] = -1 if newest is None else int.from_bytes(newest, "big", signed=True)
        return self._known[entries]


def _keys(entries: Entries) -> Iterator[bytes]:
    source = entries.scan(None, None)
    try:
        while found := source.pull(_PULL):
            yield from [key for key, _ in found]
    finally:
        source.close()
