"""Record headers as Kafka Streams keeps them in a store, since 4.3.

| offset | size   | field                                                                  |
|--------|--------|------------------------------------------------------------------------|
| 0      | varint | number of headers; no headers at all are no bytes at all               |
| then   | varint | size of the name, then the name in UTF-8                               |
| then   | varint | size of the value, then the value; -1: the value is null; repeated     |

All varints are zigzag. Source: KIP-1271; org.apache.kafka.streams.state.internals.HeadersSerializer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from formats.encoding.varint import pack_varint, read_varint
from formats.errors import InvalidEntryError, TruncatedEntryError

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Headers:
    """A record's headers, decoded only when they are read."""

    encoded: bytes = b""

    @classmethod
    def of(cls, headers: Iterable[Header]) -> Headers:
        """These headers, in this order."""
        pairs = list(headers)
        if not pairs:
            return cls()
        return cls(b"".join([pack_varint(len(pairs)), *(_pack(name, value) for name, value in pairs)]))

    def __iter__(self) -> Iterator[Header]:
        """Each header, in order. Raises EntryError for bytes that are not headers."""
        if not self.encoded:
            return
        count, at = read_varint(self.encoded, 0)
        if count < 0:
            raise InvalidEntryError(f"there cannot be {count} headers")
        for _ in range(count):
            name, at = _read(self.encoded, at)
            if name is None:
                raise InvalidEntryError("a header has no name")
            value, at = _read(self.encoded, at)
            try:
                text = name.decode()
            except UnicodeDecodeError as error:
                raise InvalidEntryError(f"a header's name is not UTF-8: {name.hex()}") from error
            yield text, value
        if at != len(self.encoded):
            raise InvalidEntryError(f"{len(self.encoded) - at} bytes follow the last header")

    def get(self, name: str) -> bytes | None:
        """The value of the last header of this name, which is the one that counts in Kafka; None: there is none."""
        found = None
        for each, value in self:
            if each == name:
                found = value
        return found

    def replaced(self, name: str, value: bytes) -> Headers:
        """These headers with one header of this name, at the end."""
        return Headers.of([*(header for header in self if header[0] != name), (name, value)])


def pack_sized(headers: Headers) -> bytes:
    """The encoded headers, preceded by their size."""
    return pack_varint(len(headers.encoded)) + headers.encoded


def unpack_sized(data: bytes) -> tuple[Headers, bytes]:
    """(headers, what follows them). Raises EntryError."""
    size, at = read_varint(data, 0)
    if size < 0:
        raise InvalidEntryError(f"the headers have a size of {size}")
    if at + size > len(data):
        raise TruncatedEntryError("value with headers", len(data), at + size)
    return Headers(data[at : at + size]), data[at + size :]


def _pack(name: str, value: bytes | None) -> bytes:
    encoded = name.encode()
    head = pack_varint(len(encoded)) + encoded
    return head + (pack_varint(-1) if value is None else pack_varint(len(value)) + value)


def _read(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size == -1:
        return None, at
    if size < 0:
        raise InvalidEntryError(f"a header has a size of {size}")
    if at + size > len(data):
        raise TruncatedEntryError("headers", len(data), at + size)
    return data[at : at + size], at + size
