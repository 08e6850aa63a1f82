"""What all views share: store partitions read as one, decoded, until one is replaced; results, with times in ms."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Generic, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

from formats import EntryError, Format, Headers
from formats.layout import HEADERS, PLAIN, TIMESTAMP, Carried
from formats.serde import BYTES, Serde, uses_headers
from migrate.errors import ConversionError, MigrationError, StoreClosedError
from migrate.model.key_range import show_key
from migrate.queries.open.partition import Opened, Partition, StoreDefinition
from migrate.stores.state_store import BatchSource, Record

T = TypeVar("T")
Decoder = Callable[[bytes, bytes], Any]
"""From a stored key and value to what a view returns for the value."""
Search = Callable[[Opened], Iterator[T]]
"""From a store partition to what is found in it."""
KeyDecoder = Callable[[bytes, bytes, bytes], Any]
"""From a serialized key, and the stored key and value that it is of, to the key."""
_FIRST_PULL, _LAST_PULL = 16, 256
_MOST = (1 << 63) - 1
_NO_HEADERS = Headers()


def once(read: Callable[[Opened], T]) -> Callable[[Opened], T]:
    """`read`, which reads each opened store partition once for all views: a query makes a view of its own."""
    known: WeakKeyDictionary[Opened, T] = WeakKeyDictionary()

    def found(opened: Opened) -> T:
        if opened not in known:
            known[opened] = read(opened)
        return known[opened]

    return found


class Pulls:
    """How often records were pulled."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class ViewPart(NamedTuple):
    """One store partition of a view. In the middle of a cut-over its format may be another one than its neighbour's."""

    partition: Partition
    format: Format
    """With the serdes that wrote it."""
    decode: Decoder
    """From its stored keys and values to what the view returns for the value."""
    pulls: Pulls = Pulls()
    """Of one iterator."""


class Composite:
    """The store partitions of one store on this host, as they are now. Safe to share between threads.

    Every method raises StateStoreMigratedError once one of them was replaced: resolve the store again.
    """

    def __init__(
        self,
        name: str,
        partitions: Sequence[Partition],
        definition: StoreDefinition,
        decoder: Callable[[Format], Decoder],
    ) -> None:
        self.name = name
        self.definition = definition
        formats = [(each, each.opened().format) for each in partitions]
        self._parts = tuple(ViewPart(each, known, decoder(known)) for each, known in formats)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}, {len(self._parts)} store partitions>"

    @property
    def as_of_ms(self) -> int | None:
        """The time of the newest file, in ms since the epoch, where a running application may have written since.

        Of the store partition whose newest file is the oldest; None: the store is at rest.
        """
        found = [each.partition.opened().as_of_ms for each in self._parts]
        return min((time for time in found if time is not None), default=None)

    def approximate_num_entries(self) -> int:
        """An estimate of the number of records, in all store partitions."""
        found = [
            segment.entries.estimated_records for each in self._parts for segment in each.partition.opened().segments
        ]
        return min(sum(found), _MOST)

    def _iterate(self, ask: Callable[[ViewPart], Search[T]]) -> QueryIterator[T]:
        """What is found in each store partition, one after the other; `ask` is called at once, and serializes keys."""
        parts = [each._replace(pulls=Pulls()) for each in self._parts]
        searches = [(each, ask(each)) for each in parts]
        for each in self._parts:
            each.partition.check()
        return QueryIterator(_walk(searches), self.name)


def _walk(searches: list[tuple[ViewPart, Search[T]]]) -> Generator[T]:
    for part, search in searches:
        yield from _checked(part, search)


def _checked(part: ViewPart, search: Search[T]) -> Generator[T]:
    """What is found in one store partition; nothing more once it was replaced."""
    found = search(part.partition.opened())
    limit = _FIRST_PULL
    try:
        while True:
            batch, error = _some(found, limit, part.pulls)
            part.partition.check()
            yield from batch
            if error is not None:
                raise error
            if not batch:
                return
            limit = min(_LAST_PULL, 4 * limit)
    finally:
        if isinstance(found, Generator):
            found.close()


def _some(found: Iterator[T], limit: int, pulls: Pulls) -> tuple[list[T], MigrationError | None]:
    """The next results, of little more than one pull, whose bytes are bounded; and the error that came after them."""
    batch: list[T] = []
    most = pulls.count + 1
    try:
        for _, each in zip(range(limit), found, strict=False):
            batch.append(each)
            if pulls.count > most:
                break
    except MigrationError as error:
        return batch, error
    return batch, None


