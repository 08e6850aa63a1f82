"""`int32`, `int64`, `double`: numbers of a fixed size.

| serde    | size | field                                |
|----------|------|--------------------------------------|
| `int32`  | 4    | signed integer                       |
| `int64`  | 8    | signed integer                       |
| `double` | 8    | IEEE 754 binary64, every bit kept    |

Kafka's serdes write them big-endian, Streamiz's little-endian (BitConverter on x86 and ARM).
Source: org.apache.kafka.common.serialization.{Integer,Long,Double}Serializer; Streamiz Int32SerDes, Int64SerDes,
DoubleSerDes.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, Literal

from formats.errors import InvalidEntryError, TruncatedEntryError

Endian = Literal["big", "little"]
NumberName = Literal["int32", "int64", "double"]

SIZES: dict[NumberName, int] = {"int32": 4, "int64": 8, "double": 8}
_STRUCTS: dict[tuple[NumberName, Endian], Struct] = {
    ("int32", "big"): Struct(">i"),
    ("int32", "little"): Struct("<i"),
    ("int64", "big"): Struct(">q"),
    ("int64", "little"): Struct("<q"),
    ("double", "big"): Struct(">d"),
    ("double", "little"): Struct("<d"),
}


@dataclass(frozen=True, slots=True)
class NumberSerde:
    """One number of a fixed size; `encode(decode(b)) == b`."""

    name: NumberName
    endian: Endian = "big"

    @property
    def size(self) -> int:
        """The size of every payload in bytes."""
        return SIZES[self.name]

    def decode(self, payload: bytes) -> int | float:
        """The number of a payload. Raises EntryError for any other size."""
        if len(payload) < self.size:
            raise TruncatedEntryError(self.name, len(payload), self.size)
        if len(payload) > self.size:
            raise InvalidEntryError(f"{self.name} has {len(payload)} bytes, not {self.size}")
        number: int | float
        (number,) = _STRUCTS[self.name, self.endian].unpack(payload)
        return number

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        """The number's bytes; a double may be given as an exact integer. Raises InvalidEntryError for anything else."""
        number = _double(payload) if self.name == "double" else _integer(payload, self.size)
        return _STRUCTS[self.name, self.endian].pack(number)


def _integer(payload: object, size: int) -> int:
    if not isinstance(payload, int) or isinstance(payload, bool):
        raise InvalidEntryError(f"expected a whole number, got {type(payload).__name__}")
    bits = 8 * size
    if not -(1 << (bits - 1)) <= payload < 1 << (bits - 1):
        raise InvalidEntryError(f"{payload} is not a signed {bits}-bit number")
    return payload


def _double(payload: object) -> float:
    if isinstance(payload, float):
        return payload
    if not isinstance(payload, int) or isinstance(payload, bool):
        raise InvalidEntryError(f"expected a number, got {type(payload).__name__}")
    try:
        number = float(payload)
    except OverflowError as error:
        raise InvalidEntryError(f"{payload} is more than a double can hold") from error
    if number != payload:
        raise InvalidEntryError(f"a double cannot hold {payload} exactly")
    return number
