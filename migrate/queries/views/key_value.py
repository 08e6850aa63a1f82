"""Key-value stores: `ReadOnlyKeyValueStore` of Kafka Streams.

Scans go through the store partitions one after the other; within each the order is that of the serialized keys.
Source: org.apache.kafka.streams.state.ReadOnlyKeyValueStore, internals.CompositeReadOnlyKeyValueStore.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from formats.serde import BYTES, Serde
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.partition import Opened, Partition
from migrate.queries.views.composite import Composite, Decoder, QueryIterator, decoded, records
from migrate.queries.views.results import KeyValue
from migrate.stores.state_store import after_prefix


class KeyValueView(Composite):
    """A read-only key-value store. Safe to share between threads."""

    def __init__(
        self,
        name: str,
        partitions: Sequence[Partition],
        definition: StoreDefinition,
        decoder: Callable[[Any], Decoder],
    ) -> None:
        super().__init__(name, partitions, definition)
        self._key = definition.key
        self._is_plain = definition.key == BYTES
        self._decode = decoder(definition.stored)

    def get(self, key: Any) -> Any:  # noqa: ANN401 - of the serdes
        """The value, or None. Raises EntryError for what is no key."""
        stored = key if self._is_plain else self._key.encode(key)
        for partition in self.partitions:
            for segment in partition.opened().segments:
                value = segment.entries.get(stored)
                if value is not None:
                    partition.check()
                    return self._decode(stored, value)
            partition.check()
        return None

    def range(self, from_key: Any = None, to_key: Any = None) -> QueryIterator[KeyValue]:  # noqa: ANN401
        """The records from one key to the other, both included; None: from the first, to the last."""
        return self._scan(*self._bounds(from_key, to_key), reverse=False)

    def reverse_range(self, from_key: Any = None, to_key: Any = None) -> QueryIterator[KeyValue]:  # noqa: ANN401
        """The same from the last key to the first."""
        return self._scan(*self._bounds(from_key, to_key), reverse=True)

    def all(self) -> QueryIterator[KeyValue]:
        """Every record."""
        return self.range()

    def reverse_all(self) -> QueryIterator[KeyValue]:
        """Every record, each store partition from its last key to its first."""
        return self.reverse_range()

    def prefix_scan(self, prefix: Any, serde: Serde = BYTES) -> QueryIterator[KeyValue]:  # noqa: ANN401
        """The records whose serialized keys begin with the prefix, as `serde` writes it."""
        start = serde.encode(prefix)
        return self._scan(start, after_prefix(start), reverse=False)

    def _bounds(self, from_key: Any, to_key: Any) -> tuple[bytes | None, bytes | None]:  # noqa: ANN401
        start, last = (None if key is None else self._key.encode(key) for key in (from_key, to_key))
        return start, None if last is None else last + b"\0"

    def _scan(self, start: bytes | None, end: bytes | None, *, reverse: bool) -> QueryIterator[KeyValue]:
        key_serde, read = self._key, self._decode

        def entries(opened: Opened) -> Generator[KeyValue]:
            if start is not None and end is not None and start >= end:
                return
            for segment in opened.segments:
                for key, value in records(segment.entries.scan(start, end, reverse=reverse)):
                    yield KeyValue(decoded(key_serde, key, key), read(key, value))

        return self.iterate(entries)
