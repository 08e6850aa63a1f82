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
"""The size of the payload: not a field of the record, for the payload's bytes determine it."""

Carried = dict[str, Any]
"""The fields that a layout carries besides the payload, by name."""


class Framing(Enum):
    """How a field's bytes are delimited."""

    FIXED = "fixed"
    REST = "rest"
    """All bytes that the fields behind it leave."""
    SPAN = "span"
    """A zigzag varint holds its size."""
    SIZE = "size"
    """A little-endian number of the bytes that follow."""


@dataclass(frozen=True, slots=True)
class Field:
    """One part of a layout, in the order of its bytes."""

    name: str
    """PAYLOAD for the user's bytes, else the name of what is carried."""
    size: int | None
    """Bytes; None: it varies."""
    pack: Callable[[Any], bytes] | None = None
    """Encodes a default where the other side carries no value; None: there is no default."""
    framing: Framing = Framing.FIXED
    is_little_endian: bool = False


PAYLOAD_FIELD = Field(PAYLOAD, None, framing=Framing.REST)
"""The user's bytes: what the other fields leave."""


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
        """The inverse of `unpack`; what `carried` lacks is written as the owner writes an unknown value."""
        ...


@dataclass(frozen=True, slots=True)
class PlainLayout:
    """
    | offset | size | field   |
    |--------|------|---------|
    | 0      | rest | payload |
    """

    fields: tuple[Field, ...] = (PAYLOAD_FIELD,)

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        """The data as the payload, and nothing carried."""
        return data, {}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        """The payload and nothing else."""
        return payload


PLAIN = PlainLayout()
