"""Key-value stores: `ReadOnlyKeyValueStore` of Kafka Streams.

Scans go through the store partitions one after the other; within each the order is that of the serialized keys.
Source: org.apache.kafka.streams.state.ReadOnlyKeyValueStore, internals.CompositeReadOnlyKeyValueStore.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from formats.serde import BYTES, Serde
from migrate.queries.open.partition import Opened
from migrate.queries.views.composite import Composite, Part, QueryIterator, decoded, records
from migrate.queries.views.results import KeyValue
from migrate.stores.state_store import after_prefix


class KeyValueView(Composite):
    """A read-only key-value store."""

    def get(self, key: Any) -> Any:  # noqa: ANN401 - of the serdes
        """The value, or None. Raises EntryError for what is no key."""
        for partition, known, decode in self._parts:
            stored = known.key_serde.encode(key)
            for segment in partition.opened().segments:
                value = segment.entries.get(stored)
                if value is not None:
                    partition.check()
                    return decode(stored, value)
            partition.check()
        return None

    def range(self, from_key: Any = None, to_key: Any = None) -> QueryIterator[KeyValue]:  # noqa: ANN401
        """The records from one key to the other, both included; None: from the first, to the last."""
        return self._iterate(lambda part, opened: _scan(part, opened, *_bounds(part, from_key, to_key)))

    def reverse_range(self, from_key: Any = None, to_key: Any = None) -> QueryIterator[KeyValue]:  # noqa: ANN401
        """The same from the last key to the first."""
        return self._iterate(lambda part, opened: _scan(part, opened, *_bounds(part, from_key, to_key), reverse=True))

    def all(self) -> QueryIterator[KeyValue]:
        """Every record."""
        return self.range()

    def reverse_all(self) -> QueryIterator[KeyValue]:
        """Every record, each store partition from its last key to its first."""
        return self.reverse_range()

    def prefix_scan(self, prefix: Any, serde: Serde = BYTES) -> QueryIterator[KeyValue]:  # noqa: ANN401
        """The records whose serialized keys begin with the prefix, as `serde` writes it."""
        start = serde.encode(prefix)
        return self._iterate(lambda part, opened: _scan(part, opened, start, after_prefix(start)))


def _bounds(part: Part, from_key: object, to_key: object) -> tuple[bytes | None, bytes | None]:
    start, last = (None if key is None else part.format.key_serde.encode(key) for key in (from_key, to_key))
    return start, None if last is None else last + b"\0"


def _scan(
    part: Part, opened: Opened, start: bytes | None, end: bytes | None, *, reverse: bool = False
) -> Generator[KeyValue]:
    if start is not None and end is not None and start >= end:
        return
    serde, read = part.format.key_serde, part.decode
    for segment in opened.segments:
        for key, value in records(segment.entries.scan(start, end, reverse=reverse)):
            yield KeyValue(decoded(serde, key, key), read(key, value))
