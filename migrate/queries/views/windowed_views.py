"""Window and session stores: `ReadOnlyWindowStore` and `ReadOnlySessionStore` of Kafka Streams.

Answers have the order and the content of Kafka Streams': segment after segment, the oldest first, and by stored key
within each. A range of keys is one of stored keys. Where keys differ in size it may hold others, which are left out,
and a key that is the beginning of the upper bound may lie behind it.

Expired records are those whose time (of a window its start, of a session its end) is older than the store's by the
retention or more; Streamiz leaves out whole segments of them only. The store's time is that of its newest record, as it
is for the owner once it has written again.

Source: org.apache.kafka.streams.state.ReadOnlyWindowStore, ReadOnlySessionStore, internals.RocksDBWindowStore,
RocksDBSessionStore, CompositeReadOnlyWindowStore, CompositeReadOnlySessionStore, AbstractRocksDBSegmentedBytesStore,
SegmentIterator, WindowKeySchema, SessionKeySchema, OrderedBytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from struct import Struct
from typing import Any, ClassVar, NamedTuple, overload

from formats.encoding.window_keys import SESSION_KEY, WINDOW_KEY
from formats.errors import TruncatedEntryError
from formats.layout import WINDOW_END, WINDOW_START, Carried, RecordLayout
from migrate.queries.open.partition import Opened, OpenSegment, StoreDefinition
from migrate.queries.views.composite import (
    Composite,
    Pulls,
    QueryIterator,
    TimeWindow,
    ViewPart,
    Windowed,
    key_decoder,
    once,
    records,
    undecodable,
)
from migrate.stores.state_store import Record
from migrate.systems import get_system

MAX_TIME = (1 << 63) - 1
_MAX_SEQUENCE = (1 << 31) - 1
_WINDOW = Struct(">qi")
_SESSION = Struct(">qq")


class WindowValue(NamedTuple):
    """A window of the key that was asked for."""

    time: int
    """Its start."""
    value: Any


class WindowedValue(NamedTuple):
    """A window of any key."""

    key: Windowed
    value: Any


_Keys = Callable[[ViewPart], tuple[bytes | None, bytes | None]]
"""From a store partition to its serialized keys, the first and the last."""
_SAME: Any = ...
"""Stands for the upper bound of a range of one key."""


class _SegmentedView(Composite, ABC):
    """What window and session stores have in common. Of ranges both ends are included, None: unbounded."""

    _key_schema: ClassVar[RecordLayout]

    @abstractmethod
    def _window(self, times: Carried) -> TimeWindow:
        """The window of the times in a stored key."""

    def _found(
        self, keys: _Keys, time_from: int, time_to: int, *, backward: bool, named: bool = True
    ) -> QueryIterator[Any]:
        """What was asked for and has not expired: each a WindowedValue, or a WindowValue of the one key."""

        def found(part: ViewPart, asked: Asked, opened: Opened) -> Generator[WindowedValue | WindowValue]:
            read_key = key_decoder(part.format)
            kept = replace(asked, time_from=max(asked.time_from, oldest_kept(opened, self.definition)))
            for stored, value in found_in(opened, kept, part.pulls, backward=backward):
                payload, times = self._key_schema.unpack(stored)
                window, read = self._window(times), part.decode(stored, value)
                key = Windowed(read_key(payload, stored, value), window) if named else None
                yield WindowValue(window.start, read) if key is None else WindowedValue(key, read)

        is_session = self._key_schema == SESSION_KEY
        return self._iterate(lambda each: partial(found, each, Asked(is_session, *keys(each), time_from, time_to)))

    def _value_at(self, key: object, times: dict[str, int], time: int) -> object:
        """The decoded value in the first store partition that has it; None where there is none, or it has expired."""
        for part in self._parts:
            opened = part.partition.opened()
            stored = self._key_schema.pack(part.format.key_serde.encode(key), times)
            has_expired = time < oldest_kept(opened, self.definition)
            at = 0 if has_expired else bisect_right(opened.segments, time, key=_segment_start)
            value = opened.segments[at - 1].entries.get(stored) if at else None
            part.partition.check()
            if value is not None:
                return part.decode(stored, value)
        return None


class WindowView(_SegmentedView):
    """A read-only window store. Times are of the windows' starts, and both ends of a range are included."""

    _key_schema = WINDOW_KEY

    @overload
    def fetch(self, key: Any, time_from: int) -> Any: ...

    @overload
    def fetch(self, key: Any, time_from: int, time_to: int) -> QueryIterator[WindowValue]: ...

    def fetch(self, key: Any, time_from: int, time_to: int | None = None) -> Any:
        """The windows of a key, the oldest first; with one time the value of the window that starts then, or None."""
        if time_to is None:
            return self._value_at(key, {WINDOW_START: time_from}, time_from)
        return self._found(_range(key), time_from, time_to, backward=False, named=False)

    def backward_fetch(self, key: Any, time_from: int, time_to: int) -> QueryIterator[WindowValue]:
        """The windows of a key, the newest first."""
        return self._found(_range(key), time_from, time_to, backward=True, named=False)

    def fetch_keys(self, key_from: Any, key_to: Any, time_from: int, time_to: int) -> QueryIterator[WindowedValue]:
        """The windows of a range of keys, both included, None: unbounded; segment after segment, in order of keys."""
        return self._found(_range(key_from, key_to), time_from, time_to, backward=False)

    def backward_fetch_keys(
        self, key_from: Any, key_to: Any, time_from: int, time_to: int
    ) -> QueryIterator[WindowedValue]:
        """The same from the last to the first."""
        return self._found(_range(key_from, key_to), time_from, time_to, backward=True)

    def all(self) -> QueryIterator[WindowedValue]:
        """Every window."""
        return self.fetch_all(0, MAX_TIME)

    def backward_all(self) -> QueryIterator[WindowedValue]:
        """Every window, from the last to the first."""
        return self.backward_fetch_all(0, MAX_TIME)

    def fetch_all(self, time_from: int, time_to: int) -> QueryIterator[WindowedValue]:
        """The windows of all keys."""
        return self._found(_range(None, None), time_from, time_to, backward=False)

    def backward_fetch_all(self, time_from: int, time_to: int) -> QueryIterator[WindowedValue]:
        """The windows of all keys, from the last to the first."""
        return self._found(_range(None, None), time_from, time_to, backward=True)

    def _window(self, times: Carried) -> TimeWindow:
        start, size = times[WINDOW_START], self.definition.window_size_ms
        return TimeWindow(start, None if size is None else min(start + size, MAX_TIME))


