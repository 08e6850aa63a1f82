"""The loop over records: rewriting, comparing and digesting are three uses of it.

It is compiled, and called with the address of a block of 64-bit words, which is all that it shares with its caller.
RocksDB's functions are called by the addresses in that block. It calls nothing else, allocates nothing, and holds no
lock of Python's.
"""

from __future__ import annotations

from migrate.engine.native.digests import STATE_SIZE
from migrate.engine.native.hashing import update, update_sizes
from migrate.engine.native.interpreter import interpret
from migrate.engine.native.raw_memory import (
    Word,
    call_1,
    call_2,
    call_6,
    call_flag,
    compiled_code,
    copy,
    load64,
    load_words,
    same,
    store64,
)
from migrate.engine.native.words import (
    BEGINS,
    CONVERT,
    DIFFERS,
    DONE,
    DONE_SIZE,
    ENDED,
    ERROR,
    FAILED,
    JUDGE,
    KEY,
    KEY_FULL,
    KEY_SIZE,
    LAST_FULL,
    LAST_KEY_SIZE,
    LEAVE_OUT,
    NEW_KEY,
    NEW_KEY_SIZE,
    NEW_VALUE,
    NEW_VALUE_SIZE,
    NEXT,
    PAUSED,
    READ,
    READ_SIZE,
    REJECTED,
    TAKE,
    TARGET,
    TARGET_SIZE,
    TURN,
    VALID,
    VALUE,
    VALUE_FULL,
    VALUE_SIZE,
)


@compiled_code
def is_set_aside(prefixes: Word, key: Word, size: Word) -> Word:
    """Whether a key begins with one of the prefixes: their number, and the address and size of each."""
    for place in range(load64(prefixes)):
        prefix = prefixes + 8 + 16 * place
        length = load64(prefix + 8)
        if length <= size and same(load64(prefix), key, length) == 0:
            return True
    return False


@compiled_code
def finds(block: Word, key: Word, key_size: Word, value: Word, value_size: Word) -> Word:
    """Whether the target's next record is this one."""
    target = load64(block + 8 * TARGET)
    if not call_flag(load64(block + 8 * VALID), target):
        return False
    found = call_2(load64(block + 8 * KEY), target, block + 8 * TARGET_SIZE)
    if load64(block + 8 * TARGET_SIZE) != key_size or same(found, key, key_size) != 0:
        return False
    found = call_2(load64(block + 8 * VALUE), target, block + 8 * TARGET_SIZE)
    if load64(block + 8 * TARGET_SIZE) != value_size or same(found, value, value_size) != 0:
        return False
    call_1(load64(block + 8 * NEXT), target)
    return True


load_block = load_words(LAST_KEY_SIZE)


@compiled_code
def run(block: Word) -> Word:
    """Go through the records from where the source stands. Returns why it stopped."""
    (
        source,
        target,
        writer,
        valid,
        step,
        key_of,
        value_of,
        put,
        key_program,
        value_program,
        stack,
        top,
        set_aside,
        key_room,
        key_room_size,
        value_room,
        value_room_size,
        last_key,
        last_key_room,
        scanned,
        sizes,
        keys,
        values,
        most_records,
        most_bytes,
        turn,
        has_begun,
        read,
        read_size,
        done,
        done_size,
    ) = load_block(block)
    last_read, last_size = read + most_records, read_size + most_bytes
    outcome = ENDED
    while call_flag(valid, source):
        if read >= last_read or read_size >= last_size:
            outcome = PAUSED
            break
        key = call_2(key_of, source, block + 8 * KEY_SIZE)
        value = call_2(value_of, source, block + 8 * VALUE_SIZE)
        key_size, value_size = load64(block + 8 * KEY_SIZE), load64(block + 8 * VALUE_SIZE)
        new_key, new_key_size, new_value, new_value_size = key, key_size, value, value_size
        if turn == CONVERT:
            if set_aside and is_set_aside(set_aside, key, key_size):
                outcome = JUDGE
                break
            if key_program:
                new_key = key_room
                new_key_size = interpret(key_program, stack, top, key, key_size, key_room, key_room_size)
                if new_key_size < 0:
                    outcome = JUDGE if new_key_size == REJECTED else KEY_FULL
                    break
            if value_program:
                new_value = value_room
                new_value_size = interpret(value_program, stack, top, value, value_size, value_room, value_room_size)
                if new_value_size < 0:
                    outcome = JUDGE if new_value_size == REJECTED else VALUE_FULL
                    break
        elif turn == TAKE:
            new_key, new_key_size = load64(block + 8 * NEW_KEY), load64(block + 8 * NEW_KEY_SIZE)
            new_value, new_value_size = load64(block + 8 * NEW_VALUE), load64(block + 8 * NEW_VALUE_SIZE)
        if turn != LEAVE_OUT:
            if new_key_size > last_key_room:
                outcome = LAST_FULL
                break
            store64(block + 8 * NEW_KEY, new_key)
            store64(block + 8 * NEW_KEY_SIZE, new_key_size)
            if not has_begun:
                outcome = BEGINS
                break
            if target and not finds(block, new_key, new_key_size, new_value, new_value_size):
                outcome = DIFFERS
                break
            if writer:
                call_6(put, writer, new_key, new_key_size, new_value, new_value_size, block + 8 * ERROR)
                if load64(block + 8 * ERROR):
                    outcome = FAILED
                    break
            if sizes:
                update_sizes(sizes, new_key_size, new_value_size)
            if keys:
                update(keys, new_key, new_key_size)
            if values:
                update(values, new_value, new_value_size)
            if last_key:
                copy(last_key, new_key, new_key_size)
                store64(block + 8 * LAST_KEY_SIZE, new_key_size)
            done += 1
            done_size += new_key_size + new_value_size
        if scanned:
            update_sizes(scanned, key_size, value_size)
            update(scanned + STATE_SIZE, key, key_size)
            update(scanned + 2 * STATE_SIZE, value, value_size)
        read += 1
        read_size += key_size + value_size
        turn = CONVERT
        call_1(step, source)
    store64(block + 8 * READ, read)
    store64(block + 8 * READ_SIZE, read_size)
    store64(block + 8 * DONE, done)
    store64(block + 8 * DONE_SIZE, done_size)
    store64(block + 8 * TURN, turn)
    return outcome
