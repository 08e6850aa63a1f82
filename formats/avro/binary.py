"""Avro's binary encoding: numbers, and a cursor that reads and checks a value part by part.

An int or a long is a zigzag varint: the lowest seven bits first, and the highest bit of a byte set if another one
follows. Every writer uses as few bytes as possible, so that more of them mean a damaged value.
"""

from __future__ import annotations

import struct

from formats.avro.operations import MAX_EMPTY, Keep
from formats.errors import InvalidEntryError, TruncatedEntryError

PACK = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
BITS = {"int": 32, "long": 64}
WHAT = "the Avro value"


class AvroCursor:
    """Reads a value, part by part, and checks it. Raises EntryError."""

    __slots__ = ("at", "data", "empty")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.empty = 0
        """The number of items without bytes so far."""

    def invalid(self, reason: str) -> InvalidEntryError:
        return InvalidEntryError(f"{WHAT} is damaged at byte {self.at}: {reason}")

    def skip(self, size: int) -> int:
        """Skip `size` bytes, and return where they begin. Raises TruncatedEntryError."""
        begin = self.at
        if begin + size > len(self.data):
            raise TruncatedEntryError(WHAT, len(self.data), begin + size)
        self.at = begin + size
        return begin

    def number(self, kind: str = "long") -> int:
        value = shift = 0
        for byte in self.data[self.at : self.at + 10]:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                if not byte and shift > 7:
                    raise self.invalid("a number in more bytes than it needs")
                if value >> BITS[kind]:
                    raise self.invalid(f"a number too large for an {kind}" if kind == "int" else "a number too large")
                self.at += shift // 7
                return value >> 1 ^ -(value & 1)
        if shift == 70:
            raise self.invalid("a number of more than 10 bytes")
        raise TruncatedEntryError(WHAT, len(self.data), len(self.data) + 1)

    def index(self, limit: int) -> int:
        """Read the number of a branch or a symbol."""
        begin = self.at
        index = self.number()
        if not 0 <= index < limit:
            self.at = begin
            raise self.invalid(f"there is no branch or symbol with the number {index}")
        return index

    def text(self, *, utf8: bool) -> None:
        """Skip a string or bytes, and check a string's UTF-8."""
        begin = self.at
        size = self.number()
        if size < 0:
            self.at = begin
            raise self.invalid("a negative length")
        begin = self.skip(size)
        if utf8:
            try:
                str(self.data[begin : self.at], "utf-8")
            except UnicodeDecodeError:
                self.at = begin
                raise self.invalid("a string that is not UTF-8") from None

    def keep(self, operation: Keep) -> None:
        """Skip and check the value of a primitive type or a fixed."""
        kind = operation.kind
        if kind in BITS:
            self.number(kind)
        elif kind in ("bytes", "string"):
            self.text(utf8=kind == "string")
        elif kind == "boolean":
            if self.data[self.skip(1)] > 1:
                self.at -= 1
                raise self.invalid("a boolean that is neither 0 nor 1")
        else:
            self.skip(operation.size)

    def block(self, least: int) -> tuple[int, int | None]:
        """(items, where it ends if it has a size) of the next block of an array or a map; no items: the last one."""
        begin = self.at
        count = self.number()
        end = None
        if count < 0:
            count = -count
            size = self.number()
            end = self.at + size
            if size < 0 or end > len(self.data):
                self.at = begin
                raise self.invalid("a block whose size is wrong")
        if count * least > len(self.data) - self.at:
            raise TruncatedEntryError(WHAT, len(self.data), self.at + count * least)
        if not least:
            self.empty += count
            if self.empty > MAX_EMPTY:
                self.at = begin
                raise self.invalid(f"more than {MAX_EMPTY} items that take no bytes")
        return count, end
