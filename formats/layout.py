"""What a format is made of: a key schema, a value layout, and the fields that a byte program can be derived from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

PAYLOAD = "payload"
TIMESTAMP = "timestamp"
HEADERS = "headers"
WINDOW_START = "window-start"
WINDOW_END = "window-end"
SEQUENCE = "sequence"
HISTORY = "history"
VALUE_SIZE = "value-size"
"""Not a field of the record: what the payload's own bytes say."""

Carried = dict[str, Any]
"""What a layout carries besides the payload, by the field's name."""


class Framing(Enum):
    """How a field's bytes are delimited."""

    FIXED = "fixed"
    REST = "rest"
    """Everything that the fields behind it leave."""
    SPAN = "span"
    """A zigzag varint tells its size."""
    SIZE = "size"
    """A little-endian number: the bytes that follow."""


@dataclass(frozen=True, slots=True)
class Field:
    """One part of a layout, in the order of its bytes."""

    name: str
    """PAYLOAD for the user's bytes, else the name of what is carried."""
    size: int | None
    """Bytes; None: it varies."""
    pack: Callable[[Any], bytes] | None = None
    """Encodes a value that the other side does not carry; None: there is no such value."""
    framing: Framing = Framing.FIXED
    is_little_endian: bool = False


def payload_field() -> Field:
    """The user's bytes: what the other fields leave."""
    return Field(PAYLOAD, None, framing=Framing.REST)


class Layout(Protocol):
    """The bytes around one payload.

    `unpack` and `pack` are the reference, written out by hand from the owner's source; `fields` says the same as data.
    Property tests hold the two equal.
    """

    @property
    def fields(self) -> tuple[Field, ...]:
        """The parts, in the order of their bytes."""
        ...

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        """(payload, what else is carried). Raises EntryError."""
        ...

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        """The inverse of `unpack`; what `carried` lacks is written as the owner's "unknown"."""
        ...


@dataclass(frozen=True, slots=True)
class PlainLayout:
    """
    | offset | size | field   |
    |--------|------|---------|
    | 0      | rest | payload |
    """

    fields: tuple[Field, ...] = (payload_field(),)

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        """All of it is payload."""
        return data, {}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        """The payload and nothing else."""
        return payload


PLAIN = PlainLayout()
