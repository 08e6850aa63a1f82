"""The loop that copies records from RocksDB into two buffers, of keys and of values, as columns of Arrow have them.

As `loop`, it shares nothing with its caller but a block of words, some of which it uses alike.
"""

from __future__ import annotations

from migrate.engine.native.raw_memory import Word, call_1, call_2, call_flag, compiled_code, copy, load64, store64
from migrate.engine.native.words import (
    ENDED,
    KEY,
    KEY_ENDS,
    KEY_FULL,
    KEY_ROOM,
    KEY_ROOM_SIZE,
    KEY_SIZE,
    MOST_BYTES,
    MOST_RECORDS,
    NEXT,
    PAUSED,
    READ,
    SOURCE,
    VALID,
    VALUE,
    VALUE_ENDS,
    VALUE_FULL,
    VALUE_ROOM,
    VALUE_ROOM_SIZE,
    VALUE_SIZE,
)


@compiled_code
def run(block: Word) -> Word:
    """Copy records from where the source stands, from the start of each room on. Returns why it stopped."""
    source, valid, step = load64(block + 8 * SOURCE), load64(block + 8 * VALID), load64(block + 8 * NEXT)
    key_of, value_of = load64(block + 8 * KEY), load64(block + 8 * VALUE)
    keys, keys_room = load64(block + 8 * KEY_ROOM), load64(block + 8 * KEY_ROOM_SIZE)
    values, values_room = load64(block + 8 * VALUE_ROOM), load64(block + 8 * VALUE_ROOM_SIZE)
    key_ends, value_ends = load64(block + 8 * KEY_ENDS), load64(block + 8 * VALUE_ENDS)
    most, most_bytes = load64(block + 8 * MOST_RECORDS), load64(block + 8 * MOST_BYTES)
    count = keys_size = values_size = 0
    outcome = ENDED
    while call_flag(valid, source):
        if count >= most or keys_size + values_size >= most_bytes:
            outcome = PAUSED
            break
        key = call_2(key_of, source, block + 8 * KEY_SIZE)
        value = call_2(value_of, source, block + 8 * VALUE_SIZE)
        key_size, value_size = load64(block + 8 * KEY_SIZE), load64(block + 8 * VALUE_SIZE)
        if key_size > keys_room - keys_size or value_size > values_room - values_size:
            outcome = KEY_FULL if key_size > keys_room - keys_size else VALUE_FULL
            break
        copy(keys + keys_size, key, key_size)
        copy(values + values_size, value, value_size)
        keys_size += key_size
        values_size += value_size
        store64(key_ends + 8 * count, keys_size)
        store64(value_ends + 8 * count, values_size)
        count += 1
        call_1(step, source)
    store64(block + 8 * READ, count)
    return outcome
