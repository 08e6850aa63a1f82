"""The source that reads the parts of an Avro value, and what the functions of a program share: names and constants.

In the source, `d` is the value, `i` the position in it, `k` the nesting depth; `n`, `b` and `j` are temporary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from formats.avro.operations import (
    MAX_EMPTY,
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
from formats.encoding.varint import pack_varint

END = ""
"""The position where the value ends."""
BLOCKS = 6
"""How deep blocks may be nested before the code calls a function instead; Python allows 20 nested loops."""
LONGEST = {"int": (5, 16), "long": (10, 2)}
"""By kind: how many bytes a number may take, and what its last byte must be below."""


class AvroReading:
    """Writes the code that reads a value, line by line."""

    def __init__(self, source: AvroSource, *, indent: int, start: str | None, depth: str) -> None:
        self.source = source
        self.indent = indent
        self.base = indent
        self.depth = depth
        self._lines: list[tuple[str, str | None]] = []
        self._here = start
        """The variable that holds the current position, if there is one."""
        self._used: set[str] = set()
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append((f"{'    ' * self.indent}{text}", None))

    def bail_out_if(self, condition: str) -> None:
        self.line(f"if {condition}:")
        self.line("    raise BailOut")

    def lines(self) -> list[str]:
        """The lines, without the positions that nothing refers to."""
        return [text for text, place in self._lines if place is None or place in self._used]

    def walk(self, operations: Operations) -> None:
        """Write the code that reads for these operations, and writes nothing."""
        size = size_of(operations)
        if size is None:
            for operation in operations:
                WALKS[type(operation)](self, operation)
        elif size:
            self._advance(size)

    def _advance(self, size: object) -> None:
        self.line(f"i += {size}")
        self._here = None

    def _block(self, write: Callable[[], None], call: Callable[[], None]) -> None:
        """The body of a loop or a branch: written in place, or a call where it would be nested too deep."""
        self.indent += 1
        self._here = None
        count = len(self._lines)
        (call if self.indent - self.base > BLOCKS else write)()
        if len(self._lines) == count:
            self.line("pass")
        self.indent -= 1
        self._here = None

    def _walk_block(self, operations: Operations) -> None:
        self._block(lambda: self.walk(operations), lambda: self._walk_function(operations, 0))

    def _walk_function(self, operations: Operations, level: int) -> None:
        self.line(f"i = {self._call(operations, level, writes=False)}")
        self._here = None

    def _call(self, operations: Operations, level: int, *, writes: bool) -> str:
        depth = f"{self.depth} + {level}" if level else self.depth
        return f"{self.source.function(operations, writes=writes)}(d, i, {depth})"

    def _walk_keep(self, operation: Keep) -> None:
        if operation.kind in LONGEST:
            self._walk_number(operation.kind)
        elif operation.kind == "boolean":
            self.bail_out_if("d[i] > 1")
            self._advance(1)
        elif operation.kind in ("bytes", "string"):
            self._walk_text(utf8=operation.kind == "string")
        else:
            self._advance(operation.size)

    def _walk_number(self, kind: str) -> None:
        longest, limit = LONGEST[kind]
        self.line("if d[i] < 128:")
        self.line("    i += 1")
        self.line("else:")
        for size in range(2, longest + 1):
            word = "if" if size == 2 else "elif"
            self.line(f"    {word} (b := d[i + {size - 1}]) < {limit if size == longest else 128}:")
            self.line(f"        i += {size}")
        self.line("    else:")
        self.line("        raise BailOut")
        self.line("    if not b:")
        self.line("        raise BailOut")
        self._here = None

    def _walk_text(self, *, utf8: bool) -> None:
        self._small_number()
        self.line("if n & 129:")  # of more than one byte, or negative
        self.line("    b = d[i]")
        self.line("    i += 1")
        self.line("    if n > 127 and 0 < b < 128:")
        self.line("        n += b - 1 << 7")
        self.line("    else:")
        self.line("        n, i = long_number(d, i - 2)")
        self.line("    if n & 1:")
        self.line("        raise BailOut")
        if utf8:
            self.line("j = i + (n >> 1)")
            self.line("if not d[i:j].isascii():")
            self.line("    str(d[i:j], 'utf-8')")
            self.line("i = j")
        else:
            self.line("i += n >> 1")

    def _small_number(self) -> None:
        """Write the code that reads one byte of a number into `n`."""
        self.line("n = d[i]")
        self._advance(1)

    def _number(self, kind: str = "long") -> None:
        """Write the code that reads a complete number into `n`, as stored."""
        self._small_number()
        self.line("if n > 127:")
        self.line(f"    n, i = long_number(d, i - 1{', 32' if kind == 'int' else ''})")

    def _walk_arrange(self, operation: Arrange) -> None:
        for part in operation.parts:
            self.walk(part)

    def _walk_choice(self, operation: Choice) -> None:
        self._branch_number(operation)
        table = table_of(operation)
        if table is None:
            self._branches(operation, self._walk_block)
            return
        if len(table) == len(operation.branches):
            self.bail_out_if(f"n & 1 or n > {2 * len(table) - 2}")
        else:
            self.bail_out_if(f"n not in {self.source.constant(frozenset(table))}")

    def _branch_number(self, operation: Choice) -> None:
        if len(operation.branches) > 64:
            self._number()
        else:
            self._small_number()

    def _branches(self, operation: Choice, block: Callable[[Operations], None]) -> None:
        for number, branch in enumerate(operation.branches):
            self.line(f"{'elif' if number else 'if'} n == {2 * number}:")
            block(branch)
        self.line("else:")
        self.line("    raise BailOut")

    def _walk_repeat(self, operation: Repeat) -> None:
        self._count(operation)
        self.line("if n:")
        self.indent += 1
        size = size_of(operation.body)
        if size is None:
            self.line("for _ in range(n >> 1):")
            self._walk_block(operation.body)
        elif size:
            self._advance(f"(n >> 1) * {size}")
        self._end_of_items()
        self.indent -= 1

    def _count(self, operation: Repeat) -> None:
        """Write the code that reads twice the number of items of a block into `n`.

        Without the limits, a loop that reads nothing or only skips would run as often as a damaged count says. A value
        has fewer arrays than bytes: each may have its share of the items without bytes that a value may have.
        """
        self._small_number()
        self.line("if n & 129:")
        self.line("    n, i = long_number(d, i - 1)")
        self.line("    if n & 1 or n > 2 * len(d):" if operation.least else "    if n & 1:")
        self.line("        raise BailOut")
        if not operation.least:
            self.bail_out_if(f"n * len(d) > {2 * MAX_EMPTY}")

    def _end_of_items(self) -> None:
        self.bail_out_if("d[i]")
        self._advance(1)


def table_of(operation: Choice) -> dict[int, bytes] | None:
    """The bytes to write by stored branch number; None where a branch has more to do than write."""
    table = {}
    for number, branch in enumerate(operation.branches):
        if branch and isinstance(branch[0], Refuse):
            continue
        if not all(isinstance(each, Emit) for each in branch):
            return None
        table[2 * number] = b"".join(each.data for each in branch if isinstance(each, Emit))
    return table


WALKS: dict[type, Callable[[AvroReading, Any], None]] = {
    Keep: AvroReading._walk_keep,
    Promote: lambda reading, operation: reading._walk_keep(Keep(operation.kind, 4)),
    Emit: lambda reading, operation: None,
    Refuse: lambda reading, operation: reading.line("raise BailOut"),
    Call: lambda reading, operation: reading._walk_function(reading.source.named[operation.name], operation.level),
    Drop: lambda reading, operation: reading.walk(operation.body),
    Choice: AvroReading._walk_choice,
    Repeat: AvroReading._walk_repeat,
    Arrange: AvroReading._walk_arrange,
}


@dataclass(frozen=True, slots=True)
class CopiedSpan:
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


Piece = CopiedSpan | Constant | Variable


@dataclass(slots=True)
class AvroSource:
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
        return branch[:1] == (Emit(pack_varint(number)),) and self.copies(branch[1:])

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
