"""Zigzag varints of up to 32 bits, as Kafka's ByteUtils.writeVarint writes them: seven bits a byte, lowest first."""

from __future__ import annotations

from formats.errors import InvalidEntryError, TruncatedEntryError

MAX_BYTES = 5


def pack_varint(number: int) -> bytes:
    """The number as a varint of at most five bytes."""
    left = ((number << 1) ^ (number >> 31)) & 0xFFFFFFFF
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


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
