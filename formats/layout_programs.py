"""Byte programs that take one layout apart and write another one."""

from __future__ import annotations

from formats.layout import PAYLOAD, Carried, Field, Framing
from formats.program import IDENTITY, Copy, Insert, InsertSize, Operation, Reverse, Skip, SkipSize, Span


def compile_fields(
    source: tuple[Field, ...],
    target: tuple[Field, ...],
    defaults: Carried,
    payload: tuple[Operation, ...] = IDENTITY,
) -> tuple[Operation, ...] | None:
    """The operations for one pass over the source's fields; None where the target orders its fields differently."""
    program: list[Operation] = []
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
        program.extend(payload if field.name == PAYLOAD else [_copy(field, wanted)])
    program.extend(_skip(field) for field in left)
    return tuple(program)


def _copy(field: Field, wanted: Field) -> Operation:
    if field.framing is Framing.SPAN:
        return Span("copy")
    assert field.size is not None
    return Copy(field.size) if field.is_little_endian == wanted.is_little_endian else Reverse(field.size)


def _skip(field: Field) -> Operation:
    if field.framing is Framing.SPAN:
        return Span("skip")
    return SkipSize() if field.framing is Framing.SIZE else Skip(field.size)
