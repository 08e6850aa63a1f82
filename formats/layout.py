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
    program: list[Operation] = []
    checked: list[tuple[int, Field]] = []
    left = list(source)
    names = {field.name for field in source}
    for wanted in target:
        if wanted.framing is Framing.SIZE:
            program.append(InsertSize())
            continue
        if wanted.name not in {field.name for field in left}:
            inserted = None if wanted.name in names else _default(wanted, defaults)
            if inserted is None:
                return None  # already passed: another order; or without a default
            program.append(inserted)
            continue
        skipped = _before(left, wanted)
        if PAYLOAD in (each.name for each in skipped):
            return None  # the target has the field behind the payload
        program.extend(map(_skip, skipped))
        field = left.pop(0)
        if (field.framing, field.size) != (wanted.framing, wanted.size):
            return None
        if field.prefixes:
            checked.append((len(program), field))
        program.extend(payload if field.name == PAYLOAD else [_copy(field, wanted)])
    program.extend(map(_skip, left))
    return _with_choices(program, checked)


def _default(wanted: Field, defaults: Carried) -> Operation | None:
    return None if wanted.pack is None or wanted.name not in defaults else Insert(wanted.pack(defaults[wanted.name]))


def _before(left: list[Field], wanted: Field) -> list[Field]:
    """Take the fields before this one out of those that are left."""
    found = []
    while left[0].name != wanted.name:
        found.append(left.pop(0))
    return found


def _with_choices(program: list[Operation], checked: list[tuple[int, Field]]) -> tuple[Operation, ...]:
    """The program with a choice, by its prefix, in place of the copy of each of these fields.

    `checked`: with the place of the copy in the program.
    """
    for place, field in reversed(checked):
        assert field.size is not None
        left = {prefix: field.size - len(prefix) for prefix in field.prefixes}
        behind = program[place + 1 :]
        cases = [(each, (Insert(each), *([Copy(size)] if size else []), *behind)) for each, size in left.items()]
        program[place:] = [Choose(tuple(cases))]
    return tuple(program)


def _copy(field: Field, wanted: Field) -> Operation:
    if field.framing is Framing.SPAN:
        return SpanOperation("copy")
    assert field.size is not None
    return Copy(field.size) if field.is_little_endian == wanted.is_little_endian else Reverse(field.size)


def _skip(field: Field) -> Operation:
    if field.framing is Framing.SPAN:
        return SpanOperation("skip")
    return SkipSize() if field.framing is Framing.SIZE else Skip(field.size)
