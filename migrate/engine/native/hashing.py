"""Streaming XXH64 (seed 0) for compiled code; the algorithm is that of xxHash's
specification.

A state has eight words: bytes so far that left the buffer, bytes in the buffer, four accumulators, two unused
ones; then the buffer. Short pieces only go to the buffer, which is hashed when it is full.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from migrate.engine.native.raw_memory import Word, copy, inner, load64, load_hash, store64, store_hash

P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
HEAD = 64
ROOM = 2048
"""The size of the buffer: whole stripes of 32 bytes."""
STATE_SIZE = HEAD + ROOM
_MASK = (1 << 64) - 1


def new_states(count: int) -> npt.NDArray[np.uint64]:
    """So many states, one a row."""
    states = np.zeros((count, STATE_SIZE // 8), np.uint64)
    states[:, 2:6] = np.array([(int(P1) + int(P2)) & _MASK, int(P2), 0, -int(P1) & _MASK], np.uint64)
    return states


@inner
def consume(state: Word, at: Word, size: Word) -> None:
    """Hash whole stripes."""
    a, b, c, d = load_hash(state + 16), load_hash(state + 24), load_hash(state + 32), load_hash(state + 40)
    end = at + size
    while at < end:
        a += load_hash(at) * P2
        b += load_hash(at + 8) * P2
        c += load_hash(at + 16) * P2
        d += load_hash(at + 24) * P2
        a = (a << np.uint64(31) | a >> np.uint64(33)) * P1
        b = (b << np.uint64(31) | b >> np.uint64(33)) * P1
        c = (c << np.uint64(31) | c >> np.uint64(33)) * P1
        d = (d << np.uint64(31) | d >> np.uint64(33)) * P1
        at += 32
    store_hash(state + 16, a)
    store_hash(state + 24, b)
    store_hash(state + 32, c)
    store_hash(state + 40, d)
    store64(state, load64(state) + size)


@inner
def update(state: Word, at: Word, size: Word) -> None:
    """Add bytes."""
    used = load64(state + 8)
    if size < ROOM // 4 and size <= ROOM - used:
        copy(state + HEAD + used, at, size)
        store64(state + 8, used + size)
        return
    before = -used & 31
    copy(state + HEAD + used, at, before)
    consume(state, state + HEAD, used + before)
    whole = (size - before) & ~31
    consume(state, at + before, whole)
    left = size - before - whole
    copy(state + HEAD, at + before + whole, left)
    store64(state + 8, left)


@inner
def update_sizes(state: Word, key_size: Word, value_size: Word) -> None:
    """Add the sizes of a record, to a state that has nothing else."""
    used = load64(state + 8)
    if used == ROOM:
        consume(state, state + HEAD, ROOM)
        used = 0
    store64(state + HEAD + used, key_size | value_size << 32)
    store64(state + 8, used + 8)


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
        hashed = int(P5)
    else:
        hashed = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            hashed = ((hashed ^ _round(0, lane)) * int(P1) + int(P4)) & _MASK
    return f"{_avalanche(_tail((hashed + size) & _MASK, rest[whole:])):016x}"


def _tail(hashed: int, rest: bytes) -> int:
    at = 0
    while at + 8 <= len(rest):
        hashed = _rotate(hashed ^ _round(0, int.from_bytes(rest[at : at + 8], "little")), 27) * int(P1) + int(P4)
        hashed, at = hashed & _MASK, at + 8
    if at + 4 <= len(rest):
        hashed ^= int.from_bytes(rest[at : at + 4], "little") * int(P1) & _MASK
        hashed, at = (_rotate(hashed, 23) * int(P2) + int(P3)) & _MASK, at + 4
    for byte in rest[at:]:
        hashed = _rotate(hashed ^ (byte * int(P5) & _MASK), 11) * int(P1) & _MASK
    return hashed


def _avalanche(hashed: int) -> int:
    hashed = (hashed ^ hashed >> 33) * int(P2) & _MASK
    hashed = (hashed ^ hashed >> 29) * int(P3) & _MASK
    return hashed ^ hashed >> 32


def _round(lane: int, part: int) -> int:
    return _rotate((lane + part * int(P2)) & _MASK, 31) * int(P1) & _MASK


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & _MASK
