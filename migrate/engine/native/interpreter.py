"""Byte programs in a loop: the interpreter of what `byte_code` writes, for numba.

It reads a record at [at, end), and writes the converted one into [to, limit). What is kept as it is lies between
`begin` and `at`, and is copied at once when something else has to be written. Every read is checked against the end of
the record, every write against the limit, and every push against the end of the stack. What it does not take is left
to the portable engine, which knows the reason.
"""

from __future__ import annotations

import numpy as np

from formats.avro.operations import MAX_DEPTH, MAX_EMPTY
from formats.avro.program import EXACT
from formats.program import MAX_SIZE
from migrate.engine.native.raw_memory import (
    Word,
    compiled_code,
    copy,
    load8,
    load32,
    load64,
    load_float,
    load_hash,
    load_words,
    move,
    same,
    store8,
    store32,
    store64,
    store_double,
    store_float,
)
from migrate.engine.native.words import (
    ARRANGE,
    BLOCK,
    BOOLEAN,
    CALL,
    CHOICE,
    CHOOSE,
    COPY,
    COPY_REST,
    DROP,
    DROPPED,
    END,
    ENTER,
    FULL,
    INSERT,
    INSERT_SIZE,
    ITEM,
    JUMP,
    KEPT_CHOICE,
    LEAVE,
    NUMBER,
    PART,
    PROMOTE,
    PROMOTE_FLOAT,
    REFUSE,
    REJECTED,
    REPEAT,
    RETURN,
    REVERSE,
    SKIP,
    SKIP_REST,
    SKIP_SIZE,
    SKIP_SPAN,
    SPAN,
    TEXT,
)

NOT_ASCII = np.uint64(0x8080808080808080)
EXACT_FLOAT, EXACT_DOUBLE = np.uint64(EXACT["float"]), np.uint64(EXACT["double"])
load_operation = load_words(3)


@compiled_code
def varint(at: Word, end: Word, bits: Word) -> Word:
    """(zigzag number, where it ends; 0: there is none of so many bits, in as few bytes as possible)."""
    value = np.uint64(0)
    shift = 0
    while at < end:
        byte = load8(at)
        at += 1
        if shift == 63 and byte > 1:
            break
        value |= np.uint64(byte & 127) << np.uint64(shift)
        if byte < 128:
            if (byte == 0 and shift > 0) or (bits == 32 and value > np.uint64(0xFFFFFFFF)):
                break
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += 7
    return np.int64(0), np.int64(0)


@compiled_code
def write_count(to: Word, count: Word) -> Word:
    """Write a zigzag varint of a number that is not negative. Returns where it ends."""
    left = count << 1
    while left > 127:
        store8(to, left & 127 | 128)
        left >>= 7
        to += 1
    store8(to, left)
    return to + 1


@compiled_code
def count_size(count: Word) -> Word:
    """The size of the same in bytes."""
    size = 1
    left = count >> 6
    while left > 0:
        left >>= 7
        size += 1
    return size


@compiled_code
def is_utf8(at: Word, end: Word) -> Word:
    """Whether the bytes are UTF-8 as Python reads it: shortest form, no surrogates."""
    while at < end:
        if at + 8 <= end and load_hash(at) & NOT_ASCII == 0:
            at += 8
            continue
        byte = load8(at)
        if byte < 0x80:
            at += 1
            continue
        lowest, highest = 0x80, 0xBF
        if byte < 0xE0:
            more = 1
        elif byte < 0xF0:
            more = 2
            if byte == 0xE0:
                lowest = 0xA0
            elif byte == 0xED:
                highest = 0x9F
        else:
            more = 3
            if byte == 0xF0:
                lowest = 0x90
            elif byte == 0xF4:
                highest = 0x8F
        if byte < 0xC2 or byte > 0xF4 or at + more >= end:
            return False
        if load8(at + 1) < lowest or load8(at + 1) > highest:
            return False
        for place in range(2, more + 1):
            if load8(at + place) & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@compiled_code
