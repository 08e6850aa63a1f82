"""Byte programs as words for the interpreter: an operation, then its operands.

    COPY, SKIP, REVERSE size behind          NUMBER bits                     CALL to level, RETURN
    COPY_REST, SKIP_REST behind              TEXT is-utf8                    REPEAT, BLOCK least exit, ITEM body block
    SPAN, SKIP_SPAN, SKIP_SIZE, ENTER behind BOOLEAN, REFUSE, JUMP to        PART, ARRANGE parts kept (number of each)
    INSERT at size                           PROMOTE bits size               CHOICE, KEPT_CHOICE branches (to of each)
    INSERT_SIZE, LEAVE sizes, END            PROMOTE_FLOAT, DROP, DROPPED    CHOOSE cases (at size to of each)

`behind`: the bytes that the operations behind it need. `at`: the address of bytes. `to`: that of an operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from formats import program as plain
from formats.avro import operations as avro
from formats.avro.binary import BITS
from formats.encoding.varint import pack_varint
from formats.program import IDENTITY, fixed_size
from migrate.engine.native import words as op

MAX_WORDS = 1 << 20
_DEEPEST = 64
"""How deep operations may be nested: the reference path ends with Python's own limit."""
_WORD = 8
_OPERANDS = 2
"""Words that the interpreter reads behind an operation, also where it has none."""


class TooLargeError(Exception):
    """A program is too large, or nested too deep, for the interpreter."""


@lru_cache(maxsize=64)
def byte_code(operations: tuple[plain.Operation, ...]) -> npt.NDArray[np.int64] | None:
    """The program in words, and behind them its bytes, which stay where they are; None: nothing changes.

    Raises TooLargeError.
    """
    if operations == IDENTITY:
        return None
    writer = ByteCodeWriter()
    writer.whole(operations, 0)
    writer.add(op.END)
    while writer.waiting:
        writer.named_part(writer.waiting.pop())
    return writer.linked()


