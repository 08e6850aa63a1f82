"""Varints: seven bits a byte, the lowest first; numbers with a sign are zigzag.

Those that are read here have up to 32 bits, as Kafka's ByteUtils.writeVarint writes them; Avro has its own reader.
"""

from __future__ import annotations

from formats.errors import InvalidEntryError, TruncatedEntryError

MAX_BYTES = 5


def pack_varint(number: int) -> bytes:
    """The number as a zigzag varint."""
    return pack_unsigned(number << 1 if number >= 0 else ~(number << 1))


def pack_unsigned(number: int) -> bytes:
    """The number, which is not negative, as a varint without a sign."""
    head = bytearray()
    while number > 0x7F:
        head.append(number & 0x7F | 0x80)
        number >>= 7
    head.append(number)
    return bytes(head)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(number, offset of the next byte). Raises EntryError where it is cut off, too long, or longer than necessary."""
    left = 0
    for place in range(MAX_BYTES):
        if at + place >= len(data):
            raise TruncatedEntryError("varint", len(data), at + place + 1)
        byte = data[at + place]
        left |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if (byte == 0 and place > 0) or left > 0xFFFFFFFF:
                break
            return (left >> 1) ^ -(left & 1), at + place + 1
    raise InvalidEntryError("a varint is not in the form that its owner writes")
