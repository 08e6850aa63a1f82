"""Byte programs: a conversion as data.

A program is a short list of operations over the bytes of a key and of a value, read from left to right. It can be
pickled, printed and fingerprinted, and run by any engine; `run_operations` defines what it means.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from formats.errors import TruncatedEntryError


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the next `size` bytes; None: all that are left."""

    size: int | None = None

    def __str__(self) -> str:
        return "copy the rest" if self.size is None else f"copy {self.size}"


@dataclass(frozen=True, slots=True)
class Skip:
    """Leave out the next `size` bytes."""

    size: int

    def __str__(self) -> str:
        return f"skip {self.size}"


@dataclass(frozen=True, slots=True)
class Insert:
    """Write these bytes."""

    data: bytes

    def __str__(self) -> str:
        return f"insert {self.data.hex()}"


Operation = Copy | Skip | Insert
IDENTITY: tuple[Operation, ...] = (Copy(),)


@dataclass(frozen=True, slots=True)
class ByteProgram:
    """What to do with the bytes of each key and each value."""

    key: tuple[Operation, ...]
    value: tuple[Operation, ...]

    def __str__(self) -> str:
        return f"key: {', '.join(map(str, self.key))}; value: {', '.join(map(str, self.value))}"

    @property
    def fingerprint(self) -> str:
        """Equal for programs that do the same; the plan says which one was run."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:16]


def fixed_size(operations: tuple[Operation, ...]) -> int:
    """The bytes that an input must have at least."""
    return sum(operation.size or 0 for operation in operations if not isinstance(operation, Insert))


def run_operations(operations: tuple[Operation, ...], data: bytes) -> bytes:
    """Raises TruncatedEntryError where `data` is shorter than the fixed part."""
    if len(data) < fixed_size(operations):
        raise TruncatedEntryError("entry", len(data), fixed_size(operations))
    out = []
    at = 0
    for operation in operations:
        if isinstance(operation, Insert):
            out.append(operation.data)
            continue
        end = len(data) if operation.size is None else at + operation.size
        if isinstance(operation, Copy):
            out.append(data[at:end])
        at = end
    return b"".join(out)