@dataclass(slots=True)
class ByteCodeWriter:
    """Writes a program, word by word."""

    words: list[int] = field(default_factory=list)
    pool: bytearray = field(default_factory=bytearray)
    jumps: list[int] = field(default_factory=list)
    """Places of words that are places themselves; they become addresses."""
    pooled: list[int] = field(default_factory=list)
    """Places of words that are places in the pool, likewise."""
    parts: dict[tuple[int, str], int] = field(default_factory=dict)
    waiting: list[tuple[int, str]] = field(default_factory=list)
    calls: list[tuple[int, tuple[int, str]]] = field(default_factory=list)
    programs: list[dict[str, avro.Operations]] = field(default_factory=list)
    depth: int = 0

    def linked(self) -> npt.NDArray[np.int64]:
        for place, part in self.calls:
            self.words[place] = self.parts[part]
        code = np.array([*self.words, *[0] * _OPERANDS], np.int64)
        pool = np.frombuffer(bytes(self.pool) + bytes(-len(self.pool) % _WORD), np.int64)
        linked = np.concatenate([code, pool])
        linked[self.jumps] = linked[self.jumps] * _WORD + linked.ctypes.data
        linked[self.pooled] += linked[len(code) :].ctypes.data
        return linked

    def add(self, *words: int) -> None:
        self.words += words
        if len(self.words) > MAX_WORDS:
            raise TooLargeError

    def hole(self) -> int:
        """A word for a place that is not known yet. Returns where it is."""
        self.jumps.append(len(self.words))
        self.add(0)
        return self.jumps[-1]

    def fill(self, hole: int) -> None:
        self.words[hole] = len(self.words)

    def data(self, data: bytes) -> None:
        """The address and the size of bytes."""
        self.pooled.append(len(self.words))
        self.add(len(self.pool), len(data))
        self.pool += data

    def insert(self, data: bytes) -> None:
        if data:
            self.add(op.INSERT)
            self.data(data)

    def whole(self, operations: tuple[plain.Operation, ...], behind: int) -> None:
        """Operations that use all bytes but the last ones, which are `behind` them."""
        self.add(op.ENTER, behind)
        for number, operation in enumerate(operations):
            self.operation(operation, fixed_size(operations[number + 1 :]))
        self.add(op.LEAVE, sum(isinstance(each, plain.InsertSize) for each in operations))

    def operation(self, operation: plain.Operation, behind: int) -> None:
        match operation:
            case plain.Copy(size=None) | plain.Skip(size=None):
                self.add(op.COPY_REST if isinstance(operation, plain.Copy) else op.SKIP_REST, behind)
            case plain.Copy(size=int(size)) | plain.Skip(size=int(size)) | plain.Reverse(size=size):
                self.add(_SIZED[type(operation)], size, behind)
            case plain.SpanOperation(does=does):
                self.add(op.SPAN if does == "copy" else op.SKIP_SPAN, behind)
            case plain.Insert(data=data):
                self.insert(data)
            case _:
                _PLAIN[type(operation)](self, operation, behind)

    def choose(self, operation: plain.Choose, behind: int) -> None:
        self.add(op.ENTER, behind)
        self.add(op.CHOOSE, len(operation.cases))
        holes = []
        for prefix, _ in operation.cases:
            self.data(prefix)
            holes.append(self.hole())
        ends = []
        for hole, (_, operations) in zip(holes, operation.cases, strict=True):
            self.fill(hole)
            self.whole(operations, 0)
            self.add(op.JUMP)
            ends.append(self.hole())
        for end in ends:
            self.fill(end)
        self.add(op.LEAVE, 0)

    def resolve(self, operation: plain.Avro, behind: int) -> None:
        program = operation.program
        self.programs.append(dict(program.named))
        self.add(op.ENTER, behind)
        self.value(program.main, len(self.programs) - 1)
        self.add(op.LEAVE, 0)

    def named_part(self, part: tuple[int, str]) -> None:
        program, name = part
        self.parts[part] = len(self.words)
        self.value(self.programs[program][name], program)
        self.add(op.RETURN)

    def value(self, operations: avro.Operations, program: int) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise TooLargeError
        for operation in operations:
            _AVRO[type(operation)](self, operation, program)
        self.depth -= 1

    def keep(self, operation: avro.Keep, _: int) -> None:
        kind = operation.kind
        if kind in BITS:
            self.add(op.NUMBER, BITS[kind])
        elif kind in ("bytes", "string"):
            self.add(op.TEXT, int(kind == "string"))
        elif kind == "boolean":
            self.add(op.BOOLEAN)
        else:
            self.add(op.COPY, operation.size, 0)

    def promote(self, operation: avro.Promote, _: int) -> None:
        if operation.kind == "float":
            self.add(op.PROMOTE_FLOAT)
        else:
            self.add(op.PROMOTE, BITS[operation.kind], 4 if operation.to == "float" else 8)

    def call(self, operation: avro.Call, program: int) -> None:
        part = (program, operation.name)
        if part not in self.parts and part not in self.waiting:
            self.waiting.append(part)
        self.add(op.CALL)
        self.calls.append((self.hole(), part))
        self.add(operation.level)

    def drop(self, operation: avro.Drop, program: int) -> None:
        self.add(op.DROP)
        self.value(operation.body, program)
        self.add(op.DROPPED)

    def choice(self, operation: avro.Choice, program: int) -> None:
        """Where each branch begins with its own number, that is kept as it is read."""
        heads = [avro.Emit(pack_varint(number)) for number in range(len(operation.branches))]
        is_kept = all(branch[:1] == (head,) for branch, head in zip(operation.branches, heads, strict=True))
        self.add(op.KEPT_CHOICE if is_kept else op.CHOICE, len(operation.branches))
        holes = [self.hole() for _ in operation.branches]
        ends = []
        for hole, branch in zip(holes, operation.branches, strict=True):
            self.fill(hole)
            self.value(branch[is_kept:], program)
            self.add(op.JUMP)
            ends.append(self.hole())
        for end in ends:
            self.fill(end)

    def repeat(self, operation: avro.Repeat, program: int) -> None:
        self.add(op.REPEAT)
        block = len(self.words)
        self.add(op.BLOCK, operation.least)
        end = self.hole()
        body = len(self.words)
        self.value(operation.body, program)
        self.add(op.ITEM)
        for place in (body, block):
            self.words[self.hole()] = place
        self.fill(end)

    def arrange(self, operation: avro.Arrange, program: int) -> None:
        if len(set(operation.order)) < len(operation.order):
            raise TooLargeError  # there would be no room for a part twice
        if not operation.parts:
            return  # the interpreter takes the first one's beginning for that of all
        for part in operation.parts:
            self.add(op.PART)
            self.value(part, program)
        self.add(op.ARRANGE, len(operation.parts), len(operation.order), *operation.order)


_SIZED = {plain.Copy: op.COPY, plain.Skip: op.SKIP, plain.Reverse: op.REVERSE}
_PLAIN: dict[type, Callable[[ByteCodeWriter, Any, int], None]] = {
    plain.SkipSize: lambda writer, _, behind: writer.add(op.SKIP_SIZE, behind),
    plain.InsertSize: lambda writer, _, __: writer.add(op.INSERT_SIZE),
    plain.Choose: ByteCodeWriter.choose,
    plain.Avro: ByteCodeWriter.resolve,
}
_AVRO: dict[type, Callable[[ByteCodeWriter, Any, int], None]] = {
    avro.Keep: ByteCodeWriter.keep,
    avro.Promote: ByteCodeWriter.promote,
    avro.Emit: lambda writer, operation, _: writer.insert(operation.data),
    avro.Refuse: lambda writer, _, __: writer.add(op.REFUSE),
    avro.Call: ByteCodeWriter.call,
    avro.Drop: ByteCodeWriter.drop,
    avro.Choice: ByteCodeWriter.choice,
    avro.Repeat: ByteCodeWriter.repeat,
    avro.Arrange: ByteCodeWriter.arrange,
}
