"""A store of objects around a store of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from formats import EntryError
from formats.serde import Serde
from migrate.errors import ConversionError, SpecError
from migrate.model.key_range import show_key
from migrate.stores.state_store import Records, StateStore

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class TypedRecords(Iterator[tuple[K, V]]):
    """(key, value) as objects. A context manager."""

    def __init__(self, records: Records, store: TypedStore[K, V]) -> None:
        self._records = records
        self._store = store

    def __next__(self) -> tuple[K, V]:
        """The next record. Raises StoreClosedError once it is closed, ConversionError for bytes that are no object."""
        return self._store.record(*next(self._records))

    def __enter__(self) -> TypedRecords[K, V]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the resources of the storage."""
        self._records.close()


class TypedStore(Generic[K, V]):
    """A store whose keys and values are objects, in the order of the keys' bytes."""

    def __init__(self, store: StateStore, *, key: Serde[K], value: Serde[V]) -> None:
        """`store` stays available for everything else: `flush`, `close`, `converge`.

        Raises SpecError for a serde that names its schema in headers, which are no part of a key or a value.
        """
        if any(getattr(serde, "frame", None) == "header" for serde in (key, value)):
            raise SpecError(
                "the frame 'header' names the schema in the record's headers, which a typed store does not have",
                hint='open it with another frame (frame = "confluent"), or read its bytes',
            )
        self.store = store
        self._key = key
        self._value = value

    def get(self, key: K) -> V | None:
        """The value, or None. Raises ConversionError for bytes that are no object."""
        encoded = self._key.encode(key)
        return self._decoded(encoded, self.store.get(encoded))

    def multi_get(self, keys: Sequence[K]) -> list[V | None]:
        """The value of each key, or None. Raises ConversionError for bytes that are no object."""
        encoded = [self._key.encode(key) for key in keys]
        values = self.store.multi_get(encoded)
        return [self._decoded(key, value) for key, value in zip(encoded, values, strict=True)]

    def put(self, key: K, value: V | None) -> None:
        """Write one record, or delete it where the value is None. Raises EntryError where the serde cannot write it."""
        self.store.put(self._key.encode(key), self._encoded(value))

    def put_all(self, changes: Iterable[tuple[K, V | None]]) -> None:
        """Make all changes or, after a crash, none. Raises EntryError where the serde cannot write one."""
        self.store.put_all([(self._key.encode(key), self._encoded(value)) for key, value in changes])

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Write the record unless the key has a value, which is returned."""
        encoded = self._key.encode(key)
        return self._decoded(encoded, self.store.put_if_absent(encoded, self._value.encode(value)))

    def delete(self, key: K) -> None:
        """Delete one record; a key that has none is no error."""
        self.store.delete(self._key.encode(key))

    def range(self, start: K | None = None, end: K | None = None, *, reverse: bool = False) -> TypedRecords[K, V]:
        """The records in [start, end) in the order of their bytes; None: unbounded."""
        bounds = (None if bound is None else self._key.encode(bound) for bound in (start, end))
        return TypedRecords(self.store.range(*bounds, reverse=reverse), self)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> TypedRecords[K, V]:
        """The records whose encoded keys start with the prefix."""
        return TypedRecords(self.store.prefix_scan(prefix, reverse=reverse), self)

    def all(self) -> TypedRecords[K, V]:
        """Every record, in the order of the keys' bytes."""
        return self.range()

    def reverse_all(self) -> TypedRecords[K, V]:
        """Every record, from the last key to the first."""
        return self.range(reverse=True)

    def record(self, key: bytes, value: bytes) -> tuple[K, V]:
        """The decoded key and value. Raises ConversionError."""
        return self._decode(self._key, key, key), self._decode(self._value, key, value)

    def _encoded(self, value: V | None) -> bytes | None:
        return None if value is None else self._value.encode(value)

    def _decoded(self, key: bytes, value: bytes | None) -> V | None:
        return None if value is None else self._decode(self._value, key, value)

    @staticmethod
    def _decode(serde: Serde[T], key: bytes, payload: bytes) -> T:
        try:
            return serde.decode(payload)
        except EntryError as error:
            raise ConversionError(
                f"the record {show_key(key)} is not what the serde {serde.name!r} reads: {error}",
                key=key,
                reason=str(error),
                hint="open it with the serde that wrote it",
            ) from error
