"""Session stores: `ReadOnlySessionStore` of Kafka Streams.

Source: org.apache.kafka.streams.state.ReadOnlySessionStore, internals.RocksDBSessionStore,
CompositeReadOnlySessionStore.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any

from formats.encoding.window_keys import SESSION_KEY
from formats.layout import WINDOW_END, WINDOW_START
from migrate.queries.open.partition import Opened
from migrate.queries.views.composite import Composite, Part, QueryIterator, key_decoder
from migrate.queries.views.results import TimeWindow, Windowed
from migrate.queries.views.segments import MAX_TIME, Asked, found_in, oldest_kept, value_at
from migrate.queries.views.window import WindowedValue

_SAME: Any = ...
"""Stands for the upper bound of a range of one key."""


class SessionView(Composite):
    """A read-only session store. A session's window has the times of its first and its last record."""

    def fetch_session(self, key: Any, start: int, end: int) -> Any:  # noqa: ANN401 - of the serdes
        """The value of the session with these times, or None."""

        def stored(part: Part) -> bytes:
            return SESSION_KEY.pack(part.format.key_serde.encode(key), {WINDOW_START: start, WINDOW_END: end})

        return value_at(self._parts, self.definition, stored, end)

    def fetch(self, key_from: Any, key_to: Any = _SAME) -> QueryIterator[WindowedValue]:  # noqa: ANN401
        """The sessions of a key, or of a range of keys, both included; None: unbounded."""
        return self.find_sessions(key_from, 0, MAX_TIME, key_to=key_to)

    def backward_fetch(self, key_from: Any, key_to: Any = _SAME) -> QueryIterator[WindowedValue]:  # noqa: ANN401
        """The same from the last to the first."""
        return self.backward_find_sessions(key_from, 0, MAX_TIME, key_to=key_to)

    def all(self) -> QueryIterator[WindowedValue]:
        """Every session."""
        return self.fetch(None, None)

    def find_sessions(
        self,
        key: Any,  # noqa: ANN401
        earliest_end: int,
        latest_start: int,
        *,
        key_to: Any = _SAME,  # noqa: ANN401
    ) -> QueryIterator[WindowedValue]:
        """The sessions that end at `earliest_end` or later and start at `latest_start` or earlier.

        Of one key, or with `key_to` of the keys up to that one.
        """
        return self._found(_range(key, key_to), earliest_end, latest_start, backward=False)

    def backward_find_sessions(
        self,
        key: Any,  # noqa: ANN401
        earliest_end: int,
        latest_start: int,
        *,
        key_to: Any = _SAME,  # noqa: ANN401
    ) -> QueryIterator[WindowedValue]:
        """The same from the last to the first."""
        return self._found(_range(key, key_to), earliest_end, latest_start, backward=True)

    def _found(
        self, keys: _Keys, earliest_end: int, latest_start: int, *, backward: bool
    ) -> QueryIterator[WindowedValue]:
        def found(part: Part, asked: Asked, opened: Opened) -> Generator[WindowedValue]:
            read_key = key_decoder(part.format)
            kept = replace(asked, time_from=max(earliest_end, oldest_kept(opened, self.definition)))
            for stored, value in found_in(opened, kept, part.pulls, backward=backward):
                payload, times = SESSION_KEY.unpack(stored)
                window = TimeWindow(times[WINDOW_START], times[WINDOW_END])
                key = read_key(payload, stored, value)
                yield WindowedValue(Windowed(key, window), part.decode(stored, value))

        return self._iterate(lambda part: partial(found, part, Asked(True, *keys(part), earliest_end, latest_start)))


_Keys = Callable[[Part], tuple[bytes | None, bytes | None]]
"""From a store partition to its serialized keys, the first and the last."""


def _range(key: object, key_to: object) -> _Keys:
    def keys(part: Part) -> tuple[bytes | None, bytes | None]:
        encode = part.format.key_serde.encode
        if key_to is _SAME:
            return encode(key), encode(key)
        return None if key is None else encode(key), None if key_to is None else encode(key_to)

    return keys
