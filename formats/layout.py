"""What a format is made of: a key schema, a value layout, and fields that a program for bytes is derived from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from formats.program import (
    IDENTITY,
    Choose,
    Copy,
    Insert,
    InsertSize,
    Operation,
    Reverse,
    Skip,
    SkipSize,
    SpanOperation,
)

PAYLOAD = "payload"
TIMESTAMP = "timestamp"
UNKNOWN_TIME = -1
"""The timestamp of a record whose time nobody knows: a broker keeps it, and a store that is restored holds it."""
HEADERS = "headers"
WINDOW_START = "window-start"
WINDOW_END = "window-end"
SEQUENCE = "sequence"
HISTORY = "history"
EXPIRY = "expiry"
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
    prefixes: tuple[bytes, ...] = ()
    """Its bytes begin with one of these, none of which begins with another; empty: with any."""


PAYLOAD_FIELD = Field(PAYLOAD, None, framing=Framing.REST)
"""The user's bytes: what the other fields leave."""


class RecordLayout(Protocol):
    """The bytes around one payload.

    `unpack` and `pack` are the reference, written out by hand from the owner's source; `fields` says the same as data.
    Property tests hold the two equal.
    """

    @property
    def fields(self) -> tuple[Field, ...]:
        """The parts, in the order of their bytes."""

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        """(payload, what else is carried). Raises EntryError."""

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        """The inverse of `unpack`; what `carried` lacks is written as the owner writes an unknown value."""


@dataclass(frozen=True, slots=True)
class PlainLayout:
    """
    | offset | size | field   |
    |--------|------|---------|
    | 0      | rest | payload |
    """

    fields: tuple[Field, ...] = (PAYLOAD_FIELD,)

    def unpack(self, data: bytes) -> tuple[bytes, Carried]:
        return data, {}

    def pack(self, payload: bytes, carried: Carried) -> bytes:
        return payload


PLAIN = PlainLayout()


def compile_fields(
    source: tuple[Field, ...], target: tuple[Field, ...], defaults: Carried, payload: tuple[Operation, ...] = IDENTITY
) -> tuple[Operation, ...] | None:
    """The operations for one pass over the source's fields; None where the target orders its fields differently."""
    program: list[Operation | Field] = []
    left = list(source)
    names = {field.name for field in source}
    for wanted in target:
        if wanted.framing is Framing.SIZE:
            program.append(InsertSize())
            continue
        if wanted.name not in {field.name for field in left}:
            if wanted.name in names or wanted.pack is None or wanted.name not in defaults:
                return None  # already passed: another order; or without a default
            program.append(Insert(wanted.pack(defaults[wanted.name])))
            continue
        while (field := left.pop(0)).name != wanted.name:
            if field.name == PAYLOAD:
                return None  # the target has the field behind the payload
            program.append(_skip(field))
        if (field.framing, field.size) != (wanted.framing, wanted.size):
            return None
        program.extend(payload if field.name == PAYLOAD else [field if field.prefixes else _copy(field, wanted)])
    program.extend(_skip(field) for field in left)
    return _with_choices(program)


def _with_choices(program: list[Operation | Field]) -> tuple[Operation, ...]:
    """The program, with a choice by its prefixes, of all that follows, in place of each field."""
    behind: tuple[Operation, ...] = ()
    for step in reversed(program):
        if isinstance(step, Field):
            assert step.size is not None
            cases = ((each, (Insert(each), Copy(step.size - len(each)), *behind)) for each in step.prefixes)
            behind = (Choose(tuple(cases)),)
        else:
            behind = (step, *behind)
    return behind


def _copy(field: Field, wanted: Field) -> Operation:
    if field.framing is Framing.SPAN:
        return SpanOperation("copy")
    assert field.size is not None
    return Copy(field.size) if field.is_little_endian == wanted.is_little_endian else Reverse(field.size)


def _skip(field: Field) -> Operation:
    if field.framing is Framing.SPAN:
        return SpanOperation("skip")
    return SkipSize() if field.framing is Framing.SIZE else Skip(field.size)
