"""Key-value stores: `ReadOnlyKeyValueStore` of Kafka Streams.

Scans go through the store partitions one after the other; within each the order is that of the serialized keys.
Source: org.apache.kafka.streams.state.ReadOnlyKeyValueStore, internals.CompositeReadOnlyKeyValueStore.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import cached_property, partial
from typing import Any

from formats.serde import BYTES, Serde
from migrate.queries.open.partition import Opened
from migrate.queries.views.composite import (
    Composite,
    Decoder,
    KeyValue,
    QueryIterator,
    Search,
    ViewPart,
    key_decoder,
    records,
)
from migrate.stores.state_store import after_prefix

_Read = tuple[Callable[[], Opened], Callable[[], None], Callable[[Any], bytes], Decoder]
"""What a get takes of a store partition: looked up once, since each look costs as much as a tenth of a read."""


class KeyValueView(Composite):
    """A read-only key-value store."""

    def get(self, key: Any) -> Any:
        """The value, or None. Raises EntryError for what is no key."""
        for recent, check, encode, decode in self._reads:
            stored = encode(key)
            for segment in recent().segments:
                value = segment.entries.get(stored)
                if value is not None:
                    check()
                    return decode(stored, value)
            check()
        return None

    def multi_get(self, keys: Iterable[Any]) -> list[Any]:
        """The value of each key, or None, in their order: quicker than one `get` after the other."""
        wanted = list(keys)
        found: list[Any] = [None] * len(wanted)
        for recent, check, encode, decode in self._reads:
            opened = recent()
            for index in [index for index, value in enumerate(found) if value is None]:
                stored = encode(wanted[index])
                for segment in opened.segments:
                    value = segment.entries.get(stored)
                    if value is not None:
                        found[index] = decode(stored, value)
                        break
            check()
        return found

    @cached_property
    def _reads(self) -> tuple[_Read, ...]:
        return tuple(
            (part.partition.recent, part.partition.check, part.format.key_serde.encode, part.decode)
            for part in self._parts
        )

    def range(self, from_key: Any = None, to_key: Any = None) -> QueryIterator[KeyValue]:
        """The records from one key to the other, both included; None: from the first, to the last."""
        return self._iterate(lambda part: _range(part, from_key, to_key))

    def reverse_range(self, from_key: Any = None, to_key: Any = None) -> QueryIterator[KeyValue]:
        """The same from the last key to the first."""
        return self._iterate(lambda part: _range(part, from_key, to_key, reverse=True))

    def all(self) -> QueryIterator[KeyValue]:
        """Every record."""
        return self.range()

    def reverse_all(self) -> QueryIterator[KeyValue]:
        """Every record, each store partition from its last key to its first."""
        return self.reverse_range()

    def prefix_scan(self, prefix: Any, serde: Serde = BYTES) -> QueryIterator[KeyValue]:
        """The records whose serialized keys begin with the prefix, as `serde` writes it."""
        start = serde.encode(prefix)
        return self._iterate(lambda part: partial(_scan, part, start, after_prefix(start)))


def _range(part: ViewPart, from_key: object, to_key: object, *, reverse: bool = False) -> Search[KeyValue]:
    start, last = (None if key is None else part.format.key_serde.encode(key) for key in (from_key, to_key))
    return partial(_scan, part, start, None if last is None else last + b"\0", reverse=reverse)


def _scan(
    part: ViewPart, start: bytes | None, end: bytes | None, opened: Opened, *, reverse: bool = False
) -> Generator[KeyValue]:
    if start is not None and end is not None and start >= end:
        return
    read_key, read = key_decoder(part.format), part.decode
    for segment in opened.segments:
        for key, value in records(segment.entries.scan(start, end, reverse=reverse), part.pulls):
            yield KeyValue(read_key(key, key, value), read(key, value))
