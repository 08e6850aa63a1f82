"""Queries, requests and results, under Kafka Streams' names (KIP-796). Times are milliseconds since the epoch.

| query                                     | stores that answer                     |
|-------------------------------------------|----------------------------------------|
| KeyQuery, RangeQuery                      | key-value, of every format             |
| TimestampedKeyQuery, TimestampedRangeQuery| key-value with timestamps              |
| WindowKeyQuery                            | window                                 |
| WindowRangeQuery                          | window, by time; session, by key       |
| VersionedKeyQuery, MultiVersionedKeyQuery | versioned                              |

Source: org.apache.kafka.streams.query (Position, PositionBound), KafkaStreams.query, state.internals.StoreQueryUtils.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Self

from formats import Format
from formats.layout import TIMESTAMP
from migrate.errors import InvalidStateStoreError, MigrationError, StateStoreMigratedError, StoreNotReadyError
from migrate.model.display import plural
from migrate.queries.open.partition import Partition, StoreDefinition
from migrate.queries.views.view_types import QueryableStoreTypes as Types


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
    def with_key(cls, key: Any) -> Self:
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
    def with_range(cls, lower: Any, upper: Any) -> Self:
        """From one key to another; None: unbounded."""
        return cls(lower, upper)

    @classmethod
    def with_lower_bound(cls, lower: Any) -> Self:
        """From a key on."""
        return cls(lower)

    @classmethod
    def with_upper_bound(cls, upper: Any) -> Self:
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
    def with_key_and_window_start_range(cls, key: Any, time_from: int, time_to: int) -> Self:
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
    def with_key(cls, key: Any) -> Self:
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
    def with_key(cls, key: Any) -> Self:
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
    def with_key(cls, key: Any) -> Self:
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
_NOTHING: Mapping[tuple[str, int], int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Position:
    """By (topic, partition) the offset of the last input record that a store reflects."""

    offsets: Mapping[tuple[str, int], int] = field(default_factory=lambda: _NOTHING)

    @classmethod
    def empty(cls) -> Position:
        """The position of a store that reflects nothing, or whose position is not known."""
        return cls()

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """This position, and at least that offset."""
        known = self.offsets.get((topic, partition), offset)
        return Position({**self.offsets, (topic, partition): max(known, offset)})

    @classmethod
    def merged(cls, positions: Iterable[Position]) -> Position:
        """The farthest of all, topic partition by topic partition."""
        found: dict[tuple[str, int], int] = {}
        for each in positions:
            for place, offset in each.offsets.items():
                found[place] = max(found.get(place, offset), offset)
        return cls(found)


@dataclass(frozen=True, slots=True)
class PositionBound:
    """How far a store has to be."""

    position: Position = field(default_factory=Position)

    @classmethod
    def unbounded(cls) -> PositionBound:
        """Any position will do."""
        return cls()

    @classmethod
    def at(cls, position: Position) -> PositionBound:
        """At this position at least, in the topic partitions that it names."""
        return cls(position)

    def permits(self, position: Position, partition: int | None) -> bool:
        """Whether a store partition is far enough; `partition`: only its own topic partitions count, None: all do."""
        bounds = {place: at for place, at in self.position.offsets.items() if partition in (None, place[1])}
        return all(position.offsets.get(place, -1) >= bound for place, bound in bounds.items())


@dataclass(frozen=True, slots=True)
class InStore:
    """The first half of a request."""

    name: str

    def with_query(self, query: Query) -> StateQueryRequest:
        """The request of this query: of all partitions, at any position."""
        return StateQueryRequest(self.name, query)


@dataclass(frozen=True, slots=True)
class StateQueryRequest:
    """Made by `StateQueryRequest.in_store(name).with_query(query)`."""

    store_name: str
    query: Query
    position_bound: PositionBound = field(default_factory=PositionBound)
    partitions: frozenset[int] | None = None
    """None: all that are on this host."""
    execution_info_enabled: bool = False
    is_require_active: bool = False

    @staticmethod
    def in_store(name: str) -> InStore:
        """Ask the store of this name."""
        return InStore(name)

    def with_position_bound(self, bound: PositionBound) -> StateQueryRequest:
        """Only store partitions that are this far answer."""
        return replace(self, position_bound=bound)

    def with_all_partitions(self) -> StateQueryRequest:
        """Ask every partition on this host."""
        return replace(self, partitions=None)

    def with_partitions(self, partitions: Iterable[int]) -> StateQueryRequest:
        """Ask these partitions."""
        return replace(self, partitions=frozenset(partitions))

    def enable_execution_info(self) -> StateQueryRequest:
        """Say how long each store partition took."""
        return replace(self, execution_info_enabled=True)

    def require_active(self) -> StateQueryRequest:
        """Not of a store partition that a running owner may have written to since it was read."""
        return replace(self, is_require_active=True)


class FailureReason(Enum):
    """Why a store partition has no result."""

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    """Stores of this kind do not answer such queries."""
    NOT_ACTIVE = "NOT_ACTIVE"
    """An active one was required, and a running owner has this one."""
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    """It is not as far as the position bound: retry later, or elsewhere."""
    NOT_PRESENT = "NOT_PRESENT"
    """It is not on this host, or is being moved."""
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    """The store has no such partition."""
    STORE_EXCEPTION = "STORE_EXCEPTION"
    """Reading failed."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of one store partition; `failure_reason`: None if there is one."""

    result: Any = None
    """What the query describes; None: the store partition does not have it."""
    failure_reason: FailureReason | None = None
    failure_message: str = ""
    position: Position = Position()
    """How far the store partition is; empty: not known."""
    execution_info: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        """Whether there is a result."""
        return self.failure_reason is None

    @property
    def is_failure(self) -> bool:
        """Whether there is none."""
        return self.failure_reason is not None


