"""What `raw_memory` has, in Python: each access must lie within one region of a simulated memory, or an error says so.

The modules of the loop are executed a second time, as Python, over this one: see `checked`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Word = Any


class OverrunError(Exception):
    """Memory outside every region, or that may not be written to, was accessed."""


class Regions:
    """All memory there is: by address, bytes that may be read, and perhaps written to."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, int, memoryview, bool]] = {}
        self.functions: dict[int, Callable[..., Any]] = {}

    def put(self, name: str, base: int, content: bytearray | memoryview, *, writable: bool) -> int:
        """The region of that name, whose bytes begin at an address."""
        self.found[name] = base, base + len(content), memoryview(content), writable
        return base

    def bytes_at(self, address: Word, size: Word, *, write: bool = False) -> memoryview:
        """Raises OverrunError."""
        at, count = int(address), int(size)
        for base, end, content, writable in self.found.values():
            if base <= at <= at + count <= end and (writable or not write):
                return content[at - base : at - base + count]
        raise OverrunError(f"{'write' if write else 'read'} of {count} bytes at {at:x}")


MEMORY = Regions()


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


compiled_code = _same


def _load(layout: str, number: Callable[[Any], Any] = int) -> Callable[[Word], Any]:
    packed = struct.Struct(layout)

    def load(address: Word) -> Word:
        return number(packed.unpack(MEMORY.bytes_at(address, packed.size))[0])

    return load


def _store(layout: str, mask: int = 0) -> Callable[[Word, Word], None]:
    packed = struct.Struct(layout)

    def store(address: Word, value: Word) -> None:
        packed.pack_into(MEMORY.bytes_at(address, packed.size, write=True), 0, int(value) & mask if mask else value)

    return store


def load_words(count: int) -> Callable[[Word], tuple[int, ...]]:
    return lambda address: struct.unpack(f"<{count}q", MEMORY.bytes_at(address, 8 * count))


def move(to: Word, begin: Word, size: Word) -> None:
    MEMORY.bytes_at(to, size, write=True)[:] = bytes(MEMORY.bytes_at(begin, size))


def copy(to: Word, begin: Word, size: Word) -> None:
    if size and abs(int(to) - int(begin)) < size:
        raise OverrunError(f"a copy of {size} bytes from {int(begin):x} overlaps itself at {int(to):x}")
    move(to, begin, size)


def same(one: Word, other: Word, size: Word) -> int:
    return int(MEMORY.bytes_at(one, size) != MEMORY.bytes_at(other, size))


def call_flag(function: int, *arguments: Word) -> Word:
    return MEMORY.functions[function](*arguments)


call_1 = call_2 = call_6 = call_flag
load8, load32, load64 = _load("<B"), _load("<I"), _load("<q")
load_hash, load_float = _load("<Q", np.uint64), _load("<f", np.float32)
store8, store32, store64 = _store("<B", 0xFF), _store("<I", 0xFFFFFFFF), _store("<q")
store_hash = _store("<Q", (1 << 64) - 1)
store_float, store_double = _store("<f"), _store("<d")
