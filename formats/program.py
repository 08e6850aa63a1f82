"""Byte programs: a conversion as data.

A program is a short list of operations over the bytes of a key and of a value, read from left to right. It can be
pickled, printed and fingerprinted, and run by any engine; `run_operations` defines what it means. An operation without
a size takes what the operations behind it leave; at the end nothing may be left over.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from formats.avro.program import AvroProgram, run_avro
from formats.encoding.varint import read_varint
from formats.errors import InvalidEntryError, TruncatedEntryError

SIZE_BYTES = 4
MAX_SIZE = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the next `size` bytes; None: the rest."""

    size: int | None = None

    def __str__(self) -> str:
        return "copy the rest" if self.size is None else f"copy {self.size}"


@dataclass(frozen=True, slots=True)
class Skip:
    """Leave out the next `size` bytes; None: the rest."""

    size: int | None = None

    def __str__(self) -> str:
        return "skip the rest" if self.size is None else f"skip {self.size}"


@dataclass(frozen=True, slots=True)
class Insert:
    """Write these bytes."""

    data: bytes

    def __str__(self) -> str:
        return f"insert {self.data.hex()}"


@dataclass(frozen=True, slots=True)
class Reverse:
    """Copy the next `size` bytes, the last one first: a number changes its byte order."""

    size: int

    def __str__(self) -> str:
        return f"reverse {self.size}"


@dataclass(frozen=True, slots=True)
class SpanOperation:
    """Copy or leave out a zigzag varint and as many bytes as it says."""

    does: Literal["copy", "skip"]

    def __str__(self) -> str:
        return f"{self.does} a span"


@dataclass(frozen=True, slots=True)
class SkipSize:
    """Leave out four bytes, which say in little-endian how many follow."""

    def __str__(self) -> str:
        return "skip the size of the rest"


@dataclass(frozen=True, slots=True)
class InsertSize:
    """Write how many bytes are written behind this, as four bytes in little-endian."""

    def __str__(self) -> str:
        return "insert the size of the rest"


@dataclass(frozen=True, slots=True)
class Choose:
    """Choose the operations for the rest by its prefix, which they do not see; no prefix begins with another."""

    cases: tuple[tuple[bytes, tuple[Operation, ...]], ...]

    def __str__(self) -> str:
        cases = (f"{prefix.hex()}: {', '.join(map(str, operations))}" for prefix, operations in self.cases)
        return f"choose ({'; '.join(cases)})"


@dataclass(frozen=True, slots=True)
class Avro:
    """Read the rest as one Avro value and write it by another schema."""

    program: AvroProgram

    def __str__(self) -> str:
        return f"avro ({self.program})"


Operation = Copy | Skip | Insert | Reverse | SpanOperation | SkipSize | InsertSize | Choose | Avro
IDENTITY: tuple[Operation, ...] = (Copy(),)


@dataclass(frozen=True, slots=True)
class ByteProgram:
    """The operations for the bytes of each key and each value."""

    key: tuple[Operation, ...]
    value: tuple[Operation, ...]

    def __str__(self) -> str:
        return f"key: {', '.join(map(str, self.key))}; value: {', '.join(map(str, self.value))}"

    @property
    def fingerprint(self) -> str:
        """A digest, equal for programs that do the same; the plan stores it."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:16]


def fixed_size(operations: tuple[Operation, ...]) -> int:
    """The smallest size of an input in bytes."""
    return sum(map(_least, operations))


def _least(operation: Operation) -> int:
    match operation:
        case Copy(size=None) | Skip(size=None) | Insert() | InsertSize() | Choose() | Avro():
            return 0
        case SpanOperation():
            return 1
        case SkipSize():
            return SIZE_BYTES
        case _:
            assert operation.size is not None
            return operation.size


def run_operations(operations: tuple[Operation, ...], data: bytes) -> bytes:
    """The converted data. Raises TruncatedEntryError where it is too short, InvalidEntryError where it does not fit."""
    if len(data) < fixed_size(operations):
        raise TruncatedEntryError("entry", len(data), fixed_size(operations))
    run = _OperationsRun(data)
    for number, operation in enumerate(operations):
        run.step(operation, behind=fixed_size(operations[number + 1 :]))
    return run.finish()


class _OperationsRun:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._out: list[bytes] = []
        self._sizes: list[int] = []
        """Indexes in `_out` of sizes, which are known at the end."""

    def step(self, operation: Operation, *, behind: int) -> None:
        """`behind`: the bytes that the operations after it need."""
        match operation:
            case Insert(data=data):
                self._out.append(data)
            case InsertSize():
                self._sizes.append(len(self._out))
                self._out.append(b"")
            case Choose():
                self._out.append(_choose(operation, self._take(None, behind)))
            case Avro(program=program):
                self._out.append(run_avro(program, self._take(None, behind)))
            case SkipSize():
                stored = int.from_bytes(self._take(SIZE_BYTES, behind), "little", signed=True)
                if stored != (left := len(self._data) - self._at):
                    raise InvalidEntryError(f"the value says that it has {stored} bytes, and {left} follow")
            case _:
                self._out.append(self._moved(operation, behind))

    def _moved(self, operation: Copy | Skip | Reverse | SpanOperation, behind: int) -> bytes:
        if isinstance(operation, SpanOperation):
            taken = self._take(self._span_size(), behind)
            return taken if operation.does == "copy" else b""
        taken = self._take(operation.size, behind)
        if isinstance(operation, Reverse):
            return taken[::-1]
        return taken if isinstance(operation, Copy) else b""

    def _span_size(self) -> int:
        size, at = read_varint(self._data, self._at)
        if size < 0:
            raise InvalidEntryError(f"a span has a size of {size}")
        return at - self._at + size

    def _take(self, size: int | None, behind: int) -> bytes:
        end = len(self._data) - behind if size is None else self._at + size
        if end < self._at or end > len(self._data) - behind:
            raise TruncatedEntryError("entry", len(self._data), max(end, self._at) + behind)
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def finish(self) -> bytes:
        if self._at != len(self._data):
            raise InvalidEntryError(f"{len(self._data) - self._at} bytes are left over")
        for place in reversed(self._sizes):
            size = sum(map(len, self._out[place + 1 :]))
            if size > MAX_SIZE:
                raise InvalidEntryError(f"a value of {size} bytes is larger than its size can say")
            self._out[place] = size.to_bytes(SIZE_BYTES, "little", signed=True)
        return b"".join(self._out)


def _choose(operation: Choose, data: bytes) -> bytes:
    for prefix, operations in operation.cases:
        if data.startswith(prefix):
            return run_operations(operations, data[len(prefix) :])
    raise InvalidEntryError(f"no case for bytes that begin with {data[:16].hex() or 'nothing'}")
