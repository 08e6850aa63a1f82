"""Avro programs as Python source, for the portable engine.

The source is made of operations and numbers. The bytes to write are bound to names, so that data never becomes code.
The generated code bails out of an unusual value (damaged, in several blocks, nested too deeply): `run_avro` converts it
or reports what is wrong with it. In the source, `s1` is a position in the old value, `c1` a constant, `p1` a piece of
the new value, `q1` a list of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from formats.avro.binary import PACK
from formats.avro.operations import MAX_DEPTH, Arrange, Call, Choice, Drop, Emit, Operations, Promote, Repeat
from formats.avro.program import EXACT, AvroProgram, is_exact, run_avro
from migrate.engine.avro.reading import END, AvroReading, AvroSource, Constant, CopiedSpan, Piece, Variable, table_of
from migrate.engine.bail_out import BailOutError

Column = Callable[[list[bytes]], list[bytes]]
FAILURES = (BailOutError, IndexError, UnicodeDecodeError, RecursionError, struct.error)
"""What the generated code raises where it bails out: itself, or by reading past what it expects."""


def long_number(data: bytes, at: int, bits: int = 64) -> tuple[int, int]:
    """(the number as stored, with its sign in the lowest bit; where it ends). Raises BailOutError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    if not byte or value >> bits:
        raise BailOutError
    return value, at


@lru_cache(maxsize=64)
def generate_column(program: AvroProgram) -> Column:
    """A function that does with many values what `run_avro` does with one, many times faster.

    It raises EntryError at the first value that has no new form, as `run_avro` does.
    """
    source = AvroSource(program)
    slow = partial(run_avro, program)
    names: dict[str, Any] = {
        "BailOut": BailOutError,
        "FAILURES": FAILURES,
        "is_exact": is_exact,
        "long_number": long_number,
        "slow": slow,
        "pack_float": PACK["float"].pack,
        "pack_double": PACK["double"].pack,
        "float_at": PACK["float"].unpack_from,
    }
    text = render(source)
    names.update(source.constants)
    try:
        exec(compile(text, "<avro program>", "exec"), names)
    except RecursionError:  # a union of thousands of branches is more than Python's compiler takes
        return lambda column: list(map(slow, column))
    convert: Column = names["convert"]
    return convert


