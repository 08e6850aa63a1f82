"""Queries as values, under Kafka Streams' names (KIP-796). Times are milliseconds since the epoch.

Source: org.apache.kafka.streams.query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Self


class ResultOrder(Enum):
    """The order of serialized keys, or of time; ANY is the store's own."""

    ANY = "any"
    ASCENDING = "ascending"
    DESCENDING = "descending"


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """The bare value of a key."""

    key: Any
    cache_skipped: bool = False

    @classmethod
    def with_key(cls, key: Any) -> Self:  # noqa: ANN401 - of the store's serde
        """Of this key."""
        return cls(key)

    def skip_cache(self) -> Self:
        """The same: a store on disk has no cache of records."""
        return replace(self, cache_skipped=True)


@dataclass(frozen=True, slots=True)
class TimestampedKeyQuery(KeyQuery):
    """The ValueAndTimestamp of a key."""


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """The records from one key to another, both included; bare values."""

    lower: Any = None
    upper: Any = None
    order: ResultOrder = ResultOrder.ANY

    @classmethod
    def with_range(cls, lower: Any, upper: Any) -> Self:  # noqa: ANN401 - of the store's serde
        """From one key to another; None: unbounded."""
        return cls(lower, upper)

    @classmethod
    def with_lower_bound(cls, lower: Any) -> Self:  # noqa: ANN401
        """From a key on."""
        return cls(lower)

    @classmethod
    def with_upper_bound(cls, upper: Any) -> Self:  # noqa: ANN401
        """Up to a key."""
        return cls(None, upper)

    @classmethod
    def with_no_bounds(cls) -> Self:
        """Every record."""
        return cls()

    def with_ascending_keys(self) -> Self:
        """In the order of serialized keys."""
        return replace(self, order=ResultOrder.ASCENDING)

    def with_descending_keys(self) -> Self:
        """From the last serialized key to the first."""
        return replace(self, order=ResultOrder.DESCENDING)


@dataclass(frozen=True, slots=True)
class TimestampedRangeQuery(RangeQuery):
    """The same with ValueAndTimestamp."""


@dataclass(frozen=True, slots=True)
class WindowKeyQuery:
    """The windows of a key that start in a range of time, both ends included."""

    key: Any
    time_from: int
    time_to: int

    @classmethod
    def with_key_and_window_start_range(cls, key: Any, time_from: int, time_to: int) -> Self:  # noqa: ANN401
        """Of this key, between these times."""
        return cls(key, time_from, time_to)


@dataclass(frozen=True, slots=True)
class WindowRangeQuery:
    """The sessions of a key, or the windows of all keys that start in a range of time, both ends included."""

    key: Any = None
    time_from: int | None = None
    time_to: int | None = None

    def __post_init__(self) -> None:
        """Raises ValueError where it has neither, or both."""
        if (self.key is None) == (None in (self.time_from, self.time_to)):
            raise ValueError("a WindowRangeQuery has either a key or a range of time")

    @classmethod
    def with_key(cls, key: Any) -> Self:  # noqa: ANN401
        """Of a session store."""
        return cls(key)

    @classmethod
    def with_window_start_range(cls, time_from: int, time_to: int) -> Self:
        """Of a window store."""
        return cls(None, time_from, time_to)


@dataclass(frozen=True, slots=True)
class VersionedKeyQuery:
    """The newest version of a key, or the one that was valid at a time."""

    key: Any
    as_of_timestamp: int | None = None

    @classmethod
    def with_key(cls, key: Any) -> Self:  # noqa: ANN401
        """Of this key."""
        return cls(key)

    def as_of(self, timestamp: int) -> Self:
        """That was valid then."""
        return replace(self, as_of_timestamp=timestamp)


@dataclass(frozen=True, slots=True)
class MultiVersionedKeyQuery:
    """The versions of a key, the newest first."""

    key: Any
    time_from: int | None = None
    time_to: int | None = None
    order: ResultOrder = ResultOrder.ANY

    @classmethod
    def with_key(cls, key: Any) -> Self:  # noqa: ANN401
        """Of this key."""
        return cls(key)

    def from_time(self, timestamp: int) -> Self:
        """Those that were valid then or later."""
        return replace(self, time_from=timestamp)

    def to_time(self, timestamp: int) -> Self:
        """Those that were valid then or earlier."""
        return replace(self, time_to=timestamp)

    def with_ascending_timestamps(self) -> Self:
        """The oldest first."""
        return replace(self, order=ResultOrder.ASCENDING)

    def with_descending_timestamps(self) -> Self:
        """The newest first."""
        return replace(self, order=ResultOrder.DESCENDING)


Query = KeyQuery | RangeQuery | WindowKeyQuery | WindowRangeQuery | VersionedKeyQuery | MultiVersionedKeyQuery