def is_exact(number: Word, bits: Word) -> Word:
    """Whether a float of so many bits of precision holds the integer as it is."""
    left = np.uint64(number) if number >= 0 else np.uint64(0) - np.uint64(number)
    while left >> bits:
        if left & np.uint64(1):
            return False
        left >>= np.uint64(1)
    return True


@compiled_code
def flush(begin: Word, at: Word, to: Word, limit: Word) -> Word:
    """Copy what is kept. Returns where it ends; 0: there is no room."""
    size = at - begin
    if size > limit - to:
        return np.int64(0)
    if size > 0:
        copy(to, begin, size)
    return to + size


@compiled_code
def arrange(pc: Word, sp: Word, to: Word) -> Word:
    """Put the parts, which begin at the addresses on the stack, into another order; behind them is as much room."""
    parts, kept = load64(pc + 8), load64(pc + 16)
    first = sp - 8 * parts
    base = load64(first)
    away = to - base
    copy(to, base, away)
    out = base
    for place in range(kept):
        number = load64(pc + 24 + 8 * place)
        start = load64(first + 8 * number)
        stop = load64(first + 8 * number + 8) if number + 1 < parts else to
        copy(out, start + away, stop - start)
        out += stop - start
    return out


@compiled_code
def interpret(pc: Word, sp: Word, top: Word, at: Word, size: Word, to: Word, room: Word) -> Word:
    """Convert the `size` bytes at `at`. Returns the size of the converted record, REJECTED, or FULL.

    `pc`: the program; [sp, top): the stack.
    """
    end = at + size
    begin = at
    start = to
    limit = to + room
    top -= 32  # what one operation pushes
    depth = 0
    empty = 0
    while True:
        op, a, b = load_operation(pc)
        if op == NUMBER:
            _, at = varint(at, end, a)
            if at == 0:
                return REJECTED
            pc += 16
        elif op == TEXT:
            length, at = varint(at, end, 64)
            if at == 0 or length < 0 or length > end - at:
                return REJECTED
            if a and not is_utf8(at, at + length):
                return REJECTED
            at += length
            pc += 16
        elif op == COPY:
            if a > end - b - at:
                return REJECTED
            at += a
            pc += 24
        elif op == COPY_REST:
            if end - a < at:
                return REJECTED
            at = end - a
            pc += 16
        elif op == BOOLEAN:
            if at >= end or load8(at) > 1:
                return REJECTED
            at += 1
            pc += 8
        elif op == SPAN:
            length, at = varint(at, end, 32)
            if at == 0 or length < 0 or length > end - a - at:
                return REJECTED
            at += length
            pc += 16
        elif op == KEPT_CHOICE:
            index, at = varint(at, end, 64)
            if at == 0 or index < 0 or index >= a:
                return REJECTED
            pc = load64(pc + 16 + 8 * index)
        elif op == JUMP:
            pc = a
        elif op == ITEM:
            left = load64(sp - 16) - 1
            store64(sp - 16, left)
            if left:
                pc = a
            elif load64(sp - 8) and load64(sp - 8) != at:
                return REJECTED
            else:
                sp -= 16
                pc = b
        elif op == CALL:
            depth += b
            if depth > MAX_DEPTH or sp > top:
                return REJECTED
            store64(sp, pc + 24)
            store64(sp + 8, b)
            sp += 16
            pc = a
        elif op == RETURN:
            sp -= 16
            depth -= load64(sp + 8)
            pc = load64(sp)
        elif op == ENTER:
            if sp > top:
                return REJECTED
            store64(sp, end)
            sp += 8
            end -= a
            if end < at:
                return REJECTED
            pc += 16
        elif op == REFUSE:
            return REJECTED
        elif op == DROPPED:
            sp -= 8
            to = load64(sp)
            begin = at
            pc += 8
        elif op == END:
            return to - start
        else:
            to = flush(begin, at, to, limit)
            if to == 0:
                return FULL
            if op == INSERT:
                if b > limit - to:
                    return FULL
                copy(to, a, b)
                to += b
                pc += 24
            elif op == SKIP:
                if a > end - b - at:
                    return REJECTED
                at += a
                pc += 24
            elif op == SKIP_REST:
                if end - a < at:
                    return REJECTED
                at = end - a
                pc += 16
            elif op == SKIP_SPAN:
                length, at = varint(at, end, 32)
                if at == 0 or length < 0 or length > end - a - at:
                    return REJECTED
                at += length
                pc += 16
            elif op == REVERSE:
                length = a
                if length > end - b - at:
                    return REJECTED
                if length > limit - to:
                    return FULL
                for place in range(length):
                    store8(to + place, load8(at + length - 1 - place))
                at += length
                to += length
                pc += 24
            elif op == SKIP_SIZE:
                if end - a - at < 4 or load32(at) != end - at - 4 or end - at - 4 > MAX_SIZE:
                    return REJECTED
                at += 4
                pc += 16
            elif op == INSERT_SIZE:
                if limit - to < 4:
                    return FULL
                if sp > top:
                    return REJECTED
                store64(sp, to)
                sp += 8
                to += 4
                pc += 8
            elif op == LEAVE:
                if at != end:
                    return REJECTED
                for _ in range(a):
                    sp -= 8
                    length = to - load64(sp) - 4
                    if length > MAX_SIZE:
                        return REJECTED
                    store32(load64(sp), length)
                sp -= 8
                end = load64(sp)
                pc += 16
            elif op == CHOOSE:
                found = np.int64(0)
                case = pc + 16
                for _ in range(a):
                    length = load64(case + 8)
                    if length <= end - at and same(at, load64(case), length) == 0:
                        found = load64(case + 16)
                        at += length
                        break
                    case += 24
                if found == 0:
                    return REJECTED
                pc = found
            elif op == CHOICE:
                index, at = varint(at, end, 64)
                if at == 0 or index < 0 or index >= a:
                    return REJECTED
                pc = load64(pc + 16 + 8 * index)
            elif op == PROMOTE:
                number, at = varint(at, end, a)
                if at == 0:
                    return REJECTED
                if limit - to < b:
                    return FULL
                if b == 4:
                    if not is_exact(number, EXACT_FLOAT):
                        return REJECTED
                    store_float(to, np.float32(number))
                else:
                    if not is_exact(number, EXACT_DOUBLE):
                        return REJECTED
                    store_double(to, np.float64(number))
                to += b
                pc += 24
            elif op == PROMOTE_FLOAT:
                if end - at < 4 or load_float(at) != load_float(at):
                    return REJECTED
                if limit - to < 8:
                    return FULL
                store_double(to, np.float64(load_float(at)))
                at += 4
                to += 8
                pc += 8
            elif op in (DROP, PART):
                if sp > top:
                    return REJECTED
                store64(sp, to)
                sp += 8
                pc += 8
            elif op == ARRANGE:
                base = load64(sp - 8 * a)
                if to - base > limit - to:
                    return FULL
                to = arrange(pc, sp, to)
                sp -= 8 * a
                pc += 24 + 8 * b
            elif op == REPEAT:
                if sp > top:
                    return REJECTED
                store64(sp, to)
                store64(sp + 8, 0)
                sp += 16
                pc += 8
            elif op == BLOCK:
                count, at = varint(at, end, 64)
                if at == 0:
                    return REJECTED
                stop = np.int64(0)
                if count < 0:
                    count = -count
                    length, at = varint(at, end, 64)
                    if at == 0 or count < 0 or length < 0 or length > end - at:
                        return REJECTED
                    stop = at + length
                least = a
                if least == 0:
                    if count > MAX_EMPTY - empty:
                        return REJECTED
                    empty += count
                elif count > (end - at) // least:
                    return REJECTED
                if limit - to < 10:
                    return FULL
                if count == 0:
                    store8(to, 0)
                    to += 1
                    sp -= 16
                    pc = b
                else:
                    place, total = load64(sp - 16), load64(sp - 8)
                    if sp > top:
                        return REJECTED
                    items = place if total == 0 else place + count_size(total)
                    total += count
                    behind = place + count_size(total)
                    if behind != items:
                        move(behind, items, to - items)
                        to += behind - items
                    write_count(place, total)
                    store64(sp - 8, total)
                    store64(sp, count)
                    store64(sp + 8, stop)
                    sp += 16
                    pc += 24
            else:
                return REJECTED
            begin = at