@dataclass(frozen=True, slots=True)
class StateQueryResult:
    """The results by partition; of a RocksDB directory by itself, which has no number, under 0."""

    partition_results: Mapping[int, QueryResult]

    @property
    def only_partition_result(self) -> QueryResult | None:
        """The one result that is not empty, or None. Raises ValueError where there are several."""
        found = [each for each in self.partition_results.values() if each.is_success and each.result is not None]
        if len(found) > 1:
            raise ValueError(f"{len(found)} partitions have a result: ask `partition_results`")
        return found[0] if found else None

    @property
    def position(self) -> Position:
        """How far the store partitions are, together."""
        return Position.merged(each.position for each in self.partition_results.values())


def answer(request: StateQueryRequest, partitions: list[Partition], definition: StoreDefinition) -> StateQueryResult:
    """The results of the wanted partitions among those of this host. Raises StateStoreMigratedError."""
    results = {}
    for each in partitions:
        number = each.number or 0
        if request.partitions is None or number in request.partitions:
            results[number] = _of(each, request, definition)
    for number in sorted((request.partitions or frozenset()) - results.keys()):
        results[number] = _absent(number, definition)
    return StateQueryResult(results)


def _absent(number: int, definition: StoreDefinition) -> QueryResult:
    if definition.partitions is not None and not 0 <= number < definition.partitions:
        text = f"the store has {plural(definition.partitions, 'partition')}, and no partition {number}"
        return QueryResult(failure_reason=FailureReason.DOES_NOT_EXIST, failure_message=text)
    text = f"partition {number} is not on this host: ask the one that has it"
    return QueryResult(failure_reason=FailureReason.NOT_PRESENT, failure_message=text)


def _of(partition: Partition, request: StateQueryRequest, definition: StoreDefinition) -> QueryResult:
    started = time.perf_counter_ns()
    try:
        opened = partition.opened()
        position = Position(opened.position)
        found = _refused(request, partition, position, is_active=opened.as_of_ms is None)
        found = found or _found(request.query, partition, opened.format, definition)
    except StateStoreMigratedError:
        raise
    except StoreNotReadyError as error:
        return QueryResult(failure_reason=FailureReason.NOT_PRESENT, failure_message=error.message)
    if not request.execution_info_enabled:
        return replace(found, position=position)
    info = f"Handled in {partition.id} in {time.perf_counter_ns() - started} ns"
    return replace(found, position=position, execution_info=(info,))


def _refused(
    request: StateQueryRequest, partition: Partition, position: Position, *, is_active: bool
) -> QueryResult | None:
    if request.is_require_active and not is_active:
        text = f"{partition.id} is beside a running owner, and an active store partition is required"
        return QueryResult(failure_reason=FailureReason.NOT_ACTIVE, failure_message=text)
    bound = request.position_bound
    if request.is_require_active or bound.permits(position, partition.number):
        return None
    text = f"{partition.id} is at {dict(position.offsets)}, not yet up to the bound {dict(bound.position.offsets)}"
    return QueryResult(failure_reason=FailureReason.NOT_UP_TO_BOUND, failure_message=text)


def _found(query: Query, partition: Partition, stored: Format, definition: StoreDefinition) -> QueryResult:
    try:
        return _read(query, partition, stored, definition)
    except InvalidStateStoreError:
        raise
    except MigrationError as error:
        return QueryResult(failure_reason=FailureReason.STORE_EXCEPTION, failure_message=str(error))


def _read(query: Query, partition: Partition, stored: Format, definition: StoreDefinition) -> QueryResult:
    asked = partition.id, [partition], definition
    has_times = TIMESTAMP in stored.carries
    is_timed = isinstance(query, TimestampedKeyQuery | TimestampedRangeQuery)
    records = Types.timestamped_key_value() if is_timed else Types.key_value()
    windows = Types.timestamped_window() if has_times else Types.window()
    found: object
    match stored.kind, query:
        case "key-value", KeyQuery() if has_times or not is_timed:
            found = records.view(*asked).get(query.key)
        case "key-value", RangeQuery() if has_times or not is_timed:
            view = records.view(*asked)
            scan = view.reverse_range if query.order is ResultOrder.DESCENDING else view.range
            found = scan(query.lower, query.upper)
        case "versioned", VersionedKeyQuery():
            found = Types.versioned().view(*asked).get(query.key, query.as_of_timestamp)
        case "versioned", MultiVersionedKeyQuery():
            versions, is_ascending = Types.versioned().view(*asked).versions, query.order is ResultOrder.ASCENDING
            found = versions(query.key, query.time_from, query.time_to, ascending=is_ascending)
        case "window", WindowKeyQuery():
            found = windows.view(*asked).fetch(query.key, query.time_from, query.time_to)
        case "window", WindowRangeQuery(None, time_from, time_to) if time_from is not None and time_to is not None:
            found = windows.view(*asked).fetch_all(time_from, time_to)
        case "session", WindowRangeQuery() if query.key is not None:
            found = Types.session().view(*asked).fetch(query.key)
        case _:
            text = f"a {stored.kind} store of {stored.id} does not answer {query}"
            return QueryResult(failure_reason=FailureReason.UNKNOWN_QUERY_TYPE, failure_message=text)
    return QueryResult(found)
