"""The loop over records: rewriting, comparing and digesting are three uses of it.

It is compiled, and called with the address of a block of 64-bit words, which is all that it shares with its caller.
RocksDB's functions are called by the addresses in that block. It calls nothing else, allocates nothing, and holds no
lock of Python's.
"""

from __future__ import annotations

from migrate.engine.native.hashing import STATE_SIZE, update, update_sizes
from migrate.engine.native.interpreter import REJECTED, interpret
from migrate.engine.native.raw_memory import (
    Word,
    call_1,
    call_2,
    call_6,
    call_flag,
    copy,
    inner,
    load64,
    load_words,
    outer,
    same,
    store64,
)

(
    SOURCE, TARGET, WRITER, VALID, NEXT, KEY, VALUE, PUT,
    KEY_PROGRAM, VALUE_PROGRAM, STACK, STACK_TOP, SET_ASIDE,
    KEY_ROOM, KEY_ROOM_SIZE, VALUE_ROOM, VALUE_ROOM_SIZE, LAST_KEY, LAST_KEY_ROOM,
    SCANNED, WRITTEN_SIZES, WRITTEN_KEYS, WRITTEN_VALUES,
    MOST_RECORDS, MOST_BYTES, TURN, HAS_BEGUN,
    READ, READ_SIZE, DONE, DONE_SIZE,
    LAST_KEY_SIZE, KEY_SIZE, VALUE_SIZE, TARGET_SIZE, ERROR, NEW_KEY, NEW_KEY_SIZE, NEW_VALUE, NEW_VALUE_SIZE,
    WORDS,
) = range(41)  # fmt: skip
"""The words of the block. Addresses, some of them 0: that is not there. `native` says what each is for."""
CONVERT, LEAVE_OUT, TAKE = range(3)
"""What becomes of the next record (TURN); TAKE: the new one is at NEW_KEY and NEW_VALUE."""
ENDED, PAUSED, BEGINS, JUDGE, KEY_FULL, VALUE_FULL, LAST_FULL, FAILED, DIFFERS = range(9)
"""Why the loop returns. But for ENDED and PAUSED it is at a record of which nothing was written or counted."""


@inner
def is_set_aside(prefixes: Word, key: Word, size: Word) -> Word:
    """Whether a key begins with one of the prefixes: their number, and the address and size of each."""
    for place in range(load64(prefixes)):
        prefix = prefixes + 8 + 16 * place
        length = load64(prefix + 8)
        if length <= size and same(load64(prefix), key, length) == 0:
            return True
    return False


@inner
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


@outer
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
