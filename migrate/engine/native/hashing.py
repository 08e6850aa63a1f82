"""Streaming XXH64 for compiled code, into the states of `digests`.

Short pieces only go to the buffer, which is hashed when it is full.
"""

from __future__ import annotations

import numpy as np

from migrate.engine.native.digests import HEAD, PRIMES, ROOM
from migrate.engine.native.raw_memory import Word, compiled_code, copy, load64, load_hash, store64, store_hash

P1, P2 = np.uint64(PRIMES[0]), np.uint64(PRIMES[1])


@compiled_code
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


@compiled_code
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


@compiled_code
def update_sizes(state: Word, key_size: Word, value_size: Word) -> None:
    """Add the sizes of a record, to a state that has nothing else."""
    used = load64(state + 8)
    if used == ROOM:
        consume(state, state + HEAD, ROOM)
        used = 0
    store64(state + HEAD + used, key_size | value_size << 32)
    store64(state + 8, used + 8)
