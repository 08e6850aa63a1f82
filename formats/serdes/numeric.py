"""`int16`, `int32`, `int64`, `float`, `double`: numbers of a fixed size.

| serde    | size | field                                |
|----------|------|--------------------------------------|
| `int16`  | 2    | signed integer                       |
| `int32`  | 4    | signed integer                       |
| `int64`  | 8    | signed integer                       |
| `float`  | 4    | IEEE 754 binary32, every bit kept    |
| `double` | 8    | IEEE 754 binary64, every bit kept    |

Kafka's serdes write them big-endian, Streamiz's little-endian (BitConverter on x86 and ARM).
Source: org.apache.kafka.common.serialization.{Short,Integer,Long,Float,Double}Serializer; Streamiz's
Int32SerDes, Int64SerDes, DoubleSerDes.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, Literal, get_args

from formats.errors import InvalidEntryError, TruncatedEntryError

Endian = Literal["big", "little"]
NumberName = Literal["int16", "int32", "int64", "float", "double"]
NUMBERS: tuple[NumberName, ...] = get_args(NumberName)
_STRUCTS = {
    (name, endian): Struct(order + code)
    for name, code in zip(NUMBERS, "hiqfd", strict=True)
    for endian, order in (("big", ">"), ("little", "<"))
}
_SINGLE = Struct(">f")


@dataclass(frozen=True, slots=True)
class NumberSerde:
    """One number of a fixed size; `encode(decode(b)) == b`."""

    name: NumberName
    endian: Endian = "big"

    @property
    def size(self) -> int:
        return _STRUCTS[self.name, self.endian].size

    def decode(self, payload: bytes) -> int | float:
        if len(payload) < self.size:
            raise TruncatedEntryError(self.name, len(payload), self.size)
        if len(payload) > self.size:
            raise InvalidEntryError(f"{self.name} has {len(payload)} bytes, not {self.size}")
        number: int | float
        (number,) = _STRUCTS[self.name, self.endian].unpack(payload)
        if self.name == "float" and _STRUCTS[self.name, self.endian].pack(number) != payload:
            raise InvalidEntryError("a signalling NaN, which a Python float does not keep")
        return number

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        """The number's bytes; a double may be given as an exact integer. Raises InvalidEntryError for anything else."""
        is_whole = self.name.startswith("int")
        number = _integer(payload, self.size) if is_whole else _real(payload, self.name)
        try:
            return _STRUCTS[self.name, self.endian].pack(number)
        except OverflowError as error:
            raise InvalidEntryError(f"{payload} is more than a {self.name} can hold") from error


def _integer(payload: object, size: int) -> int:
    if not isinstance(payload, int) or isinstance(payload, bool):
        raise InvalidEntryError(f"expected a whole number, got {type(payload).__name__}")
    bits = 8 * size
    if not -(1 << (bits - 1)) <= payload < 1 << (bits - 1):
        raise InvalidEntryError(f"{payload} is not a signed {bits}-bit number")
    return payload


def _real(payload: object, name: NumberName) -> float:
    if isinstance(payload, float):
        return payload
    if not isinstance(payload, int) or isinstance(payload, bool):
        raise InvalidEntryError(f"expected a number, got {type(payload).__name__}")
    try:
        number = float(payload)
    except OverflowError as error:
        raise InvalidEntryError(f"{payload} is more than a {name} can hold") from error
    if number != payload or (name == "float" and number != _SINGLE.unpack(_SINGLE.pack(number))[0]):
        raise InvalidEntryError(f"a {name} cannot hold {payload} exactly")
    return number
