"""Window stores: `ReadOnlyWindowStore` of Kafka Streams.

Source: org.apache.kafka.streams.state.ReadOnlyWindowStore, internals.RocksDBWindowStore, CompositeReadOnlyWindowStore.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, overload

from formats.encoding.window_keys import WINDOW_KEY
from formats.layout import WINDOW_START
from migrate.queries.open.partition import Opened
from migrate.queries.views.composite import Composite, Part, QueryIterator, Search, key_decoder
from migrate.queries.views.results import TimeWindow, Windowed
from migrate.queries.views.segments import MAX_TIME, Asked, found_in, oldest_kept, value_at
from migrate.stores.records import Record


class WindowValue(NamedTuple):
    """A window of the key that was asked for."""

    time: int
    """Its start."""
    value: Any


class WindowedValue(NamedTuple):
    """A window of any key."""

    key: Windowed
    value: Any


class WindowView(Composite):
    """A read-only window store. Times are of the windows' starts, and both ends of a range are included."""

    @overload
    def fetch(self, key: Any, time_from: int) -> Any: ...  # noqa: ANN401

    @overload
    def fetch(self, key: Any, time_from: int, time_to: int) -> QueryIterator[WindowValue]: ...  # noqa: ANN401

    def fetch(self, key: Any, time_from: int, time_to: int | None = None) -> Any:
        """The windows of a key, the oldest first; with one time the value of the window that starts then, or None."""
        if time_to is None:
            return self._one(key, time_from)
        return self._of_key(key, time_from, time_to, backward=False)

    def backward_fetch(self, key: Any, time_from: int, time_to: int) -> QueryIterator[WindowValue]:  # noqa: ANN401
        """The windows of a key, the newest first."""
        return self._of_key(key, time_from, time_to, backward=True)

    def fetch_keys(
        self,
        key_from: Any,  # noqa: ANN401
        key_to: Any,  # noqa: ANN401
        time_from: int,
        time_to: int,
    ) -> QueryIterator[WindowedValue]:
        """The windows of a range of keys, both included, None: unbounded; segment after segment, in order of keys."""
        return self._of_keys(key_from, key_to, time_from, time_to, backward=False)

    def backward_fetch_keys(
        self,
        key_from: Any,  # noqa: ANN401
        key_to: Any,  # noqa: ANN401
        time_from: int,
        time_to: int,
    ) -> QueryIterator[WindowedValue]:
        """The same from the last to the first."""
        return self._of_keys(key_from, key_to, time_from, time_to, backward=True)

    def all(self) -> QueryIterator[WindowedValue]:
        """Every window."""
        return self.fetch_all(0, MAX_TIME)

    def backward_all(self) -> QueryIterator[WindowedValue]:
        """Every window, from the last to the first."""
        return self.backward_fetch_all(0, MAX_TIME)

    def fetch_all(self, time_from: int, time_to: int) -> QueryIterator[WindowedValue]:
        """The windows of all keys."""
        return self._of_keys(None, None, time_from, time_to, backward=False)

    def backward_fetch_all(self, time_from: int, time_to: int) -> QueryIterator[WindowedValue]:
        """The windows of all keys, from the last to the first."""
        return self._of_keys(None, None, time_from, time_to, backward=True)

    def _one(self, key: object, time: int) -> object:
        def stored(part: Part) -> bytes:
            return WINDOW_KEY.pack(part.format.key_serde.encode(key), {WINDOW_START: time})

        return value_at(self._parts, self.definition, stored, time)

    def _of_key(self, key: object, time_from: int, time_to: int, *, backward: bool) -> QueryIterator[WindowValue]:
        def ask(part: Part) -> Search[WindowValue]:
            payload = part.format.key_serde.encode(key)
            return partial(found, part, Asked(False, payload, payload, time_from, time_to))

        def found(part: Part, asked: Asked, opened: Opened) -> Generator[WindowValue]:
            for stored, value in self._found(part, opened, asked, backward):
                yield WindowValue(_start(stored), part.decode(stored, value))

        return self._iterate(ask)

    def _of_keys(
        self, key_from: object, key_to: object, time_from: int, time_to: int, *, backward: bool
    ) -> QueryIterator[WindowedValue]:
        size = self.definition.window_size_ms

        def ask(part: Part) -> Search[WindowedValue]:
            low, high = (None if key is None else part.format.key_serde.encode(key) for key in (key_from, key_to))
            return partial(found, part, Asked(False, low, high, time_from, time_to))

        def found(part: Part, asked: Asked, opened: Opened) -> Generator[WindowedValue]:
            read_key = key_decoder(part.format)
            for stored, value in self._found(part, opened, asked, backward):
                start = _start(stored)
                window = TimeWindow(start, None if size is None else min(start + size, MAX_TIME))
                key = read_key(WINDOW_KEY.unpack(stored)[0], stored, value)
                yield WindowedValue(Windowed(key, window), part.decode(stored, value))

        return self._iterate(ask)

    def _found(self, part: Part, opened: Opened, asked: Asked, backward: bool) -> Generator[Record]:
        kept = replace(asked, time_from=max(asked.time_from, oldest_kept(opened, self.definition)))
        return found_in(opened, kept, part.pulls, backward=backward)


def _start(stored: bytes) -> int:
    return int.from_bytes(stored[-12:-4], "big", signed=True)
