"""Our answers to the questions that Kafka Streams was asked, written as it writes its own."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from formats.kafka_streams.versioned import default_segment_ms
from migrate import QueryableStores, StoreDefinition
from migrate.errors import InvalidStateStoreError
from migrate.queries import requests as queries
from migrate.queries.requests import Position, PositionBound, Query, QueryResult, StateQueryRequest
from migrate.queries.views.composite import VersionedRecord, Windowed
from migrate.queries.views.view_types import QueryableStoreTypes
from tests.live.kafka_streams import kinds
from tests.live.kafka_streams.kinds import KINDS, RETENTION_MS
from tests.live.migrating import format_of
from tests.live.queries.questions import Question

WINDOW_SIZE_MS = 10_000
TYPES: Final = {
    kinds.KEY_VALUE: "key_value",
    kinds.TIMESTAMPED_KEY_VALUE: "timestamped_key_value",
    kinds.HEADERS_KEY_VALUE: "key_value_with_headers",
    kinds.WINDOW: "window",
    kinds.TIMESTAMPED_WINDOW: "timestamped_window",
    kinds.HEADERS_WINDOW: "window_with_headers",
    kinds.JOIN_WINDOW: "window",
    kinds.HEADERS_JOIN_WINDOW: "window_with_headers",
    kinds.SESSION: "session",
    kinds.HEADERS_SESSION: "session_with_headers",
    kinds.VERSIONED: "versioned",
}
"""By kind, the type that shows all that its records have."""
_ORDERS: Final = {"ascending": "with_ascending_", "descending": "with_descending_"}


def open_ours(path: Path, kinds: Iterable[str], *, retention_ms: int | None = RETENTION_MS) -> QueryableStores:
    """The stores of a directory, each named after its kind."""
    definitions = {
        kind: StoreDefinition(
            format_of(kind),
            retention_ms=None if KINDS[kind].shape == "key-value" else retention_ms,
            window_size_ms=WINDOW_SIZE_MS if KINDS[kind].shape == "window" else None,
        )
        for kind in kinds
    }
    return QueryableStores.of_directory(path, definitions)


def ask_view(
    stores: QueryableStores, store: str, type_name: str, question: Question, partition: int | None = None
) -> dict[str, Any]:
    """What a view of this type answers."""
    try:
        found = _asked(getattr(_view(stores, store, type_name, partition), question.call), question)
    except InvalidStateStoreError as error:
        return {"error": type(error).__name__}
    if isinstance(found, VersionedRecord):  # the method of Kafka Streams does not say until when a version holds
        found = found._replace(valid_to=None)
    return {"found": written(found)}


@lru_cache(maxsize=8)
def _view(stores: QueryableStores, store: str, type_name: str, partition: int | None) -> Any:  # noqa: ANN401
    return stores.store(store, getattr(QueryableStoreTypes, type_name)(), partition)


@lru_cache(maxsize=8)
def _position(stores: QueryableStores, store: str) -> Position:
    return Position.merged(Position(each.opened().position) for each in stores.partitions(store))


def _asked(method: Callable[..., Any], question: Question) -> Any:  # noqa: ANN401
    if question.call.endswith("find_sessions") and len(question.args) == 4:
        key, key_to, *times = question.args
        return method(key, *times, key_to=key_to)
    return method(*question.args)


def ask_query(stores: QueryableStores, store: str, question: Question) -> dict[str, Any]:
    """What the one store partition answers to a query."""
    request = StateQueryRequest.in_store(store).with_query(query_of(question))
    position = _position(stores, store)
    bound = Position({place: at + 1 for place, at in position.offsets.items()})
    bounds = {"unbounded": Position(), "at": position, "beyond": bound}
    try:
        results = stores.query(request.with_position_bound(PositionBound.at(bounds[question.bound]))).partition_results
    except ValueError:
        return {"error": "ValueError"}
    (result,) = results.values()
    return written_result(result)


def written_result(result: QueryResult) -> dict[str, Any]:
    """The result of one partition."""
    if result.failure_reason is not None:
        return {"failure": result.failure_reason.name}
    return {"found": written(result.result), "position": written_position(result.position)}


def written_position(position: Position) -> dict[str, int]:
    """As it is in JSON."""
    return {f"{topic}-{partition}": offset for (topic, partition), offset in position.offsets.items()}


def as_kafka_streams_has_it(found: dict[str, Any], question: Question) -> dict[str, Any]:
    """Without the versions that it misses: those that were valid at `to_time` and ended in a later segment."""
    if question.call != "MultiVersionedKeyQuery" or not found.get("found") or question.args[2] is None:
        return found
    segment_ms = default_segment_ms(RETENTION_MS)
    last = question.args[2] // segment_ms
    kept = [each for each in found["found"] if each[2] is None or each[2] // segment_ms <= last]
    return {**found, "found": kept}


def is_as(found: Mapping[str, Any], expected: Mapping[str, Any], question: Question, kind: str) -> bool:
    """Whether ours is what is expected, where Kafka Streams has an answer: it has none in these cases.

    It refuses sessions before the epoch, of which there are none. Of two reasons to fail it gives either. For some
    queries that a kind of store does not know it raises an error. Its stores with headers know no query, whereas ours
    do. Some of its versioned stores keep no position.
    """
    if not question.is_query:
        is_before_time = expected.get("error") == "IllegalArgumentException" and min(question.args[1:]) < 0
        return found == expected or (is_before_time and found == {"found": []})
    if KINDS[kind].shape == "versioned":
        found, expected = ({**each, "position": None} for each in (found, expected))
    if expected.get("error") == "IllegalArgumentException":
        return found.get("error") == "ValueError" or "failure" in found
    if "error" in expected or question.bound == "beyond":
        return "failure" in found or (KINDS[kind].shape == "versioned" and "error" not in expected)
    is_unknown = expected.get("failure") == "UNKNOWN_QUERY_TYPE"
    return found == expected or (is_unknown and KINDS[kind].headers)


def written(found: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    """As it is in JSON."""
    if isinstance(found, bytes):
        return found.hex()
    if found is None or isinstance(found, int | str):
        return found
    if isinstance(found, Windowed):
        return [written(found.key), *found.window]
    return [written(each) for each in found]  # a scan, headers, or a result's fields


def query_of(question: Question) -> Query:
    """The query, made by its builders."""
    kind = getattr(queries, question.call)
    first, *more = question.args
    query: Any = None
    match question.call:
        case "RangeQuery" | "TimestampedRangeQuery":
            query = _ordered(kind.with_range(first, more[0]), more[1], "keys")
        case "WindowKeyQuery":
            query = kind.with_key_and_window_start_range(first, *more)
        case "WindowRangeQuery":
            query = kind.with_window_start_range(first, *more) if more else kind.with_key(first)
        case "VersionedKeyQuery" if more[0] is not None:
            query = kind.with_key(first).as_of(more[0])
        case "MultiVersionedKeyQuery":
            query = _ordered(kind.with_key(first).from_time(more[0]).to_time(more[1]), more[2], "timestamps")
        case _:
            query = kind.with_key(first)
    made: Query = query
    return made


def _ordered(query: Any, order: str, of: str) -> Any:  # noqa: ANN401
    return query if order == "any" else getattr(query, f"{_ORDERS[order]}{of}")()
