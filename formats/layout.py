"""What a format is made of: a key schema, a value layout, and the fields that a byte program can be derived from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

PAYLOAD = "payload"


@dataclass(frozen=True, slots=True)
class Field:
    """One part of a layout, in the order of its bytes."""

    name: str
    """PAYLOAD for the user's bytes, else the name of what is carried ("timestamp")."""
    size: int | None
    """Bytes; None: everything that is left (only the last field)."""
    pack: Callable[[int], bytes] | None = None
    """Encodes a value that the other side does not carry; None: there is no such value."""


class Layout(Protocol):
    """The bytes around one payload.

    `unpack` and `pack` are the reference, written out by hand from the owner's source; `fields` says the same as data.
    Property tests hold the two equal.
    """

    @property
    def fields(self) -> tuple[Field, ...]:
        """The parts, in the order of their bytes."""
        ...

    def unpack(self, data: bytes) -> tuple[bytes, dict[str, int]]:
        """(payload, what else is carried). Raises EntryError."""
        ...

    def pack(self, payload: bytes, carried: dict[str, int]) -> bytes:
        """The inverse of `unpack`; what `carried` lacks is written as the owner's "unknown"."""
        ...


@dataclass(frozen=True, slots=True)
class PlainLayout:
    """
    | offset | size | field   |
    |--------|------|---------|
    | 0      | rest | payload |
    """

    fields: tuple[Field, ...] = (Field(PAYLOAD, None),)

    def unpack(self, data: bytes) -> tuple[bytes, dict[str, int]]:
        """All of it is payload."""
        return data, {}

    def pack(self, payload: bytes, carried: dict[str, int]) -> bytes:
        """The payload and nothing else."""
        return payload


PLAIN = PlainLayout()
