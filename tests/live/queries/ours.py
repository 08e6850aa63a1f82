"""Our answers to the questions that Kafka Streams was asked, written as it writes its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from migrate import QueryableStores, StoreDefinition
from migrate.errors import InvalidStateStoreError
from migrate.queries.views.results import VersionedRecord, Windowed
from migrate.queries.views.types import QueryableStoreTypes
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
        view = stores.store(store, getattr(QueryableStoreTypes, type_name)(), partition)
        found = getattr(view, question.call)(*question.args)
    except InvalidStateStoreError as error:
        return {"error": type(error).__name__}
    if isinstance(found, VersionedRecord):  # the method of Kafka Streams does not say until when a version holds
        found = found._replace(valid_to=None)
    return {"found": written(found)}


def written(found: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    """As it is in JSON."""
    if isinstance(found, bytes):
        return found.hex()
    if found is None or isinstance(found, int | str):
        return found
    if isinstance(found, Windowed):
        return [written(found.key), *found.window]
    return [written(each) for each in found]  # a scan, headers, or a result's fields
