"""What the generated functions of an Avro program share: names, constants, and which operations copy bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from formats.avro.binary import encode_long
from formats.avro.operations import (
    Arrange,
    Call,
    Choice,
    Drop,
    Emit,
    Keep,
    Operation,
    Operations,
    Promote,
    Refuse,
    Repeat,
)
from formats.avro.program import AvroProgram

END = ""
"""The position where the value ends."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of the old value, from one position to another."""

    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class Constant:
    """Bytes that the program holds."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Variable:
    """Bytes that the generated code computes."""

    name: str


Piece = Span | Constant | Variable


@dataclass(slots=True)
class Source:
    """The constants and functions of one program's source."""

    program: AvroProgram
    constants: dict[str, Any] = field(default_factory=dict)
    functions: dict[tuple[Operations, bool], str] = field(default_factory=dict)
    """Names by the operations that a function runs, and whether it writes."""
    waiting: list[tuple[str, Operations, bool]] = field(default_factory=list)
    """Functions that are called and not rendered yet."""
    named: dict[str, Operations] = field(init=False)
    _copies: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.named = dict(self.program.named)

    def constant(self, value: object) -> str:
        """Bind a constant, and return its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def function(self, operations: Operations, *, writes: bool) -> str:
        """The name of the function that runs these operations; it is rendered later."""
        key = operations, writes
        if key not in self.functions:
            self.functions[key] = f"f{len(self.functions)}"
            self.waiting.append((self.functions[key], operations, writes))
        return self.functions[key]

    def copies(self, operations: Operations) -> bool:
        """Whether these operations write the bytes that they read."""
        return all(map(self._copies_one, operations))

    def _copies_one(self, operation: Operation) -> bool:
        if isinstance(operation, Call):
            return self._copies_named(operation.name)
        if isinstance(operation, Repeat):
            return self.copies(operation.body)
        if isinstance(operation, Choice):
            return all(self._keeps_number(*each) for each in enumerate(operation.branches))
        return isinstance(operation, Keep | Refuse)

    def _keeps_number(self, number: int, branch: Operations) -> bool:
        if branch and isinstance(branch[0], Refuse):
            return True
        return branch[:1] == (Emit(encode_long(number)),) and self.copies(branch[1:])

    def _copies_named(self, name: str) -> bool:
        if name not in self._copies:
            self._copies[name] = True  # assumed for the recursion, until a part of it proves otherwise
            self._copies[name] = found = self.copies(self.named[name])
            if not found:  # what followed from the assumption no longer holds
                self._copies = {known: False for known, copied in self._copies.items() if not copied}
        return self._copies[name]


def size_of(operations: Operations) -> int | None:
    """How many bytes these operations read; None where that varies or the bytes need a check."""
    total = 0
    for operation in operations:
        size = _size_of_one(operation)
        if size is None:
            return None
        total += size
    return total


def _size_of_one(operation: Operation) -> int | None:
    if isinstance(operation, Keep):
        return operation.size if operation.kind in ("fixed", "float", "double") else None
    if isinstance(operation, Promote):
        return 4 if operation.kind == "float" else None
    if isinstance(operation, Drop):
        return size_of(operation.body)
    if isinstance(operation, Arrange):
        return size_of(tuple(part for parts in operation.parts for part in parts))
    return 0 if isinstance(operation, Emit) else None
