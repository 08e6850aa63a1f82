"""Answers a request, store partition by store partition.

| query                                     | stores that answer                     |
|-------------------------------------------|----------------------------------------|
| KeyQuery, RangeQuery                      | key-value, of every format             |
| TimestampedKeyQuery, TimestampedRangeQuery| key-value with timestamps              |
| WindowKeyQuery                            | window                                 |
| WindowRangeQuery                          | window, by time; session, by key       |
| VersionedKeyQuery, MultiVersionedKeyQuery | versioned                              |

Source: org.apache.kafka.streams.KafkaStreams.query, state.internals.StoreQueryUtils.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from formats import Format
from formats.layout import TIMESTAMP
from migrate.errors import InvalidStateStoreError, MigrationError, StateStoreMigratedError, StoreNotReadyError
from migrate.model.units import plural
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.partition import Partition
from migrate.queries.requests.position import Position
from migrate.queries.requests.query import (
    KeyQuery,
    MultiVersionedKeyQuery,
    Query,
    RangeQuery,
    ResultOrder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from migrate.queries.requests.request import StateQueryRequest
from migrate.queries.requests.result import FailureReason, QueryResult, StateQueryResult
from migrate.queries.views.key_value import KeyValueView
from migrate.queries.views.session import SessionView
from migrate.queries.views.types import QueryableStoreTypes as Types
from migrate.queries.views.versioned import VersionedView
from migrate.queries.views.window import WindowView


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
    found = _type_of(query, stored)
    if found is None:
        text = f"a {stored.kind} store of {stored.id} does not answer {query}"
        return QueryResult(failure_reason=FailureReason.UNKNOWN_QUERY_TYPE, failure_message=text)
    kind, read = found
    try:
        return QueryResult(read(query, kind.view(partition.id, [partition], definition)))
    except InvalidStateStoreError:
        raise
    except MigrationError as error:
        return QueryResult(failure_reason=FailureReason.STORE_EXCEPTION, failure_message=str(error))


_Read = Callable[[Any, Any], Any]
"""From a query and the view of a store partition to the result."""


def _type_of(query: Query, stored: Format) -> tuple[Any, _Read] | None:
    """The type of view that answers, and how; None: a store of this format does not answer such a query."""
    has_times = TIMESTAMP in stored.carries
    is_timed = isinstance(query, TimestampedKeyQuery | TimestampedRangeQuery)
    found: tuple[Any, _Read] | None = None
    if stored.kind == "key-value" and isinstance(query, KeyQuery | RangeQuery) and (has_times or not is_timed):
        read: _Read = _key if isinstance(query, KeyQuery) else _range
        found = Types.timestamped_key_value() if is_timed else Types.key_value(), read
    elif stored.kind == "versioned" and isinstance(query, VersionedKeyQuery | MultiVersionedKeyQuery):
        found = Types.versioned(), _version if isinstance(query, VersionedKeyQuery) else _versions
    elif stored.kind == "session" and isinstance(query, WindowRangeQuery) and query.key is not None:
        found = Types.session(), _sessions
    elif stored.kind == "window" and (isinstance(query, WindowKeyQuery) or _is_of_all_keys(query)):
        read = _windows if isinstance(query, WindowKeyQuery) else _all_windows
        found = Types.timestamped_window() if has_times else Types.window(), read
    return found


def _is_of_all_keys(query: Query) -> bool:
    return isinstance(query, WindowRangeQuery) and query.key is None


def _key(query: KeyQuery, view: KeyValueView) -> object:
    return view.get(query.key)


def _range(query: RangeQuery, view: KeyValueView) -> object:
    scan = view.reverse_range if query.order is ResultOrder.DESCENDING else view.range
    return scan(query.lower, query.upper)


def _version(query: VersionedKeyQuery, view: VersionedView) -> object:
    return view.get(query.key, query.as_of_timestamp)


def _versions(query: MultiVersionedKeyQuery, view: VersionedView) -> object:
    return view.versions(query.key, query.time_from, query.time_to, ascending=query.order is ResultOrder.ASCENDING)


def _windows(query: WindowKeyQuery, view: WindowView) -> object:
    return view.fetch(query.key, query.time_from, query.time_to)


def _all_windows(query: WindowRangeQuery, view: WindowView) -> object:
    assert query.time_from is not None
    assert query.time_to is not None
    return view.fetch_all(query.time_from, query.time_to)


def _sessions(query: WindowRangeQuery, view: SessionView) -> object:
    return view.fetch(query.key)