class Function(AvroReading):
    """Writes the code of one function, and collects the pieces of the new value."""

    @classmethod
    def render(cls, source: AvroSource, name: str, operations: Operations, writes: bool) -> list[str]:
        """The lines of a function that returns (what it writes, where the value ends), or only where the value ends."""
        body = cls(source, indent=1, start=None, depth="k")
        body.bail_out_if(f"k > {MAX_DEPTH}")
        if writes:
            body.line(f"return {body.expression(body.pieces(operations))}, i")
        else:
            body.walk(operations)
            body.line("return i")
        return [f"def {name}(d, i, k):", *body.lines()]

    def expression(self, pieces: list[Piece]) -> str:
        terms = [self._term(piece) for piece in _joined(pieces)]
        if len(terms) > 4:
            return f"b''.join(({', '.join(terms)}))"
        return " + ".join(terms) or "b''"

    def to_the_end(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces, where a span that ends at the current position ends with the value."""
        return [
            CopiedSpan(each.begin, END) if isinstance(each, CopiedSpan) and each.end == self._here else each
            for each in pieces
        ]

    def pieces(self, operations: Operations) -> list[Piece]:
        """Write the code that reads for these operations, and return what they write."""
        pieces: list[Piece] = []
        for operation in operations:
            if self.source.copies((operation,)):
                begin = self._place()
                self.walk((operation,))
                pieces.append(CopiedSpan(begin, self._place()))
            else:
                pieces.extend(PIECES[type(operation)](self, operation))
        return pieces

    def _term(self, piece: Piece) -> str:
        if isinstance(piece, Constant):
            return self.source.constant(piece.data)
        if isinstance(piece, Variable):
            return piece.name
        self._used |= {piece.begin, piece.end}
        begin = "" if piece.begin == "0" else piece.begin
        return f"d[{begin}:{piece.end}]" if begin or piece.end else "d"

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _place(self) -> str:
        if self._here is None:
            self._here = self._name("s")
            self._lines.append((f"{'    ' * self.indent}{self._here} = i", self._here))
        return self._here

    def _block_into(self, operations: Operations, into: str, keep: str = "{} = {}") -> None:
        """Write the code that assigns what these operations write to `into`."""

        def write() -> None:
            self.line(keep.format(into, self.expression(self.pieces(operations))))

        self._block(write, lambda: self._call_into(into, operations, 0, keep))

    def _call_into(self, into: str, operations: Operations, level: int, keep: str = "{} = {}") -> None:
        self.line(f"p, i = {self._call(operations, level, writes=True)}")
        self.line(keep.format(into, "p"))
        self._here = None

    def _pieces_of_promote(self, operation: Promote) -> list[Piece]:
        name = self._name("p")
        if operation.kind == "float":
            self.line(f"{name} = pack_{operation.to}(float_at(d, i)[0])")
            self._advance(4)
        else:
            self._number(operation.kind)
            number = "n >> 1 ^ -(n & 1)"
            if (operation.kind, operation.to) != ("int", "double"):  # an int always fits into a double
                # It would be rounded: a reject, whose reason `run_avro` knows.
                self.bail_out_if(f"n >> {EXACT[operation.to] + 1} and not is_exact({operation.to!r}, {number})")
            self.line(f"{name} = pack_{operation.to}({number})")
        return [Variable(name)]

    def _pieces_of_call(self, operation: Call) -> list[Piece]:
        name = self._name("p")
        self._call_into(name, self.source.named[operation.name], operation.level)
        return [Variable(name)]

    def _pieces_of_drop(self, operation: Drop) -> list[Piece]:
        self.walk(operation.body)
        return []

    def _pieces_of_choice(self, operation: Choice) -> list[Piece]:
        name = self._name("p")
        self._branch_number(operation)
        table = table_of(operation)
        if table is None:
            self._branches(operation, lambda branch: self._block_into(branch, name))
        else:
            self.line(f"{name} = {self.source.constant(table)}.get(n)")
            self.bail_out_if(f"{name} is None")
        return [Variable(name)]

    def _pieces_of_repeat(self, operation: Repeat) -> list[Piece]:
        name, items, begin = self._name("p"), self._name("q"), self._place()
        self._count(operation)
        self.line("if n:")
        self.indent += 1
        head = self.expression([CopiedSpan(begin, self._place())])
        self.line(f"{items} = [{head}]")
        self.line("for _ in range(n >> 1):")
        self._block_into(operation.body, items, "{}.append({})")
        self._end_of_items()
        self.line(f"{items}.append({self.source.constant(bytes(1))})")
        self.line(f"{name} = b''.join({items})")
        self.indent -= 1
        self.line("else:")
        self.line(f"    {name} = {self.source.constant(bytes(1))}")
        self._here = None
        return [Variable(name)]

    def _pieces_of_arrange(self, operation: Arrange) -> list[Piece]:
        wanted = set(operation.order)
        parts: list[list[Piece]] = []
        for number, part in enumerate(operation.parts):
            if number in wanted:
                parts.append(self.pieces(part))
            else:
                self.walk(part)
                parts.append([])
        return [piece for number in operation.order for piece in parts[number]]


def _joined(pieces: list[Piece]) -> list[Piece]:
    """The pieces, with adjacent spans and constants merged."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, CopiedSpan) and isinstance(last, CopiedSpan) and last.end == piece.begin:
            joined[-1] = CopiedSpan(last.begin, piece.end)
        elif isinstance(piece, Constant) and isinstance(last, Constant):
            joined[-1] = Constant(last.data + piece.data)
        elif not isinstance(piece, CopiedSpan) or piece.begin != piece.end:
            joined.append(piece)
    return joined


PIECES: dict[type, Callable[[Function, Any], list[Piece]]] = {
    Promote: Function._pieces_of_promote,
    Emit: lambda function, operation: [Constant(operation.data)],
    Call: Function._pieces_of_call,
    Drop: Function._pieces_of_drop,
    Choice: Function._pieces_of_choice,
    Repeat: Function._pieces_of_repeat,
    Arrange: Function._pieces_of_arrange,
}


def render(source: AvroSource) -> str:
    """The source of the module: `convert`, and the functions that it calls."""
    body = Function(source, indent=3, start="0", depth="0")
    body.line("i = 0")
    pieces = body.pieces(source.program.main)
    body.bail_out_if("i != len(d)")
    body.line(f"add({body.expression(body.to_the_end(pieces))})")
    lines = [
        "def convert(column):",
        "    out = []",
        "    add = out.append",
        "    for d in column:",
        "        try:",
        *body.lines(),
        "        except FAILURES:",
        "            add(slow(d))",
        "    return out",
    ]
    while source.waiting:
        lines += Function.render(source, *source.waiting.pop())
    return "\n".join(lines) + "\n"
