"""What a question to a windowed or session store reads: which segments, which keys in them, and which it leaves out.

Answers have the order and the content of Kafka Streams': segment after segment, the oldest first, and by stored key
within each. A range of keys is one of stored keys. Where keys differ in size it may hold others, which are left out,
and a key that is the beginning of the upper bound may lie behind it.

Expired records are those whose time (of a window its start, of a session its end) is older than the store's by the
retention or more; Streamiz leaves out whole segments of them only. The store's time is that of its newest record, as it
is for the owner once it has written again.

Source: org.apache.kafka.streams.state.internals AbstractRocksDBSegmentedBytesStore, SegmentIterator, WindowKeySchema,
SessionKeySchema, OrderedBytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from weakref import WeakKeyDictionary

from formats.errors import TruncatedEntryError
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.partition import Entries, Opened, OpenSegment
from migrate.queries.views.composite import Part, Pulls, records, undecodable
from migrate.stores.records import Record
from migrate.systems import get_system

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
    """No record is of a time before 0, or after MAX_TIME."""

    @property
    def is_empty(self) -> bool:
        """Whether no record can be in the range."""
        is_reversed = self.key_from is not None and self.key_to is not None and self.key_from > self.key_to
        return is_reversed or self.time_to < (0 if self.is_session else max(0, self.time_from))

    @property
    def suffix(self) -> int:
        """The bytes of a stored key behind the serialized one."""
        return _SESSION.size if self.is_session else _WINDOW.size

    def bounds(self) -> tuple[bytes | None, bytes | None]:
        """The stored keys [start, end) to read in each segment; None: unbounded."""
        start, last = self.key_from, self.key_to
        if start is not None and start == last:
            earliest = min(max(0, self.time_from), MAX_TIME)
            begin = _SESSION.pack(earliest, 0) if self.is_session else _WINDOW.pack(earliest, 0)
            return start + begin, start + self._latest() + b"\0"
        low = None if start is None else start + bytes(self.suffix)
        return low, None if last is None else _upper(last, self._latest()) + b"\0"

    def _latest(self) -> bytes:
        """The greatest suffix of a key in the range."""
        time_to = min(self.time_to, MAX_TIME)
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


def found_in(opened: Opened, asked: Asked, pulls: Pulls, *, backward: bool = False) -> Generator[Record]:
    """The entries that were asked for."""
    if asked.is_empty:
        return
    start, end = asked.bounds()
    segments = _searched(opened.segments, asked)
    for segment in reversed(segments) if backward else segments:
        for record in records(segment.entries.scan(start, end, reverse=backward), pulls):
            if len(record[0]) < asked.suffix:
                short = TruncatedEntryError("stored key", len(record[0]), asked.suffix)
                raise undecodable(opened.format.id, record[0], short)
            if asked.includes(record[0]):
                yield record


def value_at(parts: Iterable[Part], definition: StoreDefinition, stored: Callable[[Part], bytes], time: int) -> object:
    """The decoded value of a key and time in the first store partition that has it, or None where it has expired.

    `stored`: the stored key in a store partition.
    """
    for part in parts:
        opened = part.partition.opened()
        key = stored(part)
        at = 0 if time < oldest_kept(opened, definition) else bisect_right(opened.segments, time, key=_start)
        value = opened.segments[at - 1].entries.get(key) if at else None
        part.partition.check()
        if value is not None:
            return part.decode(key, value)
    return None


def _searched(segments: tuple[OpenSegment, ...], asked: Asked) -> list[OpenSegment]:
    """The segments that may hold such times: each ends before the next one begins."""
    latest = MAX_TIME if asked.is_session else asked.time_to
    spans = zip(segments, [*map(_start, segments[1:]), MAX_TIME + 1], strict=False)
    return [each for each, end in spans if _start(each) <= latest and end > asked.time_from]


def _start(segment: OpenSegment) -> int:
    return segment.start_ms or 0


def oldest_kept(opened: Opened, definition: StoreDefinition) -> int:
    """The time before which records have expired; without a retention none has."""
    if definition.retention_ms is None or (newest := _newest(opened)) < 0:
        return 0
    system = get_system(opened.format.system)
    return max(0, system.oldest_kept(newest, definition.retention_ms, definition.segment_ms))


_NEWEST: WeakKeyDictionary[Opened, int] = WeakKeyDictionary()
"""Of all views: a query makes a view of its own, and the newest segment may have millions of keys."""


def _newest(opened: Opened) -> int:
    """The newest time in a store partition, by the keys of its newest segment that has any; -1: it has no record."""
    newest = _NEWEST.get(opened)
    if newest is None:
        place = opened.format.segment_time
        found = (max((key[place] for key in _keys(each.entries)), default=b"") for each in reversed(opened.segments))
        newest = next((int.from_bytes(time, "big") for time in found if time), -1)
        _NEWEST[opened] = newest
    return newest


def _keys(entries: Entries) -> Iterator[bytes]:
    source = entries.scan(None, None)
    try:
        while found := source.pull(_PULL):
            yield from [key for key, _ in found]
    finally:
        source.close()
