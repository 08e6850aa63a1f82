"""States of streaming XXH64 (seed 0), which compiled code fills (`hashing`).

The algorithm is that of xxHash's specification. A state has eight words: bytes so far that left the buffer, bytes in
the buffer, four accumulators, two unused ones; then the buffer.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

PRIMES = P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
HEAD = 64
ROOM = 512
"""The size of the buffer: whole stripes of 32 bytes."""
STATE_SIZE = HEAD + ROOM
_MASK = (1 << 64) - 1


def new_states(count: int) -> npt.NDArray[np.uint64]:
    """So many states, one a row."""
    states = np.zeros((count, STATE_SIZE // 8), np.uint64)
    states[:, 2:6] = np.array([(P1 + P2) & _MASK, P2, 0, -P1 & _MASK], np.uint64)
    return states


def hexdigest(state: npt.NDArray[np.uint64]) -> str:
    """The hash of what was added to a state."""
    total, used = int(state[0]), int(state[1])
    lanes = [int(lane) for lane in state[2:6]]
    rest = state.tobytes()[HEAD : HEAD + used]
    whole = used & ~31
    for at in range(0, whole, 32):
        lanes = [_round(lane, part) for lane, part in zip(lanes, struct.unpack_from("<4Q", rest, at), strict=True)]
    size = total + used
    if size < 32:
        hashed = P5
    else:
        hashed = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            hashed = ((hashed ^ _round(0, lane)) * P1 + P4) & _MASK
    return f"{_avalanche(_tail((hashed + size) & _MASK, rest[whole:])):016x}"


def _tail(hashed: int, rest: bytes) -> int:
    at = 0
    while at + 8 <= len(rest):
        hashed = _rotate(hashed ^ _round(0, int.from_bytes(rest[at : at + 8], "little")), 27) * P1 + P4
        hashed, at = hashed & _MASK, at + 8
    if at + 4 <= len(rest):
        hashed ^= int.from_bytes(rest[at : at + 4], "little") * P1 & _MASK
        hashed, at = (_rotate(hashed, 23) * P2 + P3) & _MASK, at + 4
    for byte in rest[at:]:
        hashed = _rotate(hashed ^ (byte * P5 & _MASK), 11) * P1 & _MASK
    return hashed


def _avalanche(hashed: int) -> int:
    hashed = (hashed ^ hashed >> 33) * P2 & _MASK
    hashed = (hashed ^ hashed >> 29) * P3 & _MASK
    return hashed ^ hashed >> 32


def _round(lane: int, part: int) -> int:
    return _rotate((lane + part * P2) & _MASK, 31) * P1 & _MASK


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & _MASK
