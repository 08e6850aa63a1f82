"""Avro programs: the conversion of a value from one schema to another, as data.

A program reads a value from left to right, checks every part of it, and writes the new value. It can be pickled
and printed, and run by any engine; `run_avro` defines what it means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from formats.avro.binary import PACK, WHAT, AvroCursor
from formats.avro.operations import (
    MAX_DEPTH,
    Arrange,
    Call,
    Choice,
    Drop,
    Emit,
    Keep,
    Operations,
    Promote,
    Refuse,
    Repeat,
    printed,
)
from formats.encoding.varint import pack_varint
from formats.errors import InvalidEntryError

EXACT = {"float": 24, "double": 53}
"""The bits of an integer that are held whatever they are; of longer ones the lowest must be 0."""

TOO_DEEP = f"{WHAT} holds more than {MAX_DEPTH} values of a recursive type within one another"


def is_exact(kind: str, value: int) -> bool:
    """Whether a float or a double holds the integer as it is."""
    used = value.bit_length() - ((value & -value).bit_length() - 1) if value else 0
    return used <= EXACT[kind]


def pack_number(kind: str, value: float) -> bytes:
    """The bytes of a float or a double. Raises InvalidEntryError for an integer that would be rounded."""
    if isinstance(value, int) and not is_exact(kind, value):
        raise InvalidEntryError(f"a {kind} cannot hold {value} exactly")
    return PACK[kind].pack(value)


@dataclass(frozen=True, slots=True)
class AvroProgram:
    """The operations for a value, and for the named parts that they call."""

    main: Operations
    named: tuple[tuple[str, Operations], ...] = ()

    def __str__(self) -> str:
        return "; ".join((printed(self.main), *(f"{name}: {printed(body)}" for name, body in self.named)))


def run_avro(program: AvroProgram, data: bytes) -> bytes:
    """The new value. Raises EntryError for a value that is not of the old schema, or has no place in the new one."""
    run = _AvroRun(data, dict(program.named))
    out: list[bytes] = []
    try:
        run.operations(program.main, out)
    except RecursionError:
        raise InvalidEntryError(f"{WHAT} is nested too deeply") from None
    if run.at < len(data):
        raise InvalidEntryError(f"{WHAT} ends at byte {run.at}, but {len(data) - run.at} bytes follow")
    return b"".join(out)


class _AvroRun(AvroCursor):
    __slots__ = ("depth", "named")

    def __init__(self, data: bytes, named: dict[str, Operations]) -> None:
        super().__init__(data)
        self.named = named
        self.depth = 0

    def operations(self, operations: Operations, out: list[bytes]) -> None:
        for operation in operations:
            STEPS[type(operation)](self, operation, out)

    def keep_value(self, operation: Keep, out: list[bytes]) -> None:
        begin = self.at
        self.keep(operation)
        out.append(self.data[begin : self.at])

    def promote(self, operation: Promote, out: list[bytes]) -> None:
        value: float
        if operation.kind == "float":
            (value,) = PACK["float"].unpack_from(self.data, self.skip(4))
        else:
            value = self.number(operation.kind)
        out.append(pack_number(operation.to, value))

    def refuse(self, operation: Refuse, out: list[bytes]) -> None:
        raise InvalidEntryError(operation.reason)

    def call(self, operation: Call, out: list[bytes]) -> None:
        self.depth += operation.level
        if self.depth > MAX_DEPTH:
            raise InvalidEntryError(TOO_DEEP)
        self.operations(self.named[operation.name], out)
        self.depth -= operation.level

    def repeat(self, operation: Repeat, out: list[bytes]) -> None:
        total = 0
        items: list[bytes] = []
        while True:
            count, end = self.block(operation.least)
            if not count:
                break
            total += count
            for _ in range(count):
                self.operations(operation.body, items)
            if end not in (None, self.at):
                raise self.invalid("a block that is not as long as it says")
        if total:
            out.append(pack_varint(total))
        out.extend(items)
        out.append(b"\0")

    def arrange(self, operation: Arrange, out: list[bytes]) -> None:
        parts: list[list[bytes]] = []
        for part in operation.parts:
            parts.append([])
            self.operations(part, parts[-1])
        for number in operation.order:
            out.extend(parts[number])


STEPS: dict[type, Callable[[_AvroRun, Any, list[bytes]], None]] = {
    Keep: _AvroRun.keep_value,
    Promote: _AvroRun.promote,
    Emit: lambda run, operation, out: out.append(operation.data),
    Refuse: _AvroRun.refuse,
    Call: _AvroRun.call,
    Drop: lambda run, operation, out: run.operations(operation.body, []),
    Choice: lambda run, operation, out: run.operations(operation.branches[run.index(len(operation.branches))], out),
    Repeat: _AvroRun.repeat,
    Arrange: _AvroRun.arrange,
}