class QueryIterator(Iterator[T], Generic[T]):
    """Results in order. A context manager; the files that it reads are held until its end or `close`."""

    def __init__(self, found: Generator[T], name: str) -> None:
        self._found = found
        self._name = name
        self._is_closed = False

    def __next__(self) -> T:
        """The next result. Raises StateStoreMigratedError, StoreClosedError after `close`."""
        if self._is_closed:
            raise StoreClosedError(f"the iterator over the store {self._name!r} is closed", hint="start a new one")
        return next(self._found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the files."""
        self._is_closed = True
        self._found.close()


def records(source: BatchSource, pulls: Pulls | None = None) -> Generator[Record]:
    """Every entry of a scan, which is closed at the end."""
    pulls = pulls or Pulls()
    with closing(source):
        limit = _FIRST_PULL
        while found := source.pull(limit):
            pulls.count += 1
            yield from found
            limit = min(_LAST_PULL, 4 * limit)


def decoded(serde: Serde, payload: bytes, stored_key: bytes, headers: Headers | None = None) -> Any:
    """The object of a payload. Raises ConversionError for bytes that are none."""
    try:
        return serde.decode_with(payload, headers) if uses_headers(serde) else serde.decode(payload)
    except EntryError as error:
        raise undecodable(serde.name, stored_key, error) from error


def key_decoder(known: Format) -> KeyDecoder:
    """Reads keys; some serdes need the headers of the entry for that."""
    serde = known.key_serde
    if not uses_headers(serde) or HEADERS not in known.carries:
        return lambda payload, key, _: decoded(serde, payload, key)
    return lambda payload, key, value: decoded(serde, payload, key, _unframed(known, key, value)[1].get(HEADERS))


def value_decoder(known: Format) -> Decoder:
    """Reads the bare value of an entry: what a view without timestamps returns."""
    serde, layout = known.value_serde, known.value_layout
    if layout == PLAIN and serde == BYTES:
        return lambda _, value: value
    if layout == PLAIN and not uses_headers(serde):
        return lambda key, value: decoded(serde, value, key)
    return lambda key, value: _unpacked(known, key, value)[0]


def timestamped_decoder(known: Format) -> Decoder:
    """Reads the value of an entry with its timestamp."""
    return lambda key, value: ValueAndTimestamp(*_unpacked(known, key, value)[:2])


def headers_decoder(known: Format) -> Decoder:
    """Reads the value of an entry with its timestamp and headers."""
    return lambda key, value: ValueTimestampHeaders(*_unpacked(known, key, value))


def _unpacked(known: Format, key: bytes, value: bytes) -> tuple[Any, int, Headers]:
    payload, carried = _unframed(known, key, value)
    headers = carried.get(HEADERS, _NO_HEADERS)
    return decoded(known.value_serde, payload, key, headers), carried.get(TIMESTAMP, -1), headers


def _unframed(known: Format, key: bytes, value: bytes) -> tuple[bytes, Carried]:
    try:
        return known.value_layout.unpack(value)
    except EntryError as error:
        raise undecodable(known.id, key, error) from error


def undecodable(reader: str, stored_key: bytes, error: EntryError) -> ConversionError:
    """The error for an entry that is not what the store's definition says."""
    return ConversionError(
        f"the record {show_key(stored_key)} is not what {reader!r} reads: {error}",
        key=stored_key,
        reason=str(error),
        hint="name the format and the serdes that wrote the store",
    )


class KeyValue(NamedTuple):
    """A record of a key-value store."""

    key: Any
    value: Any


class ValueAndTimestamp(NamedTuple):
    """A value and the time of the record that wrote it; -1: unknown."""

    value: Any
    timestamp: int


class ValueTimestampHeaders(NamedTuple):
    """The same with the record's headers."""

    value: Any
    timestamp: int
    headers: Headers


class TimeWindow(NamedTuple):
    """A window, or the times of a session's first and last record."""

    start: int
    end: int | None
    """Exclusive for a window, inclusive for a session; None: a window whose size is not known."""


class Windowed(NamedTuple):
    """A key and its window or session."""

    key: Any
    window: TimeWindow


class VersionedRecord(NamedTuple):
    """A version of a key's value."""

    value: Any
    timestamp: int
    """Since when it holds."""
    valid_to: int | None = None
    """Until when; None: it is the newest."""