class SessionView(_SegmentedView):
    """A read-only session store. A session's window has the times of its first and its last record."""

    _key_schema = SESSION_KEY

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        """The value of the session with these times, or None."""
        return self._value_at(key, {WINDOW_START: start, WINDOW_END: end}, end)

    def fetch(self, key_from: Any, key_to: Any = _SAME) -> QueryIterator[WindowedValue]:
        """The sessions of a key, or of a range of keys, both included; None: unbounded."""
        return self.find_sessions(key_from, 0, MAX_TIME, key_to=key_to)

    def backward_fetch(self, key_from: Any, key_to: Any = _SAME) -> QueryIterator[WindowedValue]:
        """The same from the last to the first."""
        return self.backward_find_sessions(key_from, 0, MAX_TIME, key_to=key_to)

    def all(self) -> QueryIterator[WindowedValue]:
        """Every session."""
        return self.fetch(None, None)

    def find_sessions(
        self, key: Any, earliest_end: int, latest_start: int, *, key_to: Any = _SAME
    ) -> QueryIterator[WindowedValue]:
        """The sessions that end at `earliest_end` or later and start at `latest_start` or earlier.

        Of one key, or with `key_to` of the keys up to that one.
        """
        return self._found(_range(key, key_to), earliest_end, latest_start, backward=False)

    def backward_find_sessions(
        self, key: Any, earliest_end: int, latest_start: int, *, key_to: Any = _SAME
    ) -> QueryIterator[WindowedValue]:
        """The same from the last to the first."""
        return self._found(_range(key, key_to), earliest_end, latest_start, backward=True)

    def _window(self, times: Carried) -> TimeWindow:
        return TimeWindow(times[WINDOW_START], times[WINDOW_END])


def _range(key: object, key_to: object = _SAME) -> _Keys:
    def keys(part: ViewPart) -> tuple[bytes | None, bytes | None]:
        encode = part.format.key_serde.encode
        if key_to is _SAME:
            return encode(key), encode(key)
        return None if key is None else encode(key), None if key_to is None else encode(key_to)

    return keys


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


def _searched(segments: tuple[OpenSegment, ...], asked: Asked) -> list[OpenSegment]:
    """The segments that may hold such times: each ends before the next one begins."""
    latest = MAX_TIME if asked.is_session else asked.time_to
    spans = zip(segments, [*map(_segment_start, segments[1:]), MAX_TIME + 1], strict=False)
    return [each for each, end in spans if _segment_start(each) <= latest and end > asked.time_from]


def _segment_start(segment: OpenSegment) -> int:
    return segment.start_ms or 0


def oldest_kept(opened: Opened, definition: StoreDefinition) -> int:
    """The time before which records have expired; without a retention none has."""
    if definition.retention_ms is None or (newest := _newest(opened)) < 0:
        return 0
    system = get_system(opened.format.system)
    return max(0, system.segments.oldest_kept(newest, definition.retention_ms, definition.segment_ms))


@once  # the newest segment may have millions of keys
def _newest(opened: Opened) -> int:
    """The newest time in a store partition, by the keys of its newest segment that has any; -1: it has no record."""
    place = opened.format.segment_time
    every = (records(each.entries.scan(None, None)) for each in reversed(opened.segments))
    times = (max((key[place] for key, _ in found), default=b"") for found in every)
    return next((int.from_bytes(time, "big") for time in times if time), -1)
