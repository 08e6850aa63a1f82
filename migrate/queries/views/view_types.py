"""The types of stores that can be asked for: `QueryableStoreTypes` of Kafka Streams.

| type                          | stores                               | values                       |
|-------------------------------|--------------------------------------|------------------------------|
| key_value                     | key-value, of every format           | bare                         |
| timestamped_key_value         | those with timestamps                | ValueAndTimestamp            |
| key_value_with_headers        | those with headers                   | ValueTimestampHeaders        |
| window, timestamped_window,   | window stores, likewise              | likewise                     |
| window_with_headers           |                                      |                              |
| session, session_with_headers | session stores                       | bare, ValueTimestampHeaders  |
| versioned                     | versioned (Kafka has it by v2 only)  | VersionedRecord              |

Source: org.apache.kafka.streams.state.QueryableStoreTypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from formats import Format
from formats.format import Kind
from formats.layout import HEADERS, TIMESTAMP
from migrate.queries.open.partition import Partition, StoreDefinition
from migrate.queries.views.composite import Decoder, headers_decoder, timestamped_decoder, value_decoder
from migrate.queries.views.key_value_view import KeyValueView
from migrate.queries.views.versioned_view import VersionedView
from migrate.queries.views.windowed_views import SessionView, WindowView

V = TypeVar("V", KeyValueView, WindowView, SessionView, VersionedView)
_View = Callable[[str, Sequence[Partition], StoreDefinition, Callable[[Format], Decoder]], V]


@dataclass(frozen=True, slots=True)
class QueryableStoreType(Generic[V]):
    """A type of store, and how its values are returned."""

    name: str
    kind: Kind
    carries: str | None
    """What a format must have: TIMESTAMP, HEADERS, or nothing."""
    _view: _View[V]
    _decoder: Callable[[Any], Decoder]

    def __str__(self) -> str:
        return self.name

    def accepts(self, format: Format) -> bool:
        """Whether a store of this format is of this type."""
        return format.kind == self.kind and (self.carries is None or self.carries in format.carries)

    def view(self, store_name: str, partitions: Sequence[Partition], definition: StoreDefinition) -> V:
        """The view that reads these store partitions."""
        return self._view(store_name, partitions, definition, self._decoder)


class QueryableStoreTypes:
    """The types by name."""

    @staticmethod
    def key_value() -> QueryableStoreType[KeyValueView]:
        """Keys and bare values."""
        return QueryableStoreType("key_value", "key-value", None, KeyValueView, value_decoder)

    @staticmethod
    def timestamped_key_value() -> QueryableStoreType[KeyValueView]:
        """Keys and ValueAndTimestamp."""
        return QueryableStoreType("timestamped_key_value", "key-value", TIMESTAMP, KeyValueView, timestamped_decoder)

    @staticmethod
    def key_value_with_headers() -> QueryableStoreType[KeyValueView]:
        """Keys and ValueTimestampHeaders."""
        return QueryableStoreType("key_value_with_headers", "key-value", HEADERS, KeyValueView, headers_decoder)

    @staticmethod
    def window() -> QueryableStoreType[WindowView]:
        """Keys, windows and bare values."""
        return QueryableStoreType("window", "window", None, WindowView, value_decoder)

    @staticmethod
    def timestamped_window() -> QueryableStoreType[WindowView]:
        """Keys, windows and ValueAndTimestamp."""
        return QueryableStoreType("timestamped_window", "window", TIMESTAMP, WindowView, timestamped_decoder)

    @staticmethod
    def window_with_headers() -> QueryableStoreType[WindowView]:
        """Keys, windows and ValueTimestampHeaders."""
        return QueryableStoreType("window_with_headers", "window", HEADERS, WindowView, headers_decoder)

    @staticmethod
    def session() -> QueryableStoreType[SessionView]:
        """Keys, sessions and bare values."""
        return QueryableStoreType("session", "session", None, SessionView, value_decoder)

    @staticmethod
    def session_with_headers() -> QueryableStoreType[SessionView]:
        """Keys, sessions and ValueTimestampHeaders, whose timestamp is unknown."""
        return QueryableStoreType("session_with_headers", "session", HEADERS, SessionView, headers_decoder)

    @staticmethod
    def versioned() -> QueryableStoreType[VersionedView]:
        """Keys and VersionedRecord."""
        return QueryableStoreType("versioned", "versioned", None, VersionedView, value_decoder)
